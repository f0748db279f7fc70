"""The kernel part of the surrogate: one linear solve, with a kernel chosen by leave-one-out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.bases import Contraction, KernelSections, Whitened
from kmc.forms.accumulate import accumulate
from kmc.kernels import Gaussian, Metric, Polynomial, median_distance
from kmc.linalg import cholesky_whitening, ridge_path
from kmc.surrogates.noise import no_worse
from kmc.surrogates.slopes import Slopes
from kmc.surrogates.whitening import Whitening
from kmc.threads import each_in_threads

# "Tried" is docs/what-was-tried.md; the others were set by hand.
REGULARIZATIONS = np.logspace(-13, 2, 31)  # candidates; wide kernels need small ones
DEGREE = 4  # degree of the polynomials that are the widest kernel (tried: quartics)
_POLYNOMIAL_WIDTH = 2.0  # their width, in median distances of the centers from the middle
_WIDER = 0.3, 0.1  # fractions of the best kernel's gain and of its error: error that a wider one may add
_SMOOTHER = 0.15, 0.04  # the same for more regularization
_RUNAWAY = 0.02  # fraction of deep points that a wider kernel may claim beyond the smallest claim


class Data(NamedTuple):
    """Data for the fit of the expansion f, in whitened coordinates.

    f + c ≈ residual at ``z``, and ∇f ≈ the gradients of ``slopes``, if there are any.
    """

    z: np.ndarray  # (n, d)
    residual: np.ndarray  # (n,) log-density minus trend
    weights: np.ndarray  # (n,) summing to one
    centers: np.ndarray  # (m, d)
    deep: np.ndarray | None = None  # (l, d) points that are known to be far outside the bulk
    deep_limit: np.ndarray | None = None  # (l,) upper limits of f there
    noisy: bool = False
    slopes: Slopes | None = None  # gradients of the log-density minus those of the trend


class Expansion(NamedTuple):
    """f(z) = offset + Σ_a coefficients_a k(metric (z - origin), metric (centers_a - origin))."""

    kernel: Gaussian | Polynomial
    centers: np.ndarray  # (m, d)
    metric: np.ndarray  # (d, d)
    coefficients: np.ndarray  # (m,)
    offset: float
    factor: float  # bandwidth in median distances between centers; infinite: polynomials of degree four
    regularization: float
    loo_sd: float  # weighted root mean square of the leave-one-out residuals
    residuals: np.ndarray  # (n,) leave-one-out residuals
    origin: np.ndarray  # (d,) of the polynomials; irrelevant for radial kernels

    @property
    def rate(self) -> float:
        """The factor on squared distances, or on the inner products of polynomials."""
        return self.kernel.rate if isinstance(self.kernel, Gaussian) else self.kernel.bandwidth**-2

    @property
    def basis(self) -> KernelSections:
        """The sections, as functions of z - origin."""
        return KernelSections(Metric(self.kernel, self.metric), self.centers - self.origin)

    def rewhitened(self, step: Whitening) -> Expansion:
        """The same function of coordinates step(z)."""
        return self._replace(
            centers=step(self.centers), origin=step(self.origin[None])[0], metric=self.metric @ step.inverse
        )

    def values(self, z: np.ndarray) -> np.ndarray:
        """f at the rows of z, shape (n,)."""
        return self.offset + self.basis.values(z - self.origin) @ self.coefficients

    def gradients(self, z: np.ndarray) -> np.ndarray:
        """∇f at the rows of z, shape (n, d)."""
        return Contraction(self.basis, self.coefficients).gradient(z - self.origin)


def fit_expansion(data: Data, metric: np.ndarray, factors: tuple[float, ...], *, jitter: float) -> Expansion:
    """The widest kernel, and the largest regularization, with little more than the smallest leave-one-out error.

    Wide kernels with the same error inside the data have a tenth of the error outside (measured on curved targets):
    narrow ones fall back to the trend there. The widest of all are polynomials, the limit of flat kernels: with them a
    curved ridge continues to bend beyond the data. But a wide kernel may also rise without bound: of those that fit
    well, only those that keep the known deep points out of the bulk are considered.
    """
    candidates = each_in_threads(lambda factor: fit_kernel(data, metric, factor, jitter=jitter), factors)
    if data.noisy:
        fits = no_worse(np.stack([c.residuals for c in candidates], axis=1), data.weights)
    else:
        base = float(np.sqrt(data.weights @ (data.residual - data.weights @ data.residual) ** 2))
        best = min(c.loo_sd for c in candidates)
        fits = np.array([c.loo_sd for c in candidates]) <= _allowed(best, base, _WIDER)
    fitting = [c for c, good in zip(candidates, fits, strict=True) if good]
    runaway = [_runaway(c, data) for c in fitting]
    return max(
        (c for c, r in zip(fitting, runaway, strict=True) if r <= min(runaway) + _RUNAWAY), key=lambda c: c.factor
    )


def fit_kernel(
    data: Data, metric: np.ndarray, factor: float, *, jitter: float, regularization: float | None = None
) -> Expansion:
    """The expansion in sections of one bandwidth; its ridge is chosen by leave-one-out if it is not given.

    Leave-one-out is that of the values: the gradient at a point stays when its value is left out.
    """
    kernel = kernel_of_width(data.centers @ metric.T, factor)
    sections = KernelSections(Metric(kernel, metric), data.centers)
    whitening = cholesky_whitening(sections.gram(), jitter)
    basis = Whitened(sections, whitening)

    forms = accumulate(basis, data.z, ("mass", "values"), weights=data.weights, values=data.residual)
    matrix, target = forms.centered_mass(), forms.centered_values()
    if data.slopes:
        z, gradient, weights = data.slopes
        gradients = accumulate(sections, z, ("dirichlet", "gradients"), weights=weights, gradients=gradient)
        matrix = matrix + whitening.T @ gradients.get("dirichlet") @ whitening
        target = target + whitening.T @ gradients.get("gradients")
    path = ridge_path(matrix, target)
    mean, value_mean = forms.get("mean") / forms.weight, forms.get("value_sum") / forms.weight
    grid = REGULARIZATIONS if regularization is None else np.array([regularization])
    residuals = path.leave_one_out(basis.values(data.z) - mean, data.residual - value_mean, data.weights, grid)
    errors = np.sqrt(data.weights @ residuals**2)
    if data.noisy:
        chosen = int(np.flatnonzero(no_worse(residuals, data.weights))[-1])
    else:
        chosen = largest_regularization(errors, float(np.sqrt(data.weights @ (data.residual - value_mean) ** 2)))
    beta = path.coefficients(float(grid[chosen]))
    return Expansion(
        kernel=kernel,
        centers=data.centers,
        metric=metric,
        coefficients=whitening @ beta,
        offset=float(value_mean - mean @ beta),
        factor=factor,
        regularization=float(grid[chosen]),
        loo_sd=float(errors[chosen]),
        residuals=residuals[:, chosen],
        origin=np.zeros(len(metric)),
    )


def kernel_of_width(centers: np.ndarray, factor: float) -> Gaussian | Polynomial:
    """The Gaussian of this bandwidth, in median distances between centers; quartic polynomials if it is infinite.

    Raises
    ------
    LinAlgError
        If there are no two distinct centers.
    """
    if factor == np.inf:
        return Polynomial(DEGREE, 1.0, _POLYNOMIAL_WIDTH * float(np.sqrt(np.median(np.sum(centers**2, axis=1)))))
    try:
        return Gaussian(factor * median_distance(centers))
    except ValueError as error:
        raise np.linalg.LinAlgError(str(error)) from error


def _runaway(expansion: Expansion, data: Data) -> float:
    """Fraction of the known deep points at which the expansion is too high."""
    if data.deep is None or not len(data.deep):
        return 0.0
    return float(np.mean(expansion.values(data.deep) > data.deep_limit))


def largest_regularization(errors: np.ndarray, base: float) -> int:
    """Index of the largest regularization with little more than the least error; ``base`` is that without a fit."""
    return int(np.flatnonzero(errors <= _allowed(errors.min(), base, _SMOOTHER))[-1])


def _allowed(best: float, base: float, cost: tuple[float, float]) -> float:
    """The error allowed for a fit simpler than the best, if the error without a fit is ``base``."""
    share, least = cost
    return best + share * min(max(base - best, 0.0), max(best, least))
