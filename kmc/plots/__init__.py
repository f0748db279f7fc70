"""Plots. Matplotlib is imported when a plot is made."""

from kmc.plots.modes import plot_slow_modes
from kmc.plots.pairs import plot_pairs
from kmc.plots.timescales import plot_ck_test, plot_implied_timescales
from kmc.plots.validation import plot_validation

__all__ = ["plot_ck_test", "plot_implied_timescales", "plot_pairs", "plot_slow_modes", "plot_validation"]
