"""Common style of the figures: one look for each model in all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from score_results import grouped

from kmc.plots.style import INK, require_matplotlib

LOOKS = {
    "zero": ("#b8bcc2", ":", ""),
    "Gaussian": ("#8a8f98", "--", ""),
    "full": ("#111111", "-", "o"),
    "nyström, λ by": ("#4a8fa1", "--", "D"),
    "nyström, λ = n^(-1/3) / 10": ("#1f6478", "-", "s"),
    "nyström, λ = n^(-1/3)": ("#7fb3bf", ":", "v"),
    "nyström": ("#1f6478", "-", "s"),
    "lite λ(K+I)": ("#c8553d", "-", "^"),
    "lite": ("#e0a13a", "-", "v"),
    "autoencoder": ("#7b4f9e", "-", "D"),
}
"""Color, line and marker by the beginning of a model's name; its size fills the marker and sets the
line.
"""


class Panel:
    """An axis with lines of models."""

    def __init__(self, axis):
        self.axis = axis

    def lines_of(self, rows, x: str, y: str, by: str = "model") -> None:
        """For each model a line through means over seeds, with bars of one standard deviation."""
        for (name,), group in grouped(rows, by).items():
            points = sorted(grouped(group, x).items())
            at = [key[0] for key, _ in points]
            values = [[row[y] for row in members] for _, members in points]
            self.line(
                name,
                at,
                [np.mean(v) for v in values],
                [np.std(v, ddof=1) if len(v) > 1 else 0 for v in values],
            )

    def line(self, name: str, x, y, error=None) -> None:
        """One model's line."""
        color, style, marker = look(name)
        face = "white" if "=42" in name else color
        options = {
            "color": color,
            "linestyle": style,
            "marker": marker,
            "linewidth": 1.3,
            "markersize": 4,
        }
        self.axis.errorbar(
            x, y, yerr=error, label=name, markerfacecolor=face, elinewidth=0.7, **options
        )

    def label(self, title: str, x: str, y: str, log: str = "y") -> None:
        """Names and scales."""
        self.axis.set_title(title, fontsize=10, color=INK)
        self.axis.set_xlabel(x, fontsize=9, color=INK)
        self.axis.set_ylabel(y, fontsize=9, color=INK)
        if "x" in log:
            self.axis.set_xscale("log")
        if "y" in log:
            self.axis.set_yscale("log")
        self.axis.tick_params(which="both", labelsize=8)
        self.axis.grid(alpha=0.25, linewidth=0.5)
        self.axis.spines[["top", "right"]].set_visible(False)


def curves(count: int, width: float = 4.2, height: float = 4.4):
    """A figure with this number of panels side by side."""
    require_matplotlib()
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, count, figsize=(width * count, height), squeeze=False, layout="constrained"
    )
    return figure, [Panel(axis) for axis in axes[0]]


def look(name: str) -> tuple[str, str, str]:
    """Color, line style and marker of a model."""
    color, style, marker = next(
        (LOOKS[key] for key in LOOKS if name.startswith(key)), (INK, "-", ".")
    )
    return (
        (color, "--", marker)
        if name.startswith("nyström D") or "=167" in name
        else (color, style, marker)
    )


def save(figure, panels, path: Path, columns: int = 4) -> None:
    """One legend under all panels, and a small file."""
    labels: dict = {}
    for panel in panels:
        handles, names = panel.axis.get_legend_handles_labels()
        labels |= dict(zip(names, handles))
    if labels:
        options = {"loc": "outside lower center", "ncol": columns, "fontsize": 8, "frameon": False}
        figure.legend(labels.values(), labels.keys(), **options)
    figure.savefig(path, dpi=100)
