"""Figure 3b: the held-out score objective over bandwidth and regularization, nyström m = 42 on the
Glass sketch.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
from score_glass import objective, split
from score_models import nystrom_model
from score_results import grouped, markdown, number

KEY = ("seed", "bandwidth", "regularization")
BANDWIDTHS = [float(f"{b:.4g}") for b in 2.0 ** np.arange(-1.0, 4.25, 0.5)]
REGULARIZATIONS = [float(f"{r:.4g}") for r in 10.0 ** np.arange(-8.0, 1.5, 0.5)]

ORDER: dict[str, list] = {}


def cells(options) -> list[tuple]:
    """(seed, bandwidth, regularization); empty without the sketch."""
    if not options.data:
        print("figure3b needs --data (the sketch): nothing new is run")
        return []
    return [(0, b, r) for b in BANDWIDTHS for r in REGULARIZATIONS]


def run(group: tuple, names: list[float], options):
    """Rows of a bandwidth."""
    seed, bandwidth = group
    fitting, validation = split(options.data, seed)
    model = nystrom_model(42)
    make = partial(model.make, seed, fitting.shape[1])
    path = model.path(make, fitting, {"bandwidth": bandwidth}, names)
    for regularization, density in zip(names, path):
        row = {"seed": seed, "bandwidth": bandwidth, "regularization": regularization}
        yield row | {"objective": objective(validation, density)}


def tables(rows) -> dict[str, str]:
    """The best regularization of each bandwidth."""
    lines = []
    for (bandwidth,), group in sorted(grouped(rows, "bandwidth").items()):
        least = min(group, key=lambda row: row["objective"])
        lines.append(
            [number(bandwidth), f"{least['regularization']:.0e}", f"{least['objective']:.2f}"]
        )
    return {"surface": markdown(["bandwidth", "best λ", "held-out objective"], lines)}


def pictures(rows, folder) -> None:
    """figure3b.png: the package's own plot of a validation surface."""
    from score_plots import curves, save

    from kmc.plots import plot_validation

    table = {
        name: np.array([row[name] for row in rows])
        for name in ("bandwidth", "regularization", "objective")
    }
    constant = {name: np.repeat("", len(rows)) for name in ("kernel", "base", "penalty")}
    figure, (panel,) = curves(1, width=6, height=4.2)
    plot_validation(SimpleNamespace(cv_results_=table | constant), ax=panel.axis)
    panel.axis.set_title("Glass, nyström m = 42: held-out objective", fontsize=10)
    save(figure, [], folder / "scores_figure3b.png")
