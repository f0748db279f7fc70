"""Plot slow modes of chains, time scales against the lagtime, and the Chapman–Kolmogorov test."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import uniform_filter1d

from kmc.plots.style import ACCENT, INK, SHADES, axes_or_new, require_matplotlib

MOST_DRAWS = 2000
"""Number of draws shown for each chain."""

MOST_PARAMETERS = 8
"""Number of bars for each mode."""


def plot_implied_timescales(
    found: Any, *, unit: float = 1.0, unit_name: str = "samples", ax: Any = None
) -> Any:
    """Plot time scales against the lagtime.

    They are constant where the lagtime is long enough for a Markov process. Bands are two standard
    errors wide on either side.

    In the shaded area a time scale is shorter than the lagtime, and cannot be distinguished from
    noise.

    Parameters
    ----------
    found : ImpliedTimescales
        From :func:`kmc.spectral.implied_timescales`.
    unit : float
        Length of one sample, for both axes.
    unit_name : str
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> walk = np.cumsum(np.random.default_rng(0).standard_normal(2000)) * 0.05
    >>> found = kmc.spectral.implied_timescales(
    ...     np.column_stack([np.cos(walk), np.sin(walk)]), [5, 10, 20], 1
    ... )
    >>> kmc.plot_implied_timescales(found, unit=0.5, unit_name="ps").get_xlabel()
    'lagtime (ps)'
    """
    ax = axes_or_new(ax)
    lags = unit * found.lagtimes
    for k, scales in enumerate(found.timescales.T):
        color = ACCENT if k == 0 else SHADES[max(4 - k, 1)]
        ax.plot(
            lags,
            unit * scales,
            marker="o",
            markersize=3,
            linewidth=1.2,
            color=color,
            label=f"mode {k + 1}",
        )
        low, high = (unit * (scales + sign * 2 * found.std_errors[:, k]) for sign in (-1, 1))
        ax.fill_between(
            lags, np.maximum(low, 1e-3 * unit * scales), high, color=color, alpha=0.15, linewidth=0
        )
    low = min(np.nanmin(unit * found.timescales, initial=lags[0]), lags[0])
    times = np.geomspace(lags[0], lags[-1])
    ax.fill_between(times, low, times, color="0.9", linewidth=0, zorder=0)
    ax.set(yscale="log", xlabel=f"lagtime ({unit_name})", ylabel=f"time scale ({unit_name})")
    ax.margins(x=0)
    ax.legend(fontsize=8, frameon=False, loc="center right")
    return ax


def plot_ck_test(
    test: Any, *, unit: float = 1.0, unit_name: str = "samples", figure: Any = None
) -> np.ndarray:
    """Plot predicted and estimated transition probabilities between sets.

    Lines are predictions, and points are estimates with two standard errors.

    Parameters
    ----------
    test : CKTest
        From :meth:`kmc.spectral.TransitionOperator.ck_test`.
    unit : float
        Length of one sample.
    unit_name : str
    figure : matplotlib Figure or SubFigure, optional

    Returns
    -------
    ndarray of Axes, shape (s, s)

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    """
    require_matplotlib()
    s = test.predicted.shape[1]
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(2.2 * s + 0.6, 1.8 * s + 0.6), layout="constrained")
    axes = figure.subplots(s, s, sharex=True, sharey=True, squeeze=False)
    lags = unit * test.lagtimes
    for (i, j), ax in np.ndenumerate(axes):
        ax.plot(lags, test.predicted[:, i, j], color=ACCENT, linewidth=1.2, label="predicted")
        error = 2.0 * test.std_error[:, i, j]
        estimated = test.estimated[:, i, j]
        ax.errorbar(
            lags, estimated, error, fmt="o", color=INK, markersize=3, capsize=2, label="estimated"
        )
        ax.set_title(f"{i + 1} → {j + 1}", fontsize=9, color=INK)
        ax.set_ylim(-0.05, 1.05)
    axes[0, 0].legend(fontsize=8, frameon=False)
    figure.supxlabel(f"time ({unit_name})", fontsize=9, color=INK)
    figure.supylabel("probability", fontsize=9, color=INK)
    return axes


# Plot the Markov chain of metastable sets: populations, rates, passage times and a committor.


def plot_coarse_model(
    model: Any,
    source: int = 0,
    target: int = -1,
    *,
    unit: float = 1.0,
    unit_name: str = "samples",
    figure: Any = None,
) -> np.ndarray:
    """Plot populations, rates, mean first-passage times and a committor of metastable sets.

    All are shown with two standard errors. Sets are numbered from one, as by
    :func:`kmc.plot_ck_test`.

    Parameters
    ----------
    model : CoarseModel
        From :meth:`kmc.spectral.TransitionOperator.coarse_grain`.
    source, target : int
        Sets of the committor, from 0; a negative number counts from the last set. It is the
        probability of reaching ``target`` before ``source``.
    unit : float
        Length of one sample.
    unit_name : str
    figure : matplotlib Figure or SubFigure, optional

    Returns
    -------
    ndarray of Axes, shape (4,)

    Raises
    ------
    ValueError
        ``source`` and ``target`` are not two different sets.
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    """
    require_matplotlib()
    size = len(model.populations)
    source, target = (k + size if isinstance(k, int) and k < 0 else k for k in (source, target))
    committor, committor_errors = (
        model.committor(source, target),
        model.committor_errors(source, target),
    )
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(
            figsize=(11.0, 0.9 + 0.28 * size * (size - 1) + 0.6), layout="constrained"
        )
    axes = figure.subplots(1, 4)
    sets = [str(k + 1) for k in range(size)]
    off = ~np.eye(size, dtype=bool)
    pairs = [f"{i + 1} → {j + 1}" for i, j in np.argwhere(off)]
    _points(axes[0], sets, model.populations, model.population_errors, "population")
    _points(
        axes[1],
        pairs,
        model.rates[off] / unit,
        model.rate_errors[off] / unit,
        f"rate (1 / {unit_name})",
    )
    passage, errors = unit * model.passage_times[off], unit * model.passage_errors[off]
    _points(axes[2], pairs, passage, errors, f"mean first-passage time ({unit_name})")
    _points(axes[3], sets, committor, committor_errors, f"committor, {source + 1} → {target + 1}")
    for ax in axes[[1, 2]]:
        if all(line.get_xdata().min() > 0 for line in ax.lines):
            ax.set_xscale("log", nonpositive="clip")
    for ax in axes[[0, 3]]:
        ax.set_xlim(-0.05, 1.05)
    return axes


def _points(ax: Any, labels: list[str], values: np.ndarray, errors: np.ndarray, name: str) -> None:
    """Plot estimates in rows, the first on top."""
    rows = np.arange(len(labels))
    ax.errorbar(
        values, rows, xerr=2.0 * errors, fmt="o", color=ACCENT, ecolor=INK, markersize=4, capsize=2
    )
    ax.set_yticks(rows, labels, fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel(name, fontsize=9, color=INK)
    ax.tick_params(labelsize=8)
    ax.margins(y=0.15)


def plot_slow_modes(
    data: Any, n_modes: int = 3, *, figure: Any = None, **options: Any
) -> np.ndarray:
    """Plot slow modes along the chains, and the parameters that they correlate with.

    A mode that correlates with no parameter is not visible in any trace plot.

    Parameters
    ----------
    data : InferenceData, DataTree, arrays, or the Dataset of :func:`kmc.diagnostics.slow_modes`
        Of a result with a group ``slow_modes``, that group is plotted if there are no options.
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
    from kmc.diagnostics.modes import kept_modes, slow_modes

    modes = data if _is_result(data) else None if options else kept_modes(data)
    modes = slow_modes(data, n_modes, **options) if modes is None else modes
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
    return hasattr(data, "data_vars") and {"value", "ess", "rhat", "correlation"} <= set(
        data.data_vars
    )


def _trace(ax, mode):
    """Plot every chain, with its running mean."""
    value = mode["value"].transpose("chain", "draw").values
    stride = max(value.shape[1] // MOST_DRAWS, 1)
    draws = mode["draw"].values[::stride]
    colors = [ACCENT, SHADES[4], "#8a8d91", SHADES[2]]
    for number, chain in enumerate(value):
        color = colors[number % len(colors)]
        ax.plot(draws, chain[::stride], ",", color=color, alpha=0.6, rasterized=True)
        ax.plot(
            draws,
            uniform_filter1d(chain, max(len(chain) // 20, 1))[::stride],
            color=color,
            linewidth=1.2,
        )
    ax.set_title(
        f"ESS {float(mode['ess']):.0f}, R-hat {float(mode['rhat']):.2f}",
        fontsize=9,
        color=INK,
        loc="left",
    )
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
