"""Kernels: profiles and their derivatives, algebra, and what estimators need of them."""

from kmc.kernels.distances import squared_distances
from kmc.kernels.radial import Gaussian, RadialKernel

__all__ = ["Gaussian", "RadialKernel", "squared_distances"]
