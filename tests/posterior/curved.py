"""A curved density with known moments, and one whose parameters have names: several files read out
their runs.
"""

import numpy as np

import kmc

TRUTH = np.array([0.0, 0.0]), np.array([2.0, np.sqrt(1 + 0.01 * 32)])
"""Means and sds."""


def log_density(x):
    """Of a normal coordinate with sd 2, and of another that follows its square."""
    return -0.5 * (x[0] ** 2 / 4 + (x[1] - 0.1 * (x[0] ** 2 - 4)) ** 2)


def named(p):
    return -0.5 * np.sum(p["a"] ** 2) - p["b"]


MODEL = kmc.Model(
    named,
    parameters={"a": kmc.Real(), "b": kmc.Positive()},
    dims={"a": ["site"]},
    coords={"site": ["N", "S"]},
)
