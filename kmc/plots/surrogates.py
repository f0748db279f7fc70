"""Plot the frozen surrogate against true log-density values, and the evidence found with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.checks import as_number
from kmc.model.convert import as_model
from kmc.model.evaluate import Evaluator
from kmc.plots.style import ACCENT, INK, LINES, SHADES, axes_or_new, require_matplotlib
from kmc.posterior.results import read
from kmc.surrogate.coordinates.bends import Bend
from kmc.surrogate.coordinates.transport import Identity

_POINTS = 2000  # of a cloud
_GRID = 121
_CURVE_POINTS = 3000
_NEEDED = {"log_evidence", "path_inverse_temperature", "path_down", "path_up"}


def plot_surrogate(
    idata: Any, model: Any = None, *, n_true: int = 9, max_columns: int = 6, figure: Any = None
) -> Any:
    """Plot the surrogate's error at all proposals, and slices of it through the best draw.

    Everything is in the unconstrained parameters, which the surrogate knows. A constant between
    surrogate and log-density has no effect on the draws, so their median difference is subtracted.

    Parameters
    ----------
    idata : InferenceData, DataTree, or path of a store
        A run of "kernel-hmc" with a frozen surrogate.
    model : Model, function, pymc.Model or bridgestan.StanModel, optional
        If given, the true log-density is evaluated on each slice: ``n_true`` times the number of
        columns evaluations.
    n_true : int
        Number of true values on each slice.
    max_columns : int
        Number of parameters at most, the first ones.
    figure : matplotlib Figure or SubFigure, optional

    Returns
    -------
    ndarray of Axes, shape (2, k)
        For each parameter: above, surrogate less truth at the proposals; below, the slice, and true
        values as dots.

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    TypeError, ValueError
        The result has no surrogate, or an argument is invalid.
    """
    require_matplotlib()
    n_true, most = as_number("n_true", n_true, 1), as_number("max_columns", max_columns, 1)
    run = read(idata, model).replicates[0]
    dim = run.draws.shape[2]
    points, truth = run.proposals.reshape(-1, dim), run.proposal_log_density.ravel()
    error = np.full(len(points), np.nan)
    known = np.isfinite(truth)
    error[known] = run.density.log_density(points[known]) - truth[known]
    error -= np.nanmedian(error) if known.any() else 0.0
    shift = _shift(run)
    best = run.draws.reshape(-1, dim)[np.argmax(run.log_density)]
    spread = run.draws.reshape(-1, dim).std(axis=0)
    evaluate = None if model is None else Evaluator(as_model(model, dim, "model"))
    k = min(dim, most)
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(0.6 + 2.6 * k, 4.4), layout="constrained")
    axes = figure.subplots(2, k, squeeze=False, sharex="col", sharey="row")
    shown = np.flatnonzero(np.isfinite(error))[:: max(1, len(error) // _POINTS)]
    for i, (upper, lower) in enumerate(axes.T):
        upper.plot(points[shown, i], error[shown], ".", markersize=2, color=SHADES[3])
        upper.axhline(0.0, color=ACCENT, linewidth=0.8)
        line = _line(best, spread, i, _GRID)
        lower.plot(
            line[:, i], run.density.log_density(line) - shift, color=SHADES[4], linewidth=1.2
        )
        if evaluate is not None:
            dots = _line(best, spread, i, n_true)
            lower.plot(dots[:, i], evaluate(dots), "o", markersize=4, color=ACCENT)
        lower.set_xlabel(f"x[{i}]", fontsize=9, color=INK)
    axes[0, 0].set_ylabel("surrogate - truth (nats)", fontsize=9, color=INK)
    axes[1, 0].set_ylabel("log-density", fontsize=9, color=INK)
    most_error = np.nanquantile(np.abs(error), 0.98) if known.any() else 1.0
    axes[0, 0].set_ylim(-1.2 * most_error or -1.0, 1.2 * most_error or 1.0)
    return axes


def _shift(run):
    """Return the median of surrogate less truth at the draws."""
    x = run.draws.reshape(-1, run.draws.shape[2])
    return float(np.median(run.density.log_density(x) - run.log_density.ravel()))


def _line(best, spread, i, n):
    """Return points (n, d) within three standard deviations of the best draw along a parameter."""
    line = np.tile(best, (n, 1))
    line[:, i] += spread[i] * np.linspace(-3.0, 3.0, n)
    return line


# Plot the coordinates in which a funnel or a ridge is straight, or heavy tails are light.


def plot_transport(idata: Any, *, max_rows: int = 3, figure: Any = None) -> np.ndarray:
    """Plot the draws in their own coordinates, and in those in which the surrogate was fitted.

    During warm-up, kmc looks for a parameter that sets the scale of others, for heavy tails and for
    a bent ridge. Where it finds one of them, the surrogate is one of transformed coordinates, in
    which the density is closer to a Gaussian.

    Parameters
    ----------
    idata : InferenceData, DataTree, or path of a store
        A run of "kernel-hmc" with a frozen surrogate.
    max_rows : int
        Number of parameters at most, those that are changed most.
    figure : matplotlib Figure or SubFigure, optional

    Returns
    -------
    ndarray of Axes, shape (k, 2)
        For each parameter that is changed, against the driver of the funnel, or against another
        parameter: the draws on the left, and transformed on the right.

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    TypeError, ValueError
        The result has no surrogate; or no funnel, heavy tails or bent ridge was found.
    """
    require_matplotlib()
    run = read(idata, None).replicates[0]
    transports = [component.transport for component in run.density.components]
    moving = [one for one in transports if not isinstance(one, Identity)]
    if not moving:
        raise ValueError(
            "idata: no funnel, heavy tails or bent ridge was found in this run: there is no "
            "transformation"
        )
    transport, driver = moving[0], moving[0].driver
    x = run.draws.reshape(-1, run.draws.shape[2])
    x = x[:: max(1, len(x) // _CURVE_POINTS)]
    u = transport(x)
    change = 1.0 - np.abs([np.corrcoef(*pair)[0, 1] for pair in zip(x.T, u.T, strict=True)])
    changed = [i for i in np.argsort(-change, kind="stable") if i != driver][:max_rows]
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(7.0, 0.6 + 2.4 * len(changed)), layout="constrained")
    axes = figure.subplots(len(changed), 2, squeeze=False)
    for (left, right), i in zip(axes, changed, strict=True):
        against = driver if driver is not None else (i + 1) % x.shape[1]
        for ax, points, name in ((left, x, "x"), (right, u, "u")):
            ax.plot(points[:, against], points[:, i], ".", markersize=2, color=SHADES[3])
            ax.set_xlabel(f"{name}[{against}]", fontsize=9, color=INK)
            ax.set_ylabel(f"{name}[{i}]", fontsize=9, color=INK)
    axes[0, 0].set_title("draws", fontsize=9, color=INK, loc="left")
    kind = f"a funnel: x[{driver}] sets the scale"
    if driver is None:
        kind = "a bent ridge" if isinstance(transport, Bend) else "heavy tails"
    axes[0, 1].set_title(kind, fontsize=9, color=INK, loc="left")
    return axes


def plot_evidence(found: Any, *, ax: Any = None) -> Any:
    """Plot the mass along the path from a Student-t density to the surrogate, and the evidence.

    The mass is plotted in both directions, which should agree: a gap means a mode that one of them
    does not know. The mark on the right is the log-evidence, with two standard errors: the mass of
    the surrogate after the bridge to the posterior.

    Parameters
    ----------
    found : xarray.Dataset
        From :func:`kmc.evidence`.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes
        For each run two lines, down and up, and a mark.

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    TypeError
        `found` is not from kmc.evidence.
    """
    if not hasattr(found, "data_vars") or not set(found.data_vars) >= _NEEDED:
        raise TypeError(f"found={type(found).__name__}: expected what kmc.evidence returned")
    ax = axes_or_new(ax)
    for i, name in enumerate(found["run"].values):
        one, color = found.isel(run=i), LINES[i % len(LINES)]
        beta = one["path_inverse_temperature"].values
        known = np.isfinite(beta)
        ax.plot(
            beta[known],
            one["path_up"].values[known],
            color=color,
            linewidth=1.2,
            label=f"{name}, up",
        )
        ax.plot(
            beta[known],
            one["path_down"].values[known],
            "--",
            color=color,
            linewidth=1.2,
            label=f"{name}, down",
        )
        value, error = float(one["log_evidence"]), 2.0 * float(one["se"])
        ax.errorbar(1.05, value, error, fmt="o", color=color, markersize=4, capsize=3)
    ax.axvline(1.0, color=ACCENT, linewidth=0.6)
    ax.set_xlabel(
        "inverse temperature: 0 Student-t, 1 surrogate; right of it: log-evidence",
        fontsize=9,
        color=INK,
    )
    ax.set_ylabel("log-mass (nats)", fontsize=9, color=INK)
    ax.legend(frameon=False, fontsize=8)
    return ax
