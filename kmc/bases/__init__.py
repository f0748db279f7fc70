"""Finite bases of functions on R^d, and functions in them."""

from kmc.bases.base import Basis, Contraction, UserFunctions, Whitened
from kmc.bases.base_jit_state import BaseJitState
from kmc.bases.expansion import KernelExpansion
from kmc.bases.fourier import FourierFeatures
from kmc.bases.gradients import KernelGradients
from kmc.bases.monomials import Monomials
from kmc.bases.sections import KernelSections

__all__ = [
    "BaseJitState",
    "Basis",
    "Contraction",
    "FourierFeatures",
    "KernelExpansion",
    "KernelGradients",
    "KernelSections",
    "Monomials",
    "UserFunctions",
    "Whitened",
]
