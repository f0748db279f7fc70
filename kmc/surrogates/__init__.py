"""The smooth stand-in for an expensive log-density: a parametric trend plus an expansion in kernel sections."""

from kmc.surrogates.fit import FitOptions, Surrogate, fit_surrogate

__all__ = ["FitOptions", "Surrogate", "fit_surrogate"]
