"""Common style of all plots."""

from __future__ import annotations

from typing import Any

from kmc._names import install

INK, ACCENT = "#33373d", "#c8553d"
LINES = ("#1f6478", "#c8553d", "#4a8fa1", "#8a6d1d", "#33373d", "#7a4b8c")  # of chains, or of runs
SHADES = ("#dcebee", "#b3d3da", "#7fb3bf", "#4a8fa1", "#1f6478")


def require_matplotlib() -> None:
    """Raise an ImportError that says what to install if Matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"Pictures need Matplotlib. Install it with: {install('plots')}"
        ) from error


def group(idata: Any, name: str) -> Any:
    """Return the group of a result, or None if there is no such group."""
    try:
        return idata[name]
    except (KeyError, TypeError, IndexError, AttributeError):
        return None


def axes_or_new(ax: Any, size: tuple[float, float] = (5.0, 4.0)) -> Any:
    """Return the user's axes, or make new ones in a figure of this size in inches."""
    require_matplotlib()
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def panels(k: int) -> Any:
    """Make an array of k axes in a new figure, at most four in a row."""
    require_matplotlib()
    import matplotlib.pyplot as plt

    across = min(k, 4)
    down = -(-k // across)
    figure = plt.figure(figsize=(3.4 * across, 2.6 * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for spare in axes[k:]:
        spare.remove()
    return axes[:k]
