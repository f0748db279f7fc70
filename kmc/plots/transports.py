"""Plot the coordinates in which a funnel is straight, or heavy tails are light."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.plots.style import INK, SHADES, require_matplotlib
from kmc.readout.evaluated import read

_POINTS = 3000


def plot_transport(idata: Any, *, max_rows: int = 3, figure: Any = None) -> np.ndarray:
    """Plot the draws in their own coordinates, and in those in which the surrogate was fitted.

    During warm-up, kmc looks for a parameter that sets the scale of others, and for heavy tails; where it finds them,
    the surrogate is one of transformed coordinates, in which the density is closer to a Gaussian.

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
        For each parameter that is changed, against the driver of the funnel, or against another parameter: the draws
        on the left, and transformed on the right.

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    TypeError, ValueError
        The result has no surrogate; or neither a funnel nor heavy tails were found.
    """
    require_matplotlib()
    run = read(idata, None).replicates[0]
    transports = [component.transport for component in run.density.components]
    moving = [transport for transport in transports if transport.size]
    if not moving:
        raise ValueError("idata: neither a funnel nor heavy tails were found in this run: there is no transformation")
    transport, driver = moving[0], moving[0].driver
    x = run.draws.reshape(-1, run.draws.shape[2])
    x = x[:: max(1, len(x) // _POINTS)]
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
    kind = "heavy tails" if driver is None else f"a funnel: x[{driver}] sets the scale"
    axes[0, 1].set_title(kind, fontsize=9, color=INK, loc="left")
    return axes
