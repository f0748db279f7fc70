"""Plot the energy of the draws, and its changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.plots.style import ACCENT, SHADES, axes_or_new, group

_BINS = 40


def plot_energy(idata: Any, *, ax: Any = None) -> Any:
    """Plot the distribution of the energy over the draws, and that of its changes from draw to draw.

    If changes are much narrower than the energy itself, chains move slowly between the bulk and the tails. The label
    has the mean squared change over twice the variance: 1 for independent draws, near 0 for slow chains (Betancourt
    2016, "Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte Carlo", whose E-BFMI is twice this).

    Parameters
    ----------
    idata : InferenceData or DataTree
        With the statistic "energy".
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    ValueError
        There are no energies, or fewer than two draws.
    """
    stats = group(idata, "sample_stats")
    if stats is None or "energy" not in stats or stats.sizes["draw"] < 2:
        raise ValueError(
            "idata has no energies of at least two draws: expected a result of kmc.sample, with the group sample_stats"
        )
    energy = stats["energy"].transpose("chain", "draw").values
    centered = energy - energy.mean()
    changes = np.diff(energy, axis=1)
    ax = axes_or_new(ax)
    low, high = np.quantile(np.concatenate([centered.ravel(), changes.ravel()]), [0.001, 0.999])
    edges = np.linspace(low, high, _BINS + 1)
    ratio = np.mean(changes**2) / (2.0 * energy.var() or 1.0)
    for values, color, label in (
        (centered, SHADES[4], "energy"),
        (changes, ACCENT, f"changes (ratio {ratio:.2f})"),
    ):
        heights = np.histogram(values, edges, density=True)[0]
        ax.stairs(heights, edges, color=color, fill=color == SHADES[4], alpha=0.6 if color == SHADES[4] else 1.0,
                  linewidth=1.2, label=label)  # fmt: skip
    ax.set(xlabel="energy, less its mean", yticks=[])
    ax.legend(frameon=False, fontsize=8)
    return ax
