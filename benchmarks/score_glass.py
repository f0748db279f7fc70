"""Figure 3: acceptance of leapfrog trajectories along each model's gradient, for a posterior
without gradients.

The target is the marginal posterior of a Gaussian-process classifier's length scales on UCI Glass;
the samples are a sketch of it (``--data``), of which 500 fit the models and 1500 choose their
parameters by the score objective. From a random point of the sketch with a standard normal momentum
run 100 leapfrog steps of size 0.1. The hypothetical acceptance probability min(1, exp(H₀ - H_t)),
with the target's true (estimated) log-density in H, is averaged over the trajectory, from every
fifth step by the trapezoidal rule; ``with_start`` is the plain mean over the start, where it is
one, and every tenth step. ``sketch_width`` says whether the sketch is as wide as the posterior.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from score_models import (
    AUTOENCODER,
    FULL,
    Model,
    best,
    lite_model,
    nystrom_model,
    original_lite_model,
)
from score_results import grouped, markdown, mean_and_spread, median, number

from kmc.scores import GaussianScore

sys.path.append(str(Path(__file__).parents[1] / "examples"))  # the target is that of an example

from gp_classifier import GaussianProcessClassifier, read_glass

KEY = ("inputs", "seed", "model")
INPUTS = ("whitened", "standardized")
TRAINING, STEPS, STEP = 500, 100, 0.1
STRIDE = 5
BANDWIDTHS = 2.0 ** np.arange(0.0, 3.5, 0.5)
MODELS: dict[str, Model] = {
    "full": FULL,
    **{f"nyström m={m}": nystrom_model(m) for m in (42, 100, 200, 500)},
    **{f"lite λ(K+I) n={n}": original_lite_model(n) for n in (100, 500)},
    "lite m=100": lite_model(100),
    "autoencoder": AUTOENCODER,
}
ORDER = {"model": ["zero", "Gaussian", *MODELS], "inputs": list(INPUTS)}
REFERENCE = {
    "zero": 0.09,
    "Gaussian": 0.47,
    "full": 0.68,
    "nyström m=42": 0.62,
    "nyström m=100": 0.66,
    "nyström m=200": 0.71,
    "lite λ(K+I) n=100": 0.41,
    "lite λ(K+I) n=500": 0.63,
}
"""Results of an independent correct implementation, each ± .05 over splits."""


def cells(options) -> list[tuple]:
    """(inputs, seed, model); empty without the two files."""
    if not (options.data and options.glass):
        print("figure3 needs --data (the sketch) and --glass (glass.data): nothing new is run")
        return []
    return [
        (options.inputs, seed, model) for seed in range(options.seeds) for model in ORDER["model"]
    ]


def run(group: tuple, names: list[str], options):
    """Rows of one split; all models have the same starts."""
    inputs, seed = group
    fitting, validation = split(options.data, seed)
    target = GaussianProcessClassifier(*read_glass(options.glass, whiten=inputs == "whitened"))
    sketch = np.vstack([fitting, validation])
    width = relative_width(sketch, target, np.random.default_rng([seed, 2]))
    for name in names:
        begin = time.process_time()
        gradient, setting = tuned(name, fitting, validation, seed)
        row = {
            "inputs": inputs,
            "seed": seed,
            "model": name,
            "tuning_seconds": time.process_time() - begin,
        } | setting
        begin = time.process_time()
        found = acceptances(gradient, target, sketch, options.repetitions, seed)
        seconds = {"trajectory_seconds": time.process_time() - begin}
        each = np.mean(0.5 * (found[:, 1:] + found[:, :-1]), axis=1)
        low, high = np.quantile(each, [0.05, 0.95])
        row |= {"acceptance": float(each.mean()), "low": float(low), "high": float(high)} | seconds
        yield row | {
            "with_start": float(found[:, ::2].mean()),
            "repetitions": options.repetitions,
            "sketch_width": width,
        }


def split(path, seed) -> tuple[np.ndarray, np.ndarray]:
    """Samples to fit to, and the others."""
    sketch = np.load(path)
    order = np.random.default_rng(seed).permutation(len(sketch))
    return sketch[order[:TRAINING]], sketch[order[TRAINING:]]


def tuned(name, fitting, validation, seed):
    """The gradient of a model at its best setting by the held-out objective, and the setting."""
    if name == "zero":
        return np.zeros_like, {}
    if name == "Gaussian":
        return GaussianScore().fit(fitting).gradient, {}
    model = MODELS[name]
    _, setting = best(model, fitting, BANDWIDTHS, seed, partial(objective, validation))
    estimator = model.make(seed, fitting.shape[1], **setting).fit(model.samples(fitting))
    return estimator.gradient, setting


def objective(points, density) -> float:
    """The score-matching objective of a fitted density on points."""
    return float(
        np.mean(density.laplacian(points) + 0.5 * np.sum(density.gradient(points) ** 2, axis=1))
    )


def acceptances(gradient, target, sketch, repetitions: int, seed: int) -> np.ndarray:
    """Acceptance probabilities at the start and at every fifth step, (repetitions, 1 + STEPS /
    STRIDE).
    """
    rng = np.random.default_rng([seed, 1])
    x = sketch[rng.integers(len(sketch), size=repetitions)]
    p = rng.standard_normal(x.shape)
    start = np.array([target(row, rng) for row in x]) - 0.5 * np.sum(p**2, axis=1)
    found = [np.ones(repetitions)]
    for step in range(1, STEPS + 1):
        p = p + 0.5 * STEP * gradient(x)
        x = x + STEP * p
        p = p + 0.5 * STEP * gradient(x)
        if step % STRIDE == 0:
            energies = [_height(target, row, rng) for row in x] - 0.5 * np.sum(p**2, axis=1)
            found.append(np.exp(np.minimum(energies - start, 0.0)))
    return np.column_stack(found)


def relative_width(sketch, target, rng, count: int = 500, step: float = 0.05) -> float:
    """-E <x - m, ∇log π(x)> / d over the sketch, m its mean: one for draws of π, less if they are
    too narrow.

    By Stein's identity; the derivatives along x - m are differences.
    """
    x, center = rng.permutation(sketch)[:count], sketch.mean(axis=0)
    ends = [
        [target(center + (1.0 + sign * step) * (row - center), rng) for row in x]
        for sign in (-1.0, 1.0)
    ]
    return float(np.mean(np.subtract(*ends)) / (2.0 * step * target.dim))


def _height(target, x, rng) -> float:
    """The target's log-density; -inf where weights overflow."""
    return target(x, rng) if np.all(np.abs(x) < 30) else -np.inf


