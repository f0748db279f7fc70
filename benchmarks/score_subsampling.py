"""Figure 2: all d components of m landmarks, or as many of the components of all samples ("nyström
D"), on the grid.
"""

from __future__ import annotations

import numpy as np
from score_dimensions import BANDWIDTHS, TRAINING, measured
from score_models import nystrom_model, subsampled_model
from score_problems import Grid
from score_results import grouped, markdown, mean_and_spread

KEY = ("dim", "seed", "model")
SIZES = (10, 20, 42)
MODELS = {f"nyström m={m}": nystrom_model(m, select=False) for m in SIZES} | {
    f"nyström D m={m}": subsampled_model(m, TRAINING) for m in SIZES
}

ORDER = {"model": list(MODELS)}
REFERENCE = {
    "nyström m=42": {2: 3.7, 5: 16.2, 10: 69, 20: 430},
    "nyström D m=42": {2: 3.7, 5: 15.5, 10: 47, 20: 154},
}
"""Results of an independent correct implementation."""


def cells(options) -> list[tuple]:
    """(dim, seed, model)."""
    return [
        (dim, seed, model)
        for dim in options.dims
        for seed in range(options.seeds)
        for model in MODELS
    ]


def run(group: tuple, names: list[str], options):
    """Rows of one data set, that of figure 1."""
    dim, seed = group
    problem, rng = Grid(dim, seed), np.random.default_rng([seed, dim])
    x, test = problem.sample(rng, TRAINING), problem.sample(rng, 1500)
    true = problem.score(test)
    for name in names:
        found = measured(MODELS[name], x, test, true, BANDWIDTHS["grid"], seed)
        yield {"dim": dim, "seed": seed, "model": name} | found


def tables(rows) -> dict[str, str]:
    """Markdown by title."""
    dims = sorted({row["dim"] for row in rows})
    lines = []
    for (model,), group in grouped(rows, "model").items():
        by_dim = grouped(group, "dim")
        reference = REFERENCE.get(model, {})
        beside = {dim: f" ({reference[dim]})" if dim in reference else "" for dim in dims}
        lines.append(
            [
                model,
                *(mean_and_spread(by_dim.get((d,), []), "divergence") + beside[d] for d in dims),
            ]
        )
    return {"divergence": markdown(["model", *(f"d = {dim}" for dim in dims)], lines)}


def pictures(rows, folder) -> None:
    """figure2.png: a panel for each of three sizes."""
    from score_plots import curves, save

    figure, panels = curves(len(SIZES), width=3.2)
    for panel, m in zip(panels, SIZES):
        chosen = [
            row | {"model": row["model"].split(" m=")[0]}
            for row in rows
            if row["model"].endswith(f" m={m}")
        ]
        panel.lines_of(chosen, "dim", "divergence")
        panel.label(f"grid, m = {m}", "dimension", r"$J$")
    save(figure, panels, folder / "scores_figure2.png")
