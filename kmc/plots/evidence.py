"""Plot how the evidence was found."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.plots.style import ACCENT, INK, LINES, axes_or_new

_NEEDED = {"log_evidence", "path_inverse_temperature", "path_down", "path_up"}


def plot_evidence(found: Any, *, ax: Any = None) -> Any:
    """Plot the mass along the path from a Student-t density to the surrogate, in both directions, and the evidence.

    The two directions should agree: a gap means a mode that one of them does not know. The mark on the right is the
    log-evidence, with two standard errors: the mass of the surrogate after the bridge to the posterior.

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
        ax.plot(beta[known], one["path_up"].values[known], color=color, linewidth=1.2, label=f"{name}, up")
        ax.plot(beta[known], one["path_down"].values[known], "--", color=color, linewidth=1.2, label=f"{name}, down")
        value, error = float(one["log_evidence"]), 2.0 * float(one["se"])
        ax.errorbar(1.05, value, error, fmt="o", color=color, markersize=4, capsize=3)
    ax.axvline(1.0, color=ACCENT, linewidth=0.6)
    ax.set_xlabel("inverse temperature: 0 Student-t, 1 surrogate; right of it: log-evidence", fontsize=9, color=INK)
    ax.set_ylabel("log-mass (nats)", fontsize=9, color=INK)
    ax.legend(frameon=False, fontsize=8)
    return ax
