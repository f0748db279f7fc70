"""Regression on values and gradients."""

from kmc.regression.hermite import HermiteRegression

__all__ = ["HermiteRegression"]
