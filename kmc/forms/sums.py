"""Sums of forms over samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.forms.lagged import Lagged
from kmc.forms.scatter import merged

FORMS = ("mass", "values", "dirichlet", "gradients", "linear", "lagged")


@dataclass(frozen=True, eq=False)
class Forms:
    r"""Sums over samples x with weights w, of a basis φ of p functions. Forms that were not requested are None.

    They can be added and subtracted: parts add to the whole, and the whole minus a fold is the rest, up to rounding.
    Second moments are stored centered, so that a large mean of the functions or of the values costs no digits.

    Attributes
    ----------
    weight : float
        Σ w.
    mean : ndarray, shape (p,)
        Σ w φ.
    mass : ndarray, shape (p, p)
        Σ w φ φᵀ.
    values : ndarray, shape (p,)
        Σ w φ y.
    value_sum : float
        Σ w y.
    dirichlet : ndarray, shape (p, p)
        Σ w <∇φ, ∇φᵀ>.
    gradients : ndarray, shape (p,)
        Σ w <∇φ, t>, for given vectors t.
    gradient_square : float
        Σ w |t|².
    linear : ndarray, shape (p,)
        Σ w (Δφ + <∇φ, ∇log q0>), the linear term of score matching.
    lagged : Lagged
        Moments of the pairs φ(x_t), φ(x_{t+τ}).
    mass_scatter, value_scatter, square_scatter : ndarray (p, p), ndarray (p,), float
        Σ w (φ - Eφ)(φ - Eφ)ᵀ, Σ w (φ - Eφ)(y - Ey) and Σ w (y - Ey)².
    """

    weight: float
    mean: np.ndarray | None = None
    mass_scatter: np.ndarray | None = None
    value_sum: float | None = None
    value_scatter: np.ndarray | None = None
    square_scatter: float | None = None
    dirichlet: np.ndarray | None = None
    gradients: np.ndarray | None = None
    gradient_square: float | None = None
    linear: np.ndarray | None = None
    lagged: Lagged | None = None

    def __add__(self, other: Forms) -> Forms:
        return self._combine(other, 1.0)

    def __sub__(self, other: Forms) -> Forms:
        return self._combine(other, -1.0)

    @property
    def mass(self) -> np.ndarray | None:
        """Σ w φ φᵀ, (p, p)."""
        if self.mass_scatter is None or self.mean is None:
            return None
        return self.mass_scatter + _product(self.mean, self.mean, self.weight)

    @property
    def values(self) -> np.ndarray | None:
        """Σ w φ y, (p,)."""
        if self.value_scatter is None or self.mean is None or self.value_sum is None:
            return None
        return self.value_scatter + self.mean * (self.value_sum / self.weight if self.weight > 0 else 0.0)

    def centered_mass(self) -> np.ndarray:
        """Covariance E[(φ - Eφ)(φ - Eφ)ᵀ], (p, p): constants lie outside a kernel's span, so the mass is centered.

        It is never negative, and zero up to rounding along a combination of functions that is constant.
        """
        return self.get("mass_scatter") / self._positive_weight()

    def centered_values(self) -> np.ndarray:
        """Covariance E[(φ - Eφ)(y - Ey)], (p,)."""
        return self.get("value_scatter") / self._positive_weight()

    def value_variance(self) -> float:
        """Variance E[(y - Ey)²]."""
        return float(self.get("square_scatter") / self._positive_weight())

    def get(self, name: str) -> Any:
        """Return a sum by name; ValueError if it was not accumulated."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"{name} was not accumulated: name its form in accumulate(..., forms)")
        return value

    def _positive_weight(self):
        if not self.weight > 0:
            raise ValueError(f"weight={self.weight}: a mean needs samples of positive weight")
        return self.weight

    def _combine(self, other, sign):
        if not isinstance(other, Forms):
            return NotImplemented
        if self._held() != other._held():
            raise ValueError(
                "forms can be added or subtracted only when both hold the same forms, not "
                f"{self._held()} and {other._held()}"
            )
        return Forms(
            weight=self.weight + sign * other.weight,
            mean=_signed(self.mean, other.mean, sign),
            mass_scatter=_merged(self, other, sign, "mean", "mean", "mass_scatter"),
            value_sum=_signed(self.value_sum, other.value_sum, sign),
            value_scatter=_merged(self, other, sign, "mean", "value_sum", "value_scatter"),
            square_scatter=_merged(self, other, sign, "value_sum", "value_sum", "square_scatter"),
            dirichlet=_signed(self.dirichlet, other.dirichlet, sign),
            gradients=_signed(self.gradients, other.gradients, sign),
            gradient_square=_signed(self.gradient_square, other.gradient_square, sign),
            linear=_signed(self.linear, other.linear, sign),
            lagged=_signed(self.lagged, other.lagged, sign),
        )

    def _held(self):
        fields = {"mass": "mass_scatter", "values": "value_scatter"}
        return tuple(name for name in FORMS if getattr(self, fields.get(name, name)) is not None)


def _signed(a, b, sign):
    if a is None:
        return None
    return a + b if sign > 0 else a - b


def _merged(a, b, sign, one, two, both):
    if getattr(a, both) is None:
        return None
    first, second = ((f.weight, getattr(f, one), getattr(f, two), getattr(f, both)) for f in (a, b))
    return merged(first, second, sign)


def _product(a, b, weight):
    return np.outer(a, b) / weight if weight > 0 else np.zeros((len(a), len(b)))
