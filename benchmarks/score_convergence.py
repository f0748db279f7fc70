"""Convergence in n, compared with theorem 2: J = O(n^-(2b+1)/(2(b+1))), for a density in the family
with b = ½.

The theorem's parameters are λ ~ n^(-1/3) and m ~ n^(1/3) log n; it does not give the constants.
"""

from __future__ import annotations

import numpy as np
from score_problems import Bumps, fisher_divergence
from score_results import grouped, markdown, mean_and_spread

from kmc.scores import FullKEF, NystromKEF
from kmc.scores.densities import Gaussian

KEY = ("n", "seed", "rule")
SIZES = [100 * 2**k for k in range(9)]
RATE = -2 / 3
SMOOTHNESS = 0.5  # b
RULES = {
    "nyström, λ = n^(-1/3) / 10": lambda n: n ** (-1 / 3) / 10,
    "nyström, λ = n^(-1/3)": lambda n: n ** (-1 / 3),
    "nyström, λ by 5-fold selection": lambda n: "cv",
}
FULL = "full, λ = n^(-1/3) / 10"
LARGEST_FULL = 3200
ORDER = {"rule": [*RULES, FULL]}


def cells(options) -> list[tuple]:
    """(n, seed, rule)."""
    return [
        (n, seed, rule)
        for n in SIZES
        for seed in range(2 * options.seeds)
        for rule in ORDER["rule"]
        if rule != FULL or n <= LARGEST_FULL
    ]


def run(group: tuple, names: list[str], options):
    """Rows of one sample."""
    n, seed = group
    problem, rng = Bumps(), np.random.default_rng([seed, n])
    x, test = problem.sample(rng, n), problem.sample(np.random.default_rng(12345), 20000)
    true, base = problem.score(test), Gaussian(np.zeros(problem.dim), np.eye(problem.dim))
    m = int(np.ceil(n ** (1 / 3) * np.log(n)))
    for name in names:
        options_ = {"base": base, "bandwidth": 1.0, "random_state": seed}
        if name == FULL:
            estimator = FullKEF(regularization=RULES["nyström, λ = n^(-1/3) / 10"](n), **options_)
        else:
            estimator = NystromKEF(regularization=RULES[name](n), n_basis=m, **options_)
        estimator.fit(x)
        divergence = fisher_divergence(estimator.gradient(test), true)
        yield {"n": n, "seed": seed, "rule": name, "m": m, "divergence": divergence}


def slope(rows) -> tuple[float, float]:
    """Least-squares slope of log J in log n, and its standard error."""
    x, y = np.log([row["n"] for row in rows]), np.log([row["divergence"] for row in rows])
    design = np.column_stack([x - x.mean(), np.ones_like(x)])
    coefficients, residual, *_ = np.linalg.lstsq(design, y, rcond=None)
    variance = residual[0] / (len(x) - 2) if len(residual) else np.nan
    return float(coefficients[0]), float(np.sqrt(variance / np.sum(design[:, 0] ** 2)))


def tables(rows) -> dict[str, str]:
    """Markdown by title."""
    sizes = sorted({row["n"] for row in rows})
    lines = []
    for (rule,), group in grouped(rows, "rule").items():
        by_size = grouped(group, "n")
        fitted, error = slope(group)
        values = [mean_and_spread(by_size.get((n,), []), "divergence") for n in sizes]
        lines.append([rule, *values, f"{fitted:.2f} ± {error:.2f}"])
    lines.append(["theorem 2, b = ½", *[""] * len(sizes), f"{RATE:.2f}"])
    return {"divergence": markdown(["rule", *(f"n = {n}" for n in sizes), "slope"], lines)}


def pictures(rows, folder) -> None:
    """convergence.png."""
    from score_plots import curves, save

    figure, (panel,) = curves(1, width=6, height=4.2)
    panel.lines_of(rows, "n", "divergence", by="rule")
    start = np.mean(
        [
            row["divergence"]
            for row in rows
            if row["n"] == SIZES[0] and row["rule"] == next(iter(RULES))
        ]
    )
    n = np.array([SIZES[0], SIZES[-1]])
    panel.axis.plot(
        n,
        start * (n / n[0]) ** RATE,
        color="#999999",
        linestyle=":",
        label=r"$n^{-2/3}$ (theorem 2)",
    )
    panel.label("Convergence inside the family, d = 2", "n", r"$J$", log="xy")
    save(figure, [panel], folder / "scores_convergence.png", columns=2)
