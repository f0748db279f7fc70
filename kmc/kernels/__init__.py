"""Kernels: profiles and their derivatives, algebra, and functions that estimators need.

A *radial* kernel is k(x, y) = q(s) with s = |x - y|², a *dot-product* kernel is k(x, y) = q(t) with
t = <x, y>; ``kernel.kind`` says which ("distance" or "inner-product"), ``kernel.derivatives(u,
order)`` gives q, q', ... in that argument, up to the fourth. Lengths are in the units of x: the
Gaussian kernel is exp(-s / (2 bandwidth²)), and ``kernel.scaled(factor)`` multiplies every length.

Kernels are values: frozen, comparable, printable, picklable. They add and multiply, ``2 *
Gaussian(3.0) + Matern52()``, and ``Metric`` applies a metric to one. ``kernel_derivative(kernel,
name, x, y)`` gives derivatives of every kernel at pairs of points, ``derivative(kernel, index, x,
y)`` those of any multi-index; ``program(kernel)`` makes radial ones available in jitted loops;
``frequencies`` draws their Fourier features. ``RadialFunction`` and ``DotProductFunction`` make a
kernel from a user's profile functions.
"""

from kmc.kernels.algebra import DotProductFunction, Kernel, Product, RadialFunction, Scale, Sum
from kmc.kernels.built_in import (
    Exponential,
    ExponentialDotProduct,
    Gaussian,
    InverseMultiquadric,
    Matern52,
    Matern72,
    Polynomial,
    RadialKernel,
    candidate_bandwidths,
    kernel_of,
    register_kernel,
)
from kmc.kernels.derivatives import axes_of, derivative, kernel_derivative
from kmc.kernels.exponentials import exponential, exponentials
from kmc.kernels.frequencies import frequencies
from kmc.kernels.metric import Metric, median_distance, squared_distances
from kmc.kernels.program import Program, program, run_program, stack_for

__all__ = [
    "DotProductFunction",
    "Exponential",
    "ExponentialDotProduct",
    "Gaussian",
    "InverseMultiquadric",
    "Kernel",
    "Matern52",
    "Matern72",
    "Metric",
    "Polynomial",
    "Product",
    "Program",
    "RadialFunction",
    "RadialKernel",
    "Scale",
    "Sum",
    "axes_of",
    "candidate_bandwidths",
    "derivative",
    "exponential",
    "exponentials",
    "frequencies",
    "kernel_derivative",
    "kernel_of",
    "median_distance",
    "program",
    "register_kernel",
    "run_program",
    "squared_distances",
    "stack_for",
]
