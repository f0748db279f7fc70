"""Priors as transforms of the unit cube, as nested samplers take them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtr

from kmc.checks import as_array

_LEAST, _MOST = np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg  # where quantiles are finite


@dataclass(frozen=True)
class Cube:
    """The space of parameters x = T(Φ(z)): where z is standard normal, Φ(z) is uniform and x is from the prior.

    Attributes
    ----------
    transform : callable
        T: numbers (d,) in the unit cube, or (k, d) if it is vectorized, to parameters of the same shape.
    dim : int
    vectorized : bool
    """

    transform: Callable[[np.ndarray], Any]
    dim: int
    vectorized: bool
    dims: dict[str, tuple[str, ...]] = field(init=False, default_factory=lambda: {"x": ("x_dim_0",)})
    coords: dict[str, Any] = field(init=False, default_factory=dict)

    def parameters(self, z: np.ndarray) -> np.ndarray:
        """x (d,) or, of a vectorized transform, (k, d)."""
        x = as_array("prior_transform(u)", self.transform(np.clip(ndtr(z), _LEAST, _MOST)))
        if x.shape != z.shape:
            raise ValueError(f"prior_transform returned an array of shape {x.shape}: expected {z.shape}")
        return x

    def constrain(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """The parameters (n, d) at vectors (n, d)."""
        rows = [points] if self.vectorized else points
        return {"x": np.array([self.parameters(row) for row in rows]).reshape(points.shape)}

    def log_jacobian(self, x: np.ndarray) -> Any:
        """Zero, as the prior is that of z."""
        return 0.0 if x.ndim == 1 else np.zeros(len(x))

    def initial_points(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws of z from the prior (n, d)."""
        return rng.standard_normal((n, self.dim))

    def log_prior(self, z: np.ndarray) -> Any:
        """The log-density of z."""
        return -0.5 * np.sum(z**2, axis=-1) - 0.5 * self.dim * np.log(2 * np.pi)


@dataclass(frozen=True)
class OfCube:
    """A function of x, as one of z."""

    function: Callable[..., Any]
    cube: Cube

    def __call__(self, z: np.ndarray, *args: Any, **kwargs: Any) -> Any:
        """What the function returns."""
        return self.function(self.cube.parameters(z), *args, **kwargs)
