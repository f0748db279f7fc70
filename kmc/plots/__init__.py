"""Pictures. Matplotlib is imported when a picture is asked for."""

from kmc.plots.pairs import plot_pairs
from kmc.plots.validation import plot_validation

__all__ = ["plot_pairs", "plot_validation"]
