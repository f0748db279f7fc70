"""Figures and tables of paper 002, Kpotufe and Sriperumbudur (2020), for
``benchmarks/papers.py``.
"""

from __future__ import annotations

import numpy as np
from paper_entries import Claim, Entry, mean, rows, slope
from score_results import grouped, number

TITLE = "Kpotufe and Sriperumbudur (2020), *Gaussian sketching yields a J-L lemma in RKHS*"


def clusters() -> Entry:
    claims = []
    for (data,), group in grouped(rows("spectral_sketches_figure1"), "data").items():
        at = grouped(
            [row for row in group if row["scale"] == 1.0 and row["components"] == 2], "method"
        )
        shares = {method: mean(found, "plane") for (method,), found in at.items()}
        claims.append(
            Claim(
                f"In two dimensions K-JL separates {data} that no line separates, as a random "
                f"version of KPCA.",
                f"share on the right side of a line: {shares['K-JL']:.2f} after K-JL, "
                f"{shares['KPCA']:.2f} after KPCA, {shares['k-means']:.2f} before",
                shares["K-JL"] > shares["k-means"] + 0.05,
            )
        )
    return Entry("002", "Figure 1, two clusters", sketches_command("figure1"), claims)


def sketches_command(part: str) -> str:
    return f"python benchmarks/spectral_sketches.py --seeds 30 --only {part}"


def data_sets() -> Entry:
    limits = (
        "it describes three data sets (Avila, IoT, Bank Notes) that this repository does not have"
    )
    return Entry(
        "002", "Table 1, data", f"{sketches_command('table2')} --data PATH.csv", [], limits
    )


def clustering() -> Entry:
    found, seconds = rows("spectral_sketches_table2"), rows("spectral_sketches_times")
    names, close, stable, shown = [], 0, 0, []
    for (data,), group in grouped(found, "data").items():
        by_method = {
            method: [row["rand"] for row in one]
            for (method,), one in grouped(group, "method").items()
        }
        ours, others = by_method["K-JL"], [by_method[name] for name in ("Nyström", "KPCA")]
        names.append(data)
        close += all(np.mean(ours) > np.mean(other) - 0.011 for other in others)
        stable += all(np.std(ours, ddof=1) < np.std(other, ddof=1) for other in others)
        spreads = " / ".join(number(float(np.std(one, ddof=1))) for one in (ours, *others))
        shown.append(
            (
                f"{data} {' / '.join(f'{np.mean(one):.3f}' for one in (ours, *others))}",
                f"{data} {spreads}",
            )
        )
    quick, times = 0, []
    for (data,), group in grouped(seconds, "data").items():
        medians = {
            m: float(np.median([row["seconds"] for row in one]))
            for (m,), one in grouped(group, "method").items()
        }
        quick += medians["K-JL"] <= 1.05 * min(medians["Nyström"], medians["KPCA"])
        times.append(
            f"{data} {' / '.join(number(1e3 * medians[m]) for m in ('K-JL', 'Nyström', 'KPCA'))}"
        )
    claims = [
        Claim(
            "K-JL clusters as well as Nyström and KPCA (Rand indices at most 0.011 lower).",
            f"on {close} of {len(names)} data sets; K-JL / Nyström / KPCA: "
            f"{', '.join(one for one, _ in shown)}",
            close == len(names),
        ),
        Claim(
            "K-JL is the most stable.",
            f"on {stable} of {len(names)}; standard deviations: "
            f"{', '.join(one for _, one in shown)}",
            stable == len(names),
        ),
        Claim(
            "K-JL takes the least time.",
            f"within 5% of the least at {quick} of {len(times)} sizes; K-JL / Nyström / KPCA in "
            f"ms: {', '.join(times)}",
            quick == len(times),
        ),
    ]
    limits = (
        f"Rand indices on other data ({', '.join(names)}); `--data PATH.csv` measures the paper's, "
        "which this repository does not have"
    )
    return Entry(
        "002", "Table 2, Rand index and time", sketches_command("table2,times"), claims, limits
    )


def sketch_sizes() -> Entry:
    found = rows("spectral_sketches_figure2")
    claims, stable, cells = [], 0, 0
    for (data, method), group in grouped(found, "data", "method").items():
        at_n = grouped([row for row in group if row["components"] == 10], "subsample").values()
        at_d = grouped([row for row in group if row["subsample"] == 200], "components").values()
        spread = [float(np.ptp([mean(one, "rand") for one in groups])) for groups in (at_n, at_d)]
        here = (
            f"its mean varies by {number(spread[0])} over n at d = 10, "
            f"by {number(spread[1])} over d at n = 200"
        )
        statement = f"For the Rand index n matters more than d: {method}, {data}."
        claims.append(Claim(statement, here, spread[0] > spread[1]))
    for group in grouped(found, "data", "subsample", "components").values():
        spreads = {
            m: float(np.std([row["rand"] for row in one]))
            for (m,), one in grouped(group, "method").items()
        }
        cells += max(spreads.values()) > 0
        stable += max(spreads.values()) > 0 and spreads["K-JL"] <= min(spreads.values())
    here = (
        f"it has the least standard deviation in {stable} of {cells} cells "
        "in which any method varies"
    )
    claims.append(Claim("K-JL is the most stable.", here, stable > cells / 2))
    limits = "two shapes of figure 1 instead of IoT, which this repository does not have"
    return Entry("002", "Figure 2, sizes n and d", sketches_command("figure2"), claims, limits)


def rate_of_sketches() -> Entry:
    found = grouped(rows("spectral_sketches_theorem1"), "subsample", "components")
    errors = {size: mean(group, "error") for size, group in found.items()}
    sides = sorted({n for n, _ in errors})
    fitted = slope((n, errors[n, n]) for n in sides)
    ends = [number(errors[n, n]) for n in (sides[0], sides[-1])]
    apart = [errors[sides[0], sides[-1]], errors[sides[-1], sides[0]]]
    claims = [
        Claim(
            "Errors of inner products are of the order (n ∧ d)^-1/2.",
            f"slope {fitted:.2f} with n = d = {sides[0]} to {sides[-1]:,}; errors of {ends[0]} to "
            f"{ends[1]}, relative to the largest product",
            fitted < -0.4,
        ),
        Claim(
            "The smaller of n and d decides.",
            f"with one of the two {sides[-1]:,} and the other {sides[0]}: {number(apart[0])} (n "
            f"small), {number(apart[1])} (d small)",
            min(apart) > 2 * errors[sides[-1], sides[-1]],
        ),
    ]
    limits = "50 sections of one kernel and one distribution, not the whole unit ball"
    return Entry("002", "Theorem 1, the rate", sketches_command("theorem1"), claims, limits)


ENTRIES = (
    clusters,
    data_sets,
    clustering,
    sketch_sizes,
    rate_of_sketches,
)
