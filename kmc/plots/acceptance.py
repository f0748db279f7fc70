"""Plot the acceptance along the run."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.plots.style import INK, LINES, axes_or_new, group

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
