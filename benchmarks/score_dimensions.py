"""Figure 1: Fisher divergence and time against the dimension, on ring and grid, for the best
parameters of each model.

The best parameters are chosen by the Fisher divergence itself, on the test points, as in the paper.
In addition: the choice that a user can make, from the same grid by 5-fold cross-validation of the
score objective, on the training points.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from score_models import (
    AUTOENCODER,
    FULL,
    REGULARIZATIONS,
    Model,
    best,
    lite_model,
    nystrom_model,
    original_lite_model,
)
from score_problems import Grid, Ring, fisher_divergence
from score_results import grouped, markdown, mean_and_spread, median, number

from kmc.scores import GaussianScore

KEY = ("set", "dim", "seed", "model")
SETS = {"ring": (lambda dim, seed: Ring(dim), 5000), "grid": (Grid, 1500)}
BANDWIDTHS = {"ring": 2.0 ** np.arange(-1.0, 2.5, 0.5), "grid": 2.0 ** np.arange(-2.0, 1.5, 0.5)}
TRAINING = 500
SELECTION_DIMS, SELECTION_BAR = (2, 5, 10), 1.15
AUTOENCODER_DIMS = (2, 5, 10, 20)  # a minute each
MODELS: dict[str, Model] = {
    "full": FULL,
    **{f"nyström m={m}": nystrom_model(m) for m in (42, 167)},
    **{f"lite m={m}": lite_model(m) for m in (42, 167, 500)},
    **{f"lite λ(K+I) n={n}": original_lite_model(n) for n in (42, 500)},
    "autoencoder": AUTOENCODER,
}
ORDER = {"model": ["zero", "Gaussian", *MODELS]}

REFERENCE = {  # results of an independent correct implementation, by set, dimension and model
    "zero": {"grid": (100, 252, 498, 998), "ring": (49, 201, 450)},
    "full": {"grid": (3.6, 16.6, 51, 113), "ring": (10.5, 29, 66)},
    "nyström m=42": {"grid": (3.7, 16.2, 69, 430), "ring": (39, 109, 130)},
    "nyström m=167": {"grid": (3.6, 16.6, 46, 99), "ring": (7.7, 35, 63)},
    "lite λ(K+I) n=42": {"grid": (11.3, 46, 146, 602), "ring": (46, 98, 285)},
    "lite λ(K+I) n=500": {"grid": (3.3, 11.8, 24, 59), "ring": (8.5, 22, 42)},
    "autoencoder": {"grid": (10.4, 74, 216, 307), "ring": (48, 166, 418)},
}
REFERENCE_DIMS = (2, 5, 10, 20)


def cells(options) -> list[tuple]:
    """(set, dim, seed, model)."""
    return [
        (name, dim, seed, model)
        for name in SETS
        for dim in options.dims
        for seed in range(options.seeds)
        for model in ORDER["model"]
        if model != "autoencoder" or dim in AUTOENCODER_DIMS
    ]


def run(group: tuple, names: list[str], options):
    """Rows of one data set."""
    name, dim, seed = group
    make, n_test = SETS[name]
    problem, rng = make(dim, seed), np.random.default_rng([seed, dim])
    x, test = problem.sample(rng, TRAINING), problem.sample(rng, n_test)
    true = problem.score(test)
    for model in names:
        if model == "zero":
            found = {"divergence": fisher_divergence(np.zeros_like(true), true)}
        elif model == "Gaussian":
            found = timed(GaussianScore(), x, test, true)
        else:
            found = measured(MODELS[model], x, test, true, BANDWIDTHS[name], seed)
        yield {"set": name, "dim": dim, "seed": seed, "model": model} | found


def measured(model: Model, x, test, true, bandwidths, seed) -> dict:
    """Divergence and time of a model at its best setting, and at its selected one."""
    _, setting = best(
        model, x, bandwidths, seed, lambda density: fisher_divergence(density.gradient(test), true)
    )
    make = partial(model.make, seed, x.shape[1])
    row = timed(make(**setting), model.samples(x), test, true) | setting
    if model.select and x.shape[1] in SELECTION_DIMS:
        estimator = make(bandwidth=list(bandwidths), regularization=list(REGULARIZATIONS))
        selected = timed(estimator, model.samples(x), test, true)
        row |= {f"selected_{key}": selected[key] for key in ("divergence", "fit_seconds")}
        row |= {
            "selected_bandwidth": estimator.bandwidth_,
            "selected_regularization": estimator.regularization_,
        }
    return row


def timed(estimator, x, test, true) -> dict:
    """Fit, and evaluate at the test points; processor time, which does not depend on other load."""
    begin = time.process_time()
    estimator.fit(x)
    fitted = time.process_time()
    gradient = estimator.gradient(test)
    end = time.process_time()
    divergence = fisher_divergence(gradient, true)
    return {
        "divergence": divergence,
        "fit_seconds": fitted - begin,
        "evaluation_seconds": end - fitted,
    }


def tables(rows) -> dict[str, str]:
    """Markdown by title."""
    return {
        "divergence": divergences(rows),
        "reference": references(rows),
        "seconds": seconds(rows),
        "selection": selections(rows),
    }


def divergences(rows) -> str:
    """Model × set and dimension."""
    columns = grouped(rows, "set", "dim")
    lines = []
    for (model,), group in grouped(rows, "model").items():
        by_column = grouped(group, "set", "dim")
        lines.append(
            [
                model,
                *(mean_and_spread(by_column.get(column, []), "divergence") for column in columns),
            ]
        )
    return markdown(["model", *(f"{name} {dim}" for name, dim in columns)], lines)


def references(rows) -> str:
    """kmc's results beside those of an independent implementation."""
    lines = []
    by_model = grouped(rows, "model", "set", "dim")
    for model, sets in REFERENCE.items():
        for name, values in sets.items():
            cells = []
            for dim, value in zip(REFERENCE_DIMS, values):
                ours = mean_and_spread(by_model.get((model, name, dim), []), "divergence")
                cells.append(f"{ours} ({value})" if ours else f"({value})")
            lines.append([model, name, *cells, *[""] * (len(REFERENCE_DIMS) - len(cells))])
    return markdown(
        ["model", "set", *(f"d = {dim}" for dim in REFERENCE_DIMS)], lines, text_columns=2
    )


