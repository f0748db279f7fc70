"""Plot ranks of simulation-based calibration against the uniform distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kmc.diagnostics.calibration import uniformity
from kmc.diagnostics.draws import columns, labeled
from kmc.plots.style import ACCENT, INK, LINES, SHADES, group, panels


def plot_calibration(found: Any, var_names: Sequence[str] | None = None, *, prob: float = 0.95) -> np.ndarray:
    """Plot how the distribution function of the ranks differs from the uniform one, in a panel for each quantity.

    If all is right, the whole line is within the band with probability `prob`; a line that is not is red. A line that
    is first above and then below zero tells of draws that are too narrow, the reverse of draws that are too wide. A
    line above zero throughout tells of draws that are too high, and one below zero of draws that are too low.

    Parameters
    ----------
    found : InferenceData or DataTree
        From :func:`kmc.simulation_based_calibration`, or any with numbers in (0, 1) in a group ``prior_sbc``.
    var_names : sequence of str, optional
        Variables, or elements of them, ``"slope[A]"``; all of them by default.
    prob : float
        Probability of the band, for each panel by itself.

    Returns
    -------
    ndarray of Axes, shape (k,)

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    TypeError, ValueError
        There are no such ranks, or no variable of that name.
    """
    ranks = group(found, "prior_sbc")
    if ranks is None:
        raise TypeError(f"found={type(found).__name__}: expected what kmc.simulation_based_calibration returned")
    if not 0.0 < prob < 1.0:
        raise ValueError(f"prob={prob!r}: expected a number between 0 and 1")
    variables = {str(name): labeled(variable) for name, variable in ranks.data_vars.items()}
    chosen = columns(variables, var_names)
    axes = panels(len(chosen))
    for ax, column in zip(axes, chosen, strict=True):
        u = np.sort(variables[column.variable].values[(..., *column.place)].ravel())
        p_value, (z, low, high) = uniformity(u, prob)
        below = np.searchsorted(u, z, side="right") / len(u)
        outside = np.any((below < low) | (below > high))
        ax.fill_between(z, low - z, high - z, color=SHADES[0], linewidth=0)
        ax.axhline(0.0, color=INK, linewidth=0.5)
        ax.plot(z, below - z, color=ACCENT if outside else LINES[0], linewidth=1.2)
        ax.set_title(f"{column.name}, p = {p_value:.2g}", fontsize=9, color=INK)
        ax.tick_params(labelsize=8)
        ax.set_xlim(0.0, 1.0)
    axes[0].set_xlabel("normalized rank", fontsize=9, color=INK)
    axes[0].set_ylabel("ECDF minus uniform", fontsize=9, color=INK)
    return axes
