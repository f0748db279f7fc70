"""Plot the slow modes of chains."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import uniform_filter1d

from kmc.plots.style import ACCENT, INK, SHADES, require_matplotlib

MOST_DRAWS = 2000
"""Number of draws shown for each chain."""

MOST_PARAMETERS = 8
"""Number of bars for each mode."""


def plot_slow_modes(data: Any, n_modes: int = 3, *, figure: Any = None, **options: Any) -> np.ndarray:
    """Plot slow modes along the chains, and the parameters that they correlate with.

    A mode that correlates with no parameter is not visible in any trace plot.

    Parameters
    ----------
    data : InferenceData, DataTree, arrays, or the Dataset of :func:`kmc.diagnostics.slow_modes`
    n_modes : int
        Number of modes, the worst first.
    figure : matplotlib Figure or SubFigure, optional
    **options
        Options of :func:`kmc.diagnostics.slow_modes`.

    Returns
    -------
    ndarray of Axes, shape (n_modes, 2)

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> chains = np.random.default_rng(0).standard_normal((4, 100, 2))
    >>> kmc.plot_slow_modes(chains, n_modes=1, random_state=0).shape
    (1, 2)
    """
    require_matplotlib()
    from kmc.diagnostics import slow_modes

    modes = data if _is_result(data) else slow_modes(data, n_modes, **options)
    modes = modes.isel(mode=slice(n_modes))
    count = modes.sizes["mode"]
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(9.0, 0.6 + 1.7 * count), layout="constrained")
    axes = figure.subplots(count, 2, squeeze=False, width_ratios=[3, 1])
    for k, (trace, bars) in enumerate(axes):
        _trace(trace, modes.isel(mode=k))
        _bars(bars, modes.isel(mode=k))
    axes[-1, 0].set_xlabel("draw", fontsize=9, color=INK)
    axes[-1, 1].set_xlabel("correlation", fontsize=9, color=INK)
    return axes


def _is_result(data):
    return hasattr(data, "data_vars") and {"value", "ess", "rhat", "correlation"} <= set(data.data_vars)


def _trace(ax, mode):
    """Every chain, with its running mean."""
    value = mode["value"].transpose("chain", "draw").values
    stride = max(value.shape[1] // MOST_DRAWS, 1)
    draws = mode["draw"].values[::stride]
    colors = [ACCENT, SHADES[4], "#8a8d91", SHADES[2]]
    for number, chain in enumerate(value):
        color = colors[number % len(colors)]
        ax.plot(draws, chain[::stride], ",", color=color, alpha=0.6, rasterized=True)
        ax.plot(draws, uniform_filter1d(chain, max(len(chain) // 20, 1))[::stride], color=color, linewidth=1.2)
    ax.set_title(f"ESS {float(mode['ess']):.0f}, R-hat {float(mode['rhat']):.2f}", fontsize=9, color=INK, loc="left")
    ax.set_ylim(*np.quantile(value, [0.002, 0.998]))
    ax.tick_params(labelsize=7)
    ax.margins(x=0)


def _bars(ax, mode):
    correlation = np.nan_to_num(mode["correlation"].values)
    largest = np.argsort(-np.abs(correlation), kind="stable")[:MOST_PARAMETERS][::-1]
    ax.barh(np.arange(len(largest)), correlation[largest], color=SHADES[3])
    ax.set_yticks(np.arange(len(largest)), mode["parameter"].values[largest], fontsize=7)
    ax.axvline(0.0, color=INK, linewidth=0.5)
    ax.set_xlim(-1, 1)
    ax.tick_params(labelsize=7)
