"""Plot the Markov chain of metastable sets: populations, rates, passage times and a committor."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.plots.style import ACCENT, INK, require_matplotlib


def plot_coarse_model(
    model: Any,
    source: int = 0,
    target: int = -1,
    *,
    unit: float = 1.0,
    unit_name: str = "samples",
    figure: Any = None,
) -> np.ndarray:
    """Plot populations, rates, mean first-passage times and a committor of metastable sets, with two standard errors.

    Sets are numbered from one, as by :func:`kmc.plot_ck_test`.

    Parameters
    ----------
    model : CoarseModel
        From :meth:`kmc.spectral.TransitionOperator.coarse_grain`.
    source, target : int
        Sets of the committor, from 0; a negative number counts from the last set. It is the probability of reaching
        ``target`` before ``source``.
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
    committor, committor_errors = model.committor(source, target), model.committor_errors(source, target)
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(11.0, 0.9 + 0.28 * size * (size - 1) + 0.6), layout="constrained")
    axes = figure.subplots(1, 4)
    sets = [str(k + 1) for k in range(size)]
    off = ~np.eye(size, dtype=bool)
    pairs = [f"{i + 1} → {j + 1}" for i, j in np.argwhere(off)]
    _points(axes[0], sets, model.populations, model.population_errors, "population")
    _points(axes[1], pairs, model.rates[off] / unit, model.rate_errors[off] / unit, f"rate (1 / {unit_name})")
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
    """Estimates in rows, the first on top."""
    rows = np.arange(len(labels))
    ax.errorbar(values, rows, xerr=2.0 * errors, fmt="o", color=ACCENT, ecolor=INK, markersize=4, capsize=2)
    ax.set_yticks(rows, labels, fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel(name, fontsize=9, color=INK)
    ax.tick_params(labelsize=8)
    ax.margins(y=0.15)
