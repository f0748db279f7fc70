"""Kernels of every kind, with lengths of about two."""

import numpy as np

from kmc.kernels import (
    DotProductFunction,
    Exponential,
    ExponentialDotProduct,
    Gaussian,
    InverseMultiquadric,
    Matern52,
    Matern72,
    Metric,
    Polynomial,
    RadialFunction,
)

DIM = 3
# from 3 coordinates to 4
TALL = np.array([[1.0, 0.2, 0.0], [0.3, 0.7, -0.4], [0.0, 0.5, 1.1], [-0.6, 0.1, 0.2]])
WIDE = np.array([[0.8, -0.3, 0.5], [0.1, 1.2, 0.4]])  # from 3 to 2
DIAGONAL = np.array([0.6, 1.0, 1.4])


def exponential(s):
    return np.exp(-s / 2)


def exponential1(s):
    return -np.exp(-s / 2) / 2


def exponential2(s):
    return np.exp(-s / 2) / 4


def exponential3(s):
    return -np.exp(-s / 2) / 8


def exponential4(s):
    return np.exp(-s / 2) / 16


PROFILES = [exponential, exponential1, exponential2, exponential3, exponential4]

SMOOTH_RADIAL = {
    "gaussian": Gaussian(1.9),
    "imq": InverseMultiquadric(2.3),
    "imq 1": InverseMultiquadric(3.3, exponent=1),
    "imq .8": InverseMultiquadric(2.7, exponent=0.8),
    "imq wide": InverseMultiquadric(2.97, 1.0),
    "imq 2.5": InverseMultiquadric(4.472, 2.5),
    "radial function": RadialFunction(PROFILES, bandwidth=1.7),
}
ROUGH_RADIAL = {
    "matern52": Matern52(2.5),
    "matern72": Matern72(2.6),
    "exponential": Exponential(2.2),
}
DOT_PRODUCT = {
    "linear": Polynomial(degree=1, bandwidth=2.0),
    "quadratic": Polynomial(bandwidth=2.0),
    "polynomial": Polynomial(degree=5, offset=0.7, bandwidth=2.0),
    "homogeneous": Polynomial(degree=3, offset=0.0, bandwidth=1.5),
    "exponential dot": ExponentialDotProduct(2.0),
    "dot function": DotProductFunction(
        [np.cosh, np.sinh, np.cosh, np.sinh, np.cosh], bandwidth=1.8
    ),
}
ATOMS = SMOOTH_RADIAL | ROUGH_RADIAL | DOT_PRODUCT

SMOOTH_COMPOSITES = {
    "radial sum": Gaussian(1.9) + 0.5 * InverseMultiquadric(3.536, 1.0),
    "radial product": Gaussian(3.0) * InverseMultiquadric(2.0),
    "radial with a function": 2.0 * (SMOOTH_RADIAL["radial function"] * Gaussian(2.8)),
    "dot sum": Polynomial(degree=1, bandwidth=1.5) + 0.3 * ExponentialDotProduct(2.5),
    "dot product": Polynomial(degree=1, bandwidth=2.0) * ExponentialDotProduct(2.0),
    "mixed sum": 0.7 * Gaussian(2.0) + Polynomial(degree=3, bandwidth=2.0),
    "mixed product": Gaussian(2.0) * Polynomial(degree=2, bandwidth=2.0),
    "mixed twice": 1.3
    * (
        Gaussian(3.0) * Polynomial(degree=1, bandwidth=2.0) * InverseMultiquadric(2.828, 1.0)
        + Gaussian(2.0)
    ),
    "diagonal": Metric(Gaussian(2.0), DIAGONAL),
    "tall": Metric(InverseMultiquadric(3.536, 1.0), TALL),
    "wide": Metric(Gaussian(2.0), WIDE),
    "dot tall": Metric(Polynomial(degree=3, bandwidth=2.0), TALL),
    "dot diagonal": Metric(ExponentialDotProduct(2.0), DIAGONAL),
    "metric of a metric": Metric(Metric(Gaussian(2.0), [1.1, 0.8]), WIDE),
    "metric of mixed": Metric(
        Gaussian(2.0) * Polynomial(degree=2, bandwidth=2.0) + 0.5 * InverseMultiquadric(2.0), TALL
    ),
    "mixed metrics": Metric(Gaussian(2.0), WIDE) * Metric(InverseMultiquadric(3.536, 1.0), DIAGONAL)
    + Gaussian(3.0),
}
ROUGH_COMPOSITES = {
    "matern sum": Matern52(3.0) + Gaussian(2.0),
    "matern product": Matern72(3.0) * Matern52(3.5),
    "matern metric": Metric(Matern52(2.5), TALL),
    "matern mixed": Metric(Matern72(2.5), DIAGONAL) * Polynomial(degree=1, bandwidth=2.0),
}
COMPOSITES = SMOOTH_COMPOSITES | ROUGH_COMPOSITES

SMOOTH = SMOOTH_RADIAL | DOT_PRODUCT | SMOOTH_COMPOSITES
ALL = ATOMS | COMPOSITES