def seconds(rows) -> str:
    """Model × dimension, medians over both sets and all seeds, of a fit and an evaluation at the
    best setting.
    """
    dims = sorted({row["dim"] for row in rows})
    lines = []
    for (model,), group in grouped(rows, "model").items():
        if model == "zero":
            continue
        by_dim = grouped(group, "dim")
        times = [
            number(
                median(by_dim.get((d,), []), "fit_seconds")
                + median(by_dim.get((d,), []), "evaluation_seconds")
            )
            for d in dims
        ]
        lines.append([model, *times])
    return markdown(["model", *(f"d = {dim}" for dim in dims)], lines)


def selections(rows) -> str:
    """Divergence of the setting chosen by cross-validation over that of the best setting of the
    same grid.
    """
    chosen = [
        row | {"ratio": row["selected_divergence"] / row["divergence"]}
        for row in rows
        if row.get("selected_divergence", "") != ""
    ]
    columns = grouped(chosen, "set", "dim")
    lines = []
    for (model,), group in [*grouped(chosen, "model").items(), (("all",), chosen)]:
        by_column = grouped(group, "set", "dim")
        ratios = [median(by_column.get(column, []), "ratio") for column in columns]
        lines.append([model, *map(number, ratios), number(median(group, "ratio"))])
    holds = median(chosen, "ratio") <= SELECTION_BAR
    head = ["model", *(f"{name} {dim}" for name, dim in columns), "median"]
    return (
        markdown(head, lines)
        + f"\n\nThe median is to be at most {SELECTION_BAR}: {'pass' if holds else 'FAIL'}."
    )


def pictures(rows, folder) -> None:
    """figure1.png: divergences on both sets, and times."""
    from score_plots import curves, save

    times = [
        row | {"seconds": row["fit_seconds"] + row["evaluation_seconds"]}
        for row in rows
        if row["model"] != "zero"
    ]
    figure, axes = curves(3)
    for ax, name in zip(axes, SETS):
        ax.lines_of([row for row in rows if row["set"] == name], "dim", "divergence")
        ax.label(f"{name}: Fisher divergence", "dimension", r"$J$")
    axes[2].lines_of(times, "dim", "seconds")
    axes[2].label("fit and evaluation, both sets", "dimension", "seconds")
    save(figure, axes, folder / "scores_figure1.png")
