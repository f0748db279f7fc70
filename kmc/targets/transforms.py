"""Smooth bijections from R^k onto the supports of constrained parameters, with their log-Jacobians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np


class Transform(Protocol):
    """A bijection, vectorised over leading axes.

    Attributes
    ----------
    unconstrained_shape, shape : tuple of int
        Of one value, before and after; () for what is done to each number alone.
    support : str
        In words.
    """

    @property
    def unconstrained_shape(self) -> tuple[int, ...]: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def support(self) -> str: ...

    def constrain(self, x: np.ndarray) -> np.ndarray:
        """(..., *unconstrained_shape) -> (..., *shape), a new array."""

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """Log of the absolute Jacobian determinant: (..., *unconstrained_shape) -> (...)."""

    def contains(self, y: np.ndarray) -> np.ndarray:
        """Whether values are in the support: (..., *shape) -> (...), bool."""

    def unconstrain(self, y: np.ndarray) -> np.ndarray:
        """The inverse of ``constrain``, for values in the support."""


@dataclass(frozen=True)
class Identity:
    """y = x."""

    unconstrained_shape: ClassVar[tuple[int, ...]] = ()
    shape: ClassVar[tuple[int, ...]] = ()
    support: ClassVar[str] = "finite numbers"

    def constrain(self, x):
        return x.copy()

    def log_jacobian(self, x):
        return np.zeros_like(x)

    def contains(self, y):
        return np.isfinite(y)

    def unconstrain(self, y):
        return y.copy()
