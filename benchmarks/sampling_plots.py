"""``break-even.png`` from the results of sampling.py: ``python benchmarks/sampling.py --plots``.

The time for 1,000 effective samples against the cost of one evaluation. A method with an overhead
:math:`o` per evaluation and :math:`e` effective samples per evaluation needs :math:`1000 (o + c) /
e` if one evaluation takes :math:`c`. kmc pays above the cost at which its line crosses the lowest
of emcee's.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from peers import EMCEE, METHODS

STYLES: dict[str, dict[str, Any]] = {
    "kmc": {"color": "#c8553d", "linewidth": 2.2},
    "kmc adaptive Metropolis": {"color": "#33373d", "linestyle": "--"},
    "emcee stretch": {"color": "#1f6478"},
    "emcee DE": {"color": "#1f6478", "linestyle": "--"},
    "zeus": {"color": "#8a6d3b"},
    "pints ACMC": {"color": "#6a4c93"},
    "pints DREAM": {"color": "#6a4c93", "linestyle": "--"},
    "pymc DEMetropolisZ": {"color": "#7a7f87"},
}
PRICES = np.geomspace(1e-6, 10, 200)  # seconds
BREAK_EVEN_COLUMNS = 4


def draw(by_budget: dict[int, dict], folder: Path) -> None:
    """Draw the figure for the smallest budget, from summaries by budget and by (target, method)."""
    if by_budget:
        figure = break_even(by_budget[min(by_budget)])
        figure.savefig(folder / "break-even.png", dpi=120)
        plt.close(figure)


def break_even(found):
    """A panel per target, with the cost of an evaluation above which kmc is faster than emcee."""
    targets = list(dict.fromkeys(target for target, _ in found))
    figure, axes = _grid(
        math.ceil(len(targets) / BREAK_EVEN_COLUMNS), BREAK_EVEN_COLUMNS, sharex=True, sharey=True
    )
    for ax, target in zip(axes.flat, targets):
        for method in METHODS:
            if s := found.get((target, method)):
                ax.plot(
                    1000 * PRICES, seconds_per_thousand(s, PRICES), label=method, **STYLES[method]
                )
        ax.set(title=target, xscale="log", yscale="log")
        price = break_even_price(found, target)
        if price > 0:
            ax.axvline(1000 * price, color="#7a7f87", linewidth=0.8)
            ax.annotate(
                f" {1000 * price:.2g} ms",
                (1000 * price, 0.02),
                xycoords=("data", "axes fraction"),
                fontsize=8,
            )
    for ax in axes.flat[len(targets) :]:
        ax.set_axis_off()
    figure.supxlabel("milliseconds for one evaluation of the log-density")
    figure.supylabel("seconds for 1,000 effective samples")
    return _with_legend(figure, axes)


def seconds_per_thousand(summary: dict, price):
    """Time for a thousand effective samples if one evaluation takes `price` seconds."""
    return 1e6 * (summary["overhead_ms"] / 1000 + price) / summary["ess_per_1000"]


def break_even_price(found: dict, target: str) -> float:
    """Seconds per evaluation above which kmc is faster than every emcee move; 0 if always, NaN if
    never or unknown.
    """
    ours, prices = found.get((target, "kmc")), []
    for move in EMCEE:
        theirs = found.get((target, move))
        if ours is None or theirs is None:
            continue
        if ours["ess_per_1000"] <= theirs["ess_per_1000"]:
            return math.nan
        own, other = seconds_per_thousand(ours, 0.0), seconds_per_thousand(theirs, 0.0)
        prices.append((own - other) / (1e6 / theirs["ess_per_1000"] - 1e6 / ours["ess_per_1000"]))
    return max(0.0, *prices) if prices else math.nan


def _grid(rows, columns, **options):
    size = (3.2 * columns, 2.4 * rows + 0.6)
    return plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", **options)


def _with_legend(figure, axes):
    handles = {
        label: line
        for ax in axes.flat
        for line, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside upper center", ncols=5, frameon=False
    )
    return figure
