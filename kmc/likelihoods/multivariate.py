"""The likelihood of data with correlated normal errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from kmc.checks import as_array
from kmc.likelihoods.base import OfData, Values


class MultivariateNormal(OfData):
    """Correlated normal errors around the outputs.

    Parameters
    ----------
    observed : array_like, shape (n,)
        The data, with NaN where they are missing.
    cov : array_like, shape (n, n), or callable
        The covariance matrix of the errors; or a function that returns it, given a dict of all parameters. Parameters
        for it alone are left out of the simulator's `inputs`. Where a function returns a matrix that is not
        positive-definite, the density is zero.
    observe : callable, optional
        A function of (outputs, parameters), see :class:`Normal`.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message has its name and its value.

    Notes
    -----
    The log-likelihood of an observation is that given the observations before it, so that the sum is the
    log-likelihood of all. ``arviz.loo`` then leaves out one such factor at a time.

    Examples
    --------
    >>> import kmc
    >>> likelihood = kmc.likelihoods.MultivariateNormal([0.0, 1.0], cov=[[1.0, 0.5], [0.5, 1.0]])
    >>> likelihood.log_likelihoods([0.0, 0.0], {})
    array([-0.92, -1.44])
    """

    def __init__(self, observed: Any, cov: Any, *, observe: Callable[..., Any] | None = None):
        super().__init__(observed, observe, {})
        if self.missing.ndim != 1:
            raise ValueError(f"observed has the shape {self.missing.shape}: expected (n,)")
        self._cov = cov
        self._known: Values | None = None
        if not callable(cov):
            self._known = self._factors(_as_covariance("cov", cov, len(self.missing)))
            if np.isnan(self._known["factor"][0]).any():
                raise ValueError("cov is not positive-definite: expected the covariance matrix of the errors")

    def _values(self, parameters: Mapping[str, Any]) -> Values:
        if self._known is not None:
            return self._known
        return self._factors(_as_covariance("cov", self._cov(parameters), len(self.missing)))

    def _factors(self, cov: np.ndarray) -> Values:
        """Return the Cholesky factors of the covariance, and of its part of the observed data."""
        seen = ~self.missing
        return {"factor": (_factor(cov),), "factor of observed": (_factor(cov[np.ix_(seen, seen)]),)}

    @property
    def _has_functions(self) -> bool:
        return self.observe is not None or callable(self._cov)

    def _log_density(self, mean: np.ndarray, values: Values) -> np.ndarray:
        # With cov = L L^T and L z = y - mean, log p(y_i | y_1, ..., y_{i-1}) = -z_i^2 / 2 - log L_ii - log(2 pi) / 2.
        (factor,) = values["factor of observed"]
        found = np.zeros(mean.shape)
        if np.isnan(factor).any():
            return found - np.inf
        seen = ~self.missing
        z = solve_triangular(factor, (self.observed - mean)[seen], lower=True, check_finite=False)
        found[seen] = -0.5 * z**2 - np.log(np.diag(factor)) - 0.5 * np.log(2.0 * np.pi)
        return found

    def _derivatives(self, mean: np.ndarray, values: Values) -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
        (factor,) = values["factor of observed"]
        seen = ~self.missing
        z = solve_triangular(factor, (self.observed - mean)[seen], lower=True, check_finite=False)
        along = np.zeros(mean.shape)
        along[seen] = solve_triangular(factor, z, lower=True, trans="T", check_finite=False)
        return along, {}

    def _draw(self, mean: np.ndarray, values: Values, rng: np.random.Generator) -> np.ndarray:
        (factor,) = values["factor"]
        return mean + factor @ rng.standard_normal(len(mean))


def _as_covariance(name: str, given: Any, n: int) -> np.ndarray:
    cov = as_array(name, given)
    if cov.shape != (n, n):
        raise ValueError(f"{name} has the shape {cov.shape}: expected ({n}, {n}), for {n} observations")
    if not np.allclose(cov, cov.T, rtol=1e-8, atol=0.0, equal_nan=True):
        raise ValueError(f"{name} is not symmetric: expected a covariance matrix")
    return cov


def _factor(cov: np.ndarray) -> np.ndarray:
    """Return the Cholesky factor L, cov = L L^T; NaN if the matrix is not positive-definite."""
    if np.isfinite(cov).all():
        try:
            return np.linalg.cholesky(cov)
        except np.linalg.LinAlgError:
            pass
    return np.full(cov.shape, np.nan)
