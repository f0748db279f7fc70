"""Sums over samples for score matching: the forms of a basis, and terms that do not depend on f."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kmc.bases import Basis
from kmc.forms import Forms, accumulate


class Samples(NamedTuple):
    """Samples of the density to be estimated."""

    x: np.ndarray  # (n, d)
    # (d,) subtracted before anything is computed, as an offset would cost digits
    center: np.ndarray
    weights: np.ndarray  # (n,) not negative
    values: np.ndarray | None  # (n,) log-density at x, if known
    value_weight: float  # γ of the value terms

    @property
    def z(self) -> np.ndarray:
        """Centered points (n, d)."""
        return self.x - self.center

    def take(self, rows: np.ndarray) -> Samples:
        """Return some of the samples."""
        values = None if self.values is None else self.values[rows]
        return self._replace(x=self.x[rows], weights=self.weights[rows], values=values)

    def joined(self, *others: Samples) -> Samples:
        """Join these samples and others, with their common weighted mean as the center."""
        blocks = (self, *others)
        x, w = (
            np.concatenate([block.x for block in blocks]),
            np.concatenate([block.weights for block in blocks]),
        )
        known = [block.values for block in blocks if block.values is not None]
        values = np.concatenate(known) if len(known) == len(blocks) else None
        return self._replace(x=x, center=w @ x / w.sum(), weights=w, values=values)


class Quadratic(NamedTuple):
    """The objective ½ βᵀ matrix β + linearᵀ β + constant."""

    matrix: np.ndarray  # (p, p)
    linear: np.ndarray  # (p,)
    constant: float

    def __call__(self, coefficients: np.ndarray) -> float:
        """Return the objective at coefficients (p,)."""
        return float(
            coefficients @ (0.5 * (self.matrix @ coefficients) + self.linear) + self.constant
        )


@dataclass(frozen=True)
class Sums:
    """Sums over samples; they add and subtract, as forms do.

    Attributes
    ----------
    forms : Forms
        dirichlet and linear, with values also mass and values.
    base : float
        Σ w (Δ log q0 + ½ |∇ log q0|²).
    value_weight : float
    """

    forms: Forms
    base: float
    value_weight: float

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.forms + other.forms, self.base + other.base, self.value_weight)

    def __sub__(self, other: Sums) -> Sums:
        return Sums(self.forms - other.forms, self.base - other.base, self.value_weight)

    def objective(self) -> Quadratic:
        """Return the samples' mean objective, including the density's base and the value terms."""
        forms, weight = self.forms, self.forms.weight
        matrix, linear, constant = (
            forms.get("dirichlet") / weight,
            forms.get("linear") / weight,
            self.base / weight,
        )
        if forms.values is None:
            return Quadratic(matrix, linear, constant)
        return Quadratic(
            matrix + self.value_weight * forms.centered_mass(),
            linear - self.value_weight * forms.centered_values(),
            constant + 0.5 * self.value_weight * forms.value_variance(),
        )


def accumulate_sums(basis: Basis, samples: Samples, base: Any) -> Sums:
    """Sum over samples for one basis and one base density.

    The basis is in centered coordinates, the base density in the user's coordinates.
    """
    gradient, w = base.gradient(samples.x), samples.weights
    base_sum = w @ (base.laplacian(samples.x) + 0.5 * np.einsum("ij,ij->i", gradient, gradient))
    names: tuple[str, ...] = ("dirichlet", "linear")
    target = None
    if samples.values is not None:
        names = (*names, "mass", "values")
        target = samples.values - base.log_density(samples.x)
    forms = accumulate(basis, samples.z, names, weights=w, values=target, base_gradient=gradient)
    return Sums(forms, float(base_sum), samples.value_weight)