def tables(rows) -> dict[str, str]:
    """Markdown by title."""
    kinds = [inputs for (inputs,) in grouped(rows, "inputs")]
    lines = []
    for (model,), group in grouped(rows, "model").items():
        by_inputs = grouped(group, "inputs")
        first = by_inputs.get((kinds[0],), [])
        acceptances = [
            mean_and_spread(by_inputs.get((inputs,), []), "acceptance") for inputs in kinds
        ]
        quantiles = "–".join(
            mean_and_spread(first, name).split(" ± ")[0] for name in ("low", "high")
        )
        with_start = mean_and_spread(first, "with_start")
        reference = f"{REFERENCE[model]:.2f}" if model in REFERENCE else ""
        settings = ", ".join(sorted({_setting(row) for row in first}))
        lines.append(
            [
                model,
                *acceptances,
                with_start,
                reference,
                quantiles,
                number(median(first, "tuning_seconds")),
                settings,
            ]
        )
    head = [
        "model",
        *(f"{inputs} inputs" for inputs in kinds),
        "with the start",
        "reference (± .05)",
        "90 % of trajectories",
        "tuning s",
    ]
    width = (
        "\n\nWidth of the sketch, relative to the posterior: "
        f"{mean_and_spread(rows, 'sketch_width')}."
    )
    return {"acceptance": markdown([*head, "bandwidth / λ"], lines) + width}


def _setting(row) -> str:
    names = ("bandwidth", "regularization", "noise", "n_hidden")
    return "/".join(f"{row[name]:g}" for name in names if row.get(name, "") != "")


def pictures(rows, folder) -> None:
    """figure3.png: acceptance, with 90 % of the trajectories."""
    from score_plots import curves, look, save

    figure, (panel,) = curves(1, width=6.5, height=3.6)
    rows = [row for row in rows if row["inputs"] == "whitened"]
    for i, ((model,), group) in enumerate(grouped(rows, "model").items()):
        mean, low, high = (
            np.mean([row[name] for row in group]) for name in ("acceptance", "low", "high")
        )
        bars = [[max(mean - low, 0)], [max(high - mean, 0)]]
        panel.axis.errorbar(
            [i], [mean], yerr=bars, color=look(model)[0], marker="o", capsize=3, linestyle=""
        )
    names = [model for (model,) in grouped(rows, "model")]
    panel.label(
        "Glass: acceptance along trajectories, with 90 % quantiles",
        "",
        "acceptance probability",
        log="",
    )
    panel.axis.set_xticks(range(len(names)), names, rotation=30, ha="right")
    panel.axis.set_ylim(0, 1)
    save(figure, [panel], folder / "scores_figure3.png")
