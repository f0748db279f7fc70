"""The surrogate of an expensive log-density: a parametric trend plus an expansion in kernel sections."""

from kmc.surrogates.density import Component, Density
from kmc.surrogates.fit import fit_surrogate
from kmc.surrogates.fit_options import FitOptions
from kmc.surrogates.fit_task import values_needed
from kmc.surrogates.surrogate import Surrogate

__all__ = ["Component", "Density", "FitOptions", "Surrogate", "fit_surrogate", "values_needed"]
