"""Plot the draws of each chain in order, with warm-up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kmc.diagnostics.draws import columns, labeled, labeled_posterior
from kmc.plots.style import INK, LINES, axes_or_new, group, require_matplotlib

_POINTS = 2000  # of a line
_BINS = 30


def plot_trace(
    idata: Any, var_names: Sequence[str] | None = None, *, max_rows: int = 8, figure: Any = None
) -> np.ndarray:
    """Plot the draws of each chain in order, and their distributions.

    Warm-up, if the result has it, is on the left of draw 0, shaded: its states are no draws from the posterior.

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
    before = {} if warmup is None else {str(name): labeled(variable) for name, variable in warmup.data_vars.items()}
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
    axes[-1, 0].set_xlabel("draw" + (" (negative: warm-up)" if before else ""), fontsize=9, color=INK)
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
    edges = np.linspace(values.min(), values.max(), _BINS + 1) if np.ptp(values) else np.array([-0.5, 0.5]) + values[0]
    for chain, line in enumerate(values):
        ax.stairs(np.histogram(line, edges)[0], edges, color=LINES[chain % len(LINES)], linewidth=0.9)
    ax.set(yticks=[])
    ax.tick_params(labelsize=7)


# Plot the acceptance along the run.

_BLOCKS = 60  # means along the run


def plot_acceptance(idata: Any, *, ax: Any = None) -> Any:
    """Plot the acceptance rate of each chain along the run, averaged over blocks of draws.

    Warm-up, if the result has it, is on the left of draw 0. A fall during the main phase means that the chain has come
    to where the surrogate is poor.

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
    parts = [(group(idata, name), sign) for name, sign in (("warmup_sample_stats", -1), ("sample_stats", 1))]
    known = [(part, sign) for part, sign in parts if part is not None and "acceptance_rate" in part]
    if not any(sign > 0 for _, sign in known):
        raise ValueError("idata has no acceptance rates: expected a result of kmc.sample, with the group sample_stats")
    ax = axes_or_new(ax, (9.0, 2.6))
    for part, sign in known:
        rates = part["acceptance_rate"].transpose("chain", "draw").values
        n = rates.shape[1]
        if n == 0:
            continue
        blocks = np.array_split(np.arange(n), min(_BLOCKS, n))
        where = [block.mean() - (n if sign < 0 else 0) for block in blocks]
        for chain, line in enumerate(rates):
            ax.plot(where, [line[block].mean() for block in blocks], linewidth=0.9, color=LINES[chain % len(LINES)])
        if sign < 0:
            ax.axvline(0.0, color=INK, linewidth=0.7)
    ax.set(ylim=(0, 1), xlabel="draw" + (" (negative: warm-up)" if len(known) > 1 else ""), ylabel="acceptance")
    return ax
