"""Plot draws: marginal distributions in pairs, and each chain in order."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from kmc.checks import is_whole
from kmc.diagnostics.draws import columns, labeled, labeled_posterior
from kmc.errors import KmcWarning
from kmc.plots.style import ACCENT, INK, LINES, SHADES, axes_or_new, group, require_matplotlib

# fraction of the draws inside each contour, from the outermost inwards
_MASSES = (0.95, 0.8, 0.6, 0.4, 0.2)
_BINS = 48
_POINTS = 2000  # of a line
_HISTOGRAM_BINS = 30
_BLOCKS = 60  # means along the run


def plot_pairs(
    idata: Any,
    var_names: Sequence[str] | None = None,
    *,
    max_rows: int | None = 10,
    labels: Mapping[str, str] | None = None,
    reference: Mapping[str, float] | None = None,
    figure: Any = None,
) -> np.ndarray:
    """Plot marginals on the diagonal, and below it every pair with its highest-density regions.

    Parameters
    ----------
    idata : InferenceData or DataTree
        The result of :func:`kmc.sample`; the chains are pooled.
    var_names : sequence of str, optional
        Variables of the posterior, or elements of them, ``"slope[A]"``; all of them by default. An
        element of an array is a separate column, named by the labels of its coordinates.
    max_rows : int or None
        Largest number of columns to draw, with a warning if there are more; None: all of them.
    labels : mapping of str to str, optional
        Labels that replace the names of columns (``"x[0]"`` for an element without a label).
    reference : mapping of str to float, optional
        Values to mark by a line, by the column's name.
    figure : matplotlib Figure or SubFigure, optional
        By default a new figure, of a size that suits the number of columns.

    Returns
    -------
    ndarray of Axes, shape (k, k)
        None above the diagonal, where the figure is empty. The figure is ``axes[0, 0].figure``.

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    ValueError
        A name is neither a variable of the posterior nor an element of one, or there are no draws.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray
    >>> import kmc
    >>> values = np.random.default_rng(0).standard_normal((4, 100, 2))
    >>> posterior = xarray.Dataset({"x": (("chain", "draw", "x_dim_0"), values)})
    >>> kmc.plot_pairs(
    ...     xarray.DataTree.from_dict({"posterior": posterior}), labels={"x[0]": "rate"}
    ... ).shape
    (2, 2)
    """
    require_matplotlib()
    if max_rows is not None and (not is_whole(max_rows) or max_rows < 1):
        raise ValueError(
            f"max_rows={max_rows!r}: expected a whole number of at least 1, or None for all rows"
        )
    draws = _vectors(idata, var_names)
    labels, reference = labels or {}, reference or {}
    names = list(draws)[:max_rows]
    if len(names) < len(draws):
        warnings.warn(
            f"The first {len(names)} of {len(draws)} columns are drawn: choose some with "
            f"var_names=[{names[0]!r}, ...] or raise max_rows (None draws all).",
            KmcWarning,
            stacklevel=2,
        )
    k = len(names)
    if figure is None:
        import matplotlib.pyplot as plt

        side = min(2.0 + 1.2 * k, 16.0)
        figure = plt.figure(figsize=(side, side))
    grid = figure.add_gridspec(
        k, k, wspace=0.07, hspace=0.07, left=0.07, right=0.985, bottom=0.07, top=0.985
    )
    axes = np.full((k, k), None, dtype=object)
    limits = [_limits(draws[name]) for name in names]
    for i, row in enumerate(names):
        for j, column in enumerate(names[: i + 1]):
            ax = axes[i, j] = figure.add_subplot(grid[i, j])
            if i == j:
                _marginal(ax, draws[row], limits[i])
            else:
                _pair(ax, draws[column], draws[row], limits[j], limits[i])
                _mark(ax.axhline, reference.get(row))
            _mark(ax.axvline, reference.get(column))
            _dress(ax, xlabel=labels.get(column, column) if i == k - 1 else None)
            if j == 0 and i > 0:
                ax.set_ylabel(labels.get(row, row), fontsize=9, color=INK)
            else:
                ax.tick_params(left=False, labelleft=False)
    if k > 1:
        figure.align_labels([ax for ax in axes.flat if ax is not None])
    return axes


def _vectors(idata, var_names) -> dict[str, np.ndarray]:
    """Return all draws of each chosen column as a vector, by the name of the column."""
    variables = labeled_posterior(idata)
    chosen = columns(variables, var_names)
    vectors = {
        column.name: variables[column.variable].values[(..., *column.place)].ravel()
        for column in chosen
    }
    if not vectors or next(iter(vectors.values())).size == 0:
        raise ValueError("idata has no posterior draws: there is nothing to plot.")
    return vectors


def _limits(values) -> tuple[float, float]:
    """Return limits that leave out half a per cent in each tail, with a margin."""
    low, high = np.quantile(values, [0.005, 0.995])
    air = 0.15 * (high - low) or 0.1 * abs(low) or 1.0
    return low - air, high + air


def _marginal(ax: Any, values, limits) -> None:
    ax.hist(
        values,
        bins=36,
        range=limits,
        color=SHADES[1],
        edgecolor=SHADES[3],
        linewidth=0.3,
        histtype="stepfilled",
    )
    ax.set_xlim(limits)
    ax.set_ylim(bottom=0)
    ax.spines[["left", "top", "right"]].set_visible(False)


def _pair(ax: Any, x, y, xlim, ylim) -> None:
    """Plot contours of the smoothed histogram around fractions of the draws, and draws outside."""
    density, xe, ye = np.histogram2d(x, y, bins=_BINS, range=(xlim, ylim))
    density = gaussian_filter(density, _BINS / 24)
    levels = _levels(density)
    ax.plot(x, y, ",", color=SHADES[2], rasterized=True, zorder=0)
    if np.all(np.diff(levels) > 0):
        centers = (xe[1:] + xe[:-1]) / 2, (ye[1:] + ye[:-1]) / 2
        ax.contourf(*centers, density.T, levels=[*levels, np.inf], colors=SHADES, zorder=1)
    ax.set(xlim=xlim, ylim=ylim)


def _levels(density) -> np.ndarray:
    """Return the heights above which the fractions ``_MASSES`` of the mass lie, ascending."""
    heights = np.sort(density, axis=None)[::-1]
    mass = np.cumsum(heights)
    return heights[
        np.minimum(np.searchsorted(mass, np.array(_MASSES) * mass[-1]), heights.size - 1)
    ]


def _mark(line, value) -> None:
    if value is not None:
        line(value, color=ACCENT, linewidth=0.7, alpha=0.8, zorder=2)


def _dress(ax: Any, xlabel: str | None) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(3, prune="both"))
    ax.yaxis.set_major_locator(MaxNLocator(3, prune="both"))
    ax.tick_params(
        labelsize=7, length=2, width=0.5, color=INK, labelcolor=INK, labelbottom=xlabel is not None
    )
    for spine in ax.spines.values():
        spine.set(linewidth=0.5, color=INK)
    if xlabel is not None:
        ax.set_xlabel(xlabel, fontsize=9, color=INK)


def plot_trace(
    idata: Any, var_names: Sequence[str] | None = None, *, max_rows: int = 8, figure: Any = None
) -> np.ndarray:
    """Plot the draws of each chain in order, and their distributions.

    Warm-up, if the result has it, is on the left of draw 0, shaded: its states are no draws from
    the posterior.

    Parameters
    ----------
    idata : InferenceData or DataTree
    var_names : sequence of str, optional
        Variables of the posterior, or elements of them, ``"slope[A]"``; all of them by default.
    max_rows : int
        Number of rows at most, the first ones.
    figure : matplotlib Figure or SubFigure, optional

    Returns
    -------
    ndarray of Axes, shape (k, 2)
        A row for each element: its trace, and the histogram of each chain.

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    ValueError
        A name is neither a variable of the posterior nor an element of one.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray
    >>> import kmc
    >>> values = np.random.default_rng(0).standard_normal((4, 100, 2))
    >>> posterior = xarray.Dataset({"x": (("chain", "draw", "x_dim_0"), values)})
    >>> kmc.plot_trace(xarray.DataTree.from_dict({"posterior": posterior}), ["x[1]"]).shape
    (1, 2)
    """
    require_matplotlib()
    variables = labeled_posterior(idata)
    warmup = group(idata, "warmup_posterior")
    before = (
        {}
        if warmup is None
        else {str(name): labeled(variable) for name, variable in warmup.data_vars.items()}
    )
    shown = columns(variables, var_names)[:max_rows]
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(9.0, 0.6 + 1.4 * len(shown)), layout="constrained")
    axes = figure.subplots(len(shown), 2, squeeze=False, width_ratios=[3, 1])
    for (left, right), column in zip(axes, shown, strict=True):
        values = variables[column.variable].values[(..., *column.place)]
        earlier = values[:, :0]
        if column.variable in before:
            earlier = before[column.variable].values[(..., *column.place)]
        _lines(left, np.concatenate([earlier, values], axis=1), -earlier.shape[1])
        _histograms(right, values)
        left.set_ylabel(column.name, fontsize=9, color=INK)
    axes[-1, 0].set_xlabel(
        "draw" + (" (negative: warm-up)" if before else ""), fontsize=9, color=INK
    )
    return axes


def _lines(ax: Any, values: np.ndarray, first: int) -> None:
    every = max(1, values.shape[1] // _POINTS)
    numbers = np.arange(first, first + values.shape[1])
    for chain, line in enumerate(values):
        ax.plot(numbers[::every], line[::every], linewidth=0.5, color=LINES[chain % len(LINES)])
    if first < 0:
        ax.axvspan(first, 0, color="0.92", linewidth=0, zorder=0)
    ax.tick_params(labelsize=7)
    ax.margins(x=0)


def _histograms(ax: Any, values: np.ndarray) -> None:
    edges = (
        np.linspace(values.min(), values.max(), _HISTOGRAM_BINS + 1)
        if np.ptp(values)
        else np.array([-0.5, 0.5]) + values[0]
    )
    for chain, line in enumerate(values):
        ax.stairs(
            np.histogram(line, edges)[0], edges, color=LINES[chain % len(LINES)], linewidth=0.9
        )
    ax.set(yticks=[])
    ax.tick_params(labelsize=7)


# Plot the acceptance along the run.


def plot_acceptance(idata: Any, *, ax: Any = None) -> Any:
    """Plot the acceptance rate of each chain along the run, averaged over blocks of draws.

    Warm-up, if the result has it, is on the left of draw 0. A fall during the main phase means that
    the chain has come to where the surrogate is poor.

    Parameters
    ----------
    idata : InferenceData or DataTree
        With the statistic "acceptance_rate".
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    ValueError
        There are no acceptance rates.
    """
    parts = [
        (group(idata, name), sign)
        for name, sign in (("warmup_sample_stats", -1), ("sample_stats", 1))
    ]
    known = [(part, sign) for part, sign in parts if part is not None and "acceptance_rate" in part]
    if not any(sign > 0 for _, sign in known):
        raise ValueError(
            "idata has no acceptance rates: expected a result of kmc.sample, with the group "
            "sample_stats"
        )
    ax = axes_or_new(ax, (9.0, 2.6))
    for part, sign in known:
        rates = part["acceptance_rate"].transpose("chain", "draw").values
        n = rates.shape[1]
        if n == 0:
            continue
        blocks = np.array_split(np.arange(n), min(_BLOCKS, n))
        where = [block.mean() - (n if sign < 0 else 0) for block in blocks]
        for chain, line in enumerate(rates):
            ax.plot(
                where,
                [line[block].mean() for block in blocks],
                linewidth=0.9,
                color=LINES[chain % len(LINES)],
            )
        if sign < 0:
            ax.axvline(0.0, color=INK, linewidth=0.7)
    ax.set(
        ylim=(0, 1),
        xlabel="draw" + (" (negative: warm-up)" if len(known) > 1 else ""),
        ylabel="acceptance",
    )
    return ax
