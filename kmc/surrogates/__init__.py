"""The surrogate of an expensive log-density: a parametric trend plus an expansion in kernel sections."""

from kmc.surrogates.density import Component, Density
from kmc.surrogates.fit import FitOptions, fit_surrogate, values_needed
from kmc.surrogates.surrogate import Surrogate

__all__ = ["Component", "Density", "FitOptions", "Surrogate", "fit_surrogate", "values_needed"]
