"""Plots. Matplotlib is imported when a plot is made."""

from kmc.plots.draws import plot_acceptance, plot_pairs, plot_trace
from kmc.plots.predictive import plot_calibration, plot_predictive, plot_validation
from kmc.plots.spectral import (
    plot_ck_test,
    plot_coarse_model,
    plot_implied_timescales,
    plot_slow_modes,
)
from kmc.plots.surrogates import plot_evidence, plot_surrogate, plot_transport

__all__ = [
    "plot_acceptance",
    "plot_calibration",
    "plot_ck_test",
    "plot_coarse_model",
    "plot_evidence",
    "plot_implied_timescales",
    "plot_pairs",
    "plot_predictive",
    "plot_slow_modes",
    "plot_surrogate",
    "plot_trace",
    "plot_transport",
    "plot_validation",
]
