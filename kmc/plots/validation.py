"""Plot the held-out objective over the candidates of a score estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.plots.style import ACCENT, axes_or_new


def plot_validation(estimator: Any, *, kernel: str | None = None, base: str | None = None, ax: Any = None) -> Any:
    """Plot the held-out objective over bandwidth and regularization, with the chosen setting marked.

    As figure 3b of Sutherland, Strathmann, Arbel and Gretton (2018), "Efficient and principled score estimation with
    Nyström kernel exponential families".

    Parameters
    ----------
    estimator : fitted estimator of :mod:`kmc.scores`
        With ``cv_results_``: fitted with ``regularization="cv"``, ``bandwidth="cv"``, or sequences.
    kernel, base : str, optional
        Which of several candidates, as in the table; by default those of the best row. If there are several penalties,
        that of the best row is shown.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    ValueError
        The estimator had nothing to choose, or no such candidate.
    """
    table = getattr(estimator, "cv_results_", None)
    if not table:
        raise ValueError('the estimator has no cv_results_: fit it with regularization="cv" or bandwidth="cv"')
    objective = np.where(np.isfinite(table["objective"]), table["objective"], np.inf)
    best = int(np.argmin(objective))
    rows = np.full(len(objective), True)
    for name, wanted in (("kernel", kernel), ("base", base), ("penalty", None)):
        value = table[name][best] if wanted is None else wanted
        if value not in table[name]:
            raise ValueError(f"{name}={value!r}: expected one of {sorted(set(table[name].tolist()))}")
        rows &= table[name] == value
    ax = axes_or_new(ax)
    bandwidth, regularization, values = (table[k][rows] for k in ("bandwidth", "regularization", "objective"))
    if len(np.unique(bandwidth)) > 1 and len(np.unique(regularization)) > 1:
        _surface(ax, bandwidth, regularization, values)
    else:
        along, label = (bandwidth, "bandwidth") if len(np.unique(bandwidth)) > 1 else (regularization, "λ")
        order = np.argsort(along)
        ax.errorbar(along[order], values[order], table["std_error"][rows][order], color=ACCENT, marker="o", capsize=2)
        ax.set(xscale="log" if along.min() > 0 else "symlog", xlabel=label, ylabel="held-out objective")
    return ax


def _surface(ax, bandwidth, regularization, values):
    columns, column = np.unique(bandwidth, return_inverse=True)
    rows, row = np.unique(regularization, return_inverse=True)
    surface = np.full((len(rows), len(columns)), np.nan)
    surface[row, column] = values
    finite = surface[np.isfinite(surface)]
    top = np.quantile(finite, 0.75)  # the worst settings are orders of magnitude higher
    image = ax.pcolormesh(surface, cmap="viridis_r", vmin=finite.min(), vmax=top)
    ax.figure.colorbar(image, ax=ax, label="held-out objective", extend="max")
    i, j = np.unravel_index(np.nanargmin(surface), surface.shape)
    ax.plot(j + 0.5, i + 0.5, marker="*", markersize=14, color=ACCENT, markeredgecolor="white")
    ax.set_xticks(np.arange(len(columns)) + 0.5, [f"{b:.2g}" for b in columns])
    ax.set_yticks(np.arange(len(rows)) + 0.5, [f"{r:.1g}" for r in rows])
    ax.set(xlabel="bandwidth", ylabel="λ")
