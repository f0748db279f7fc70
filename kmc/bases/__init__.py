"""Finite bases of functions on R^d."""

from kmc.bases.sections import Basis, KernelSections, Whitened

__all__ = ["Basis", "KernelSections", "Whitened"]
