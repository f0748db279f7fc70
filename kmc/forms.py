"""The accumulator: quadratic and linear forms of a basis, summed over weighted samples.

A form is additive over samples, so the same object serves batch fits, streams, folds and workers: accumulate parts and
add them, or subtract a fold from the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from kmc.bases import Basis

FORMS = ("mass", "values", "dirichlet", "linear")


@dataclass(frozen=True)
class Forms:
    """Sums over samples x with weights w, of a basis φ of p functions. A form that was not asked for is None.

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
    linear : ndarray, shape (p,)
        Σ w (Δφ + <∇φ, ∇log q0>), the linear term of score matching.

    Notes
    -----
    Memory is O(block p + p²), whatever the number of samples; the general mode of a basis without fused forms needs
    O(block p d).
    """

    weight: float
    mean: np.ndarray | None = None
    mass: np.ndarray | None = None
    values: np.ndarray | None = None
    value_sum: float | None = None
    dirichlet: np.ndarray | None = None
    linear: np.ndarray | None = None

    def __add__(self, other: Forms) -> Forms:
        return self._combine(other, 1.0)

    def __sub__(self, other: Forms) -> Forms:
        return self._combine(other, -1.0)

    def centred_mass(self) -> np.ndarray:
        """Covariance E[(φ - Eφ)(φ - Eφ)ᵀ]: constants lie outside a kernel's span, so the mass is centred."""
        mean = self.get("mean") / self.weight
        return self.get("mass") / self.weight - np.outer(mean, mean)

    def centred_values(self) -> np.ndarray:
        """Covariance E[(φ - Eφ)(y - Ey)]."""
        return (self.get("values") - self.get("mean") * (self.get("value_sum") / self.weight)) / self.weight

    def get(self, name: str) -> Any:
        """A sum by name; ValueError if it was not accumulated."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"{name} was not accumulated: name its form in accumulate(..., forms)")
        return value

    def _combine(self, other, sign):
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        if any((a is None) != (b is None) for a, b in pairs.values()):
            raise ValueError("forms can be added or subtracted only when both hold the same forms")
        sums: dict[str, Any] = {name: None if a is None else a + sign * b for name, (a, b) in pairs.items()}
        return Forms(**sums)


def accumulate(
    basis: Basis,
    x: np.ndarray,
    forms: tuple[str, ...],
    *,
    weights: np.ndarray | None = None,
    values: np.ndarray | None = None,
    base_gradient: np.ndarray | None = None,
    block: int = 2048,
) -> Forms:
    """Sum forms of a basis over samples, in blocks.

    Parameters
    ----------
    basis : Basis
    x : ndarray, shape (n, d)
    forms : tuple of {"mass", "values", "dirichlet", "linear"}
    weights : ndarray, shape (n,), optional
        Not negative; ones by default.
    values : ndarray, shape (n,), optional
        The y of the form "values".
    base_gradient : ndarray, shape (n, d), optional
        ∇log q0 at the samples, for the form "linear"; zero by default.
    block : int
        Samples per block.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.bases import KernelSections
    >>> from kmc.forms import accumulate
    >>> from kmc.kernels import Gaussian
    >>> x = np.linspace(-1, 1, 10)[:, None]
    >>> basis = KernelSections(Gaussian(), x[:3])
    >>> whole = accumulate(basis, x, ("mass", "dirichlet"))
    >>> parts = accumulate(basis, x[:4], ("mass", "dirichlet")) + accumulate(basis, x[4:], ("mass", "dirichlet"))
    >>> bool(np.allclose(whole.mass, parts.mass))
    True
    """
    unknown = [name for name in forms if name not in FORMS]
    if unknown:
        raise ValueError(f"forms={forms!r}: {unknown[0]!r} is not one of {FORMS}")
    if "values" in forms and values is None:
        raise ValueError("values=None: the form 'values' needs an array of shape (n,)")
    weights = np.ones(len(x)) if weights is None else weights
    total: Forms | None = None
    for start in range(0, len(x), block):
        part = slice(start, start + block)
        g = None if base_gradient is None else base_gradient[part]
        y = None if values is None else values[part]
        summed = _block(basis, x[part], forms, weights[part], y, g)
        total = summed if total is None else total + summed
    if total is None:
        raise ValueError("x has no rows: a form needs at least one sample")
    return total


def _block(basis, x, forms, w, y, g):
    out: dict = {"weight": float(w.sum())}
    if "mass" in forms or "values" in forms:
        phi = basis.values(x)
        out["mean"] = w @ phi
        if "mass" in forms:
            half = np.sqrt(w)[:, None] * phi
            out["mass"] = half.T @ half
        if "values" in forms:
            out["values"] = (w * y) @ phi
            out["value_sum"] = float(w @ y)
    if "dirichlet" in forms:
        out["dirichlet"] = basis.sum_dirichlet(x, w) if hasattr(basis, "sum_dirichlet") else _dirichlet(basis, x, w)
    if "linear" in forms:
        out["linear"] = basis.sum_linear(x, w, g) if hasattr(basis, "sum_linear") else _linear(basis, x, w, g)
    return Forms(**out)


def _dirichlet(basis, x, w):
    gradients = np.sqrt(w)[:, None, None] * basis.gradients(x)
    flat = gradients.transpose(1, 0, 2).reshape(basis.size, -1)
    return flat @ flat.T


def _linear(basis, x, w, g):
    total = w @ basis.laplacians(x)
    if g is not None:
        total += np.einsum("n,npd,nd->p", w, basis.gradients(x), g, optimize=True)
    return total
