"""Regression on terms: products of coordinates and of exponentials of coordinates.

Hierarchical models are sums of few such terms: for a log-scale t, a group x_i around a mean m has the log-density
-exp(-2 t) (x_i - m)² / 2 - t. In the coordinates of the user only few of all products occur (interactions are sparse),
so that terms can be found from far fewer values than there are products: see :mod:`kmc.surrogates.term_search`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.linalg import ridge_path
from kmc.surrogates.expansion import REGULARIZATIONS, Data, largest_regularization
from kmc.surrogates.metric import metric_of_gradients
from kmc.surrogates.scale_group import ScaleGroup
from kmc.surrogates.terms_jit_state import LARGEST, TermsState, gradients_of_terms
from kmc.surrogates.whitening import Whitening
from kmc.surrogates.wide_trend import is_wide

_TRIMMED = 0.01  # of the values, in many dimensions: exponentials of a few far points have all the leverage


class Terms(NamedTuple):
    """Products of entries of w = (1, v_1, ..., v_d, exp(rates_1 v_j1), exp(rates_2 v_j2), ...).

    v = matrix z - shift: the coordinates of the user or of a transport, in units of their spread.
    """

    factors: np.ndarray  # (s, most factors) indices into w; 0, which is 1, fills up
    drivers: np.ndarray  # (e,) indices j of v, from 0
    rates: np.ndarray  # (e,)
    matrix: np.ndarray  # (d, d)
    shift: np.ndarray  # (d,)
    ties: np.ndarray | None = None  # (s, q): the terms' coefficients are ties @ β; None: each has its own
    groups: tuple[ScaleGroup, ...] = ()  # in the coordinates of the user or of a transport

    def coordinates(self, z: np.ndarray) -> np.ndarray:
        """v at the rows of z (n, d)."""
        return z @ self.matrix.T - self.shift

    def values(self, z: np.ndarray) -> np.ndarray:
        """All terms at the rows of z, shape (n, s)."""
        return products(extended(self.coordinates(z), self.drivers, self.rates), self.factors)

    def rewhitened(self, step: Whitening) -> Terms:
        """The same terms of coordinates step(z)."""
        matrix = self.matrix @ step.inverse
        return self._replace(matrix=matrix, shift=self.shift - self.matrix @ step.origin)


class TermExpansion(NamedTuple):
    """f(z) = offset + Σ_a coefficients_a term_a(z); other fields as in :class:`kmc.surrogates.expansion.Expansion`."""

    terms: Terms
    coefficients: np.ndarray  # (s,)
    offset: float
    regularization: float
    loo_sd: float
    residuals: np.ndarray  # (n,) leave-one-out residuals
    metric: np.ndarray  # (d, d) of the gradients
    centers: np.ndarray  # (m, d) some of the data
    n_searched: int  # values that were known when the terms were searched
    factor: float = np.inf

    def values(self, z: np.ndarray) -> np.ndarray:
        """f at the rows of z, shape (n,)."""
        return self.offset + self.terms.values(z) @ self.coefficients

    def gradients(self, z: np.ndarray) -> np.ndarray:
        """∇f at the rows of z, shape (n, d)."""
        return gradients_of_terms(self.jit_state, self.terms.coordinates(z)) @ self.terms.matrix

    def rewhitened(self, step: Whitening) -> TermExpansion:
        """The same function of coordinates step(z)."""
        return self._replace(
            terms=self.terms.rewhitened(step), metric=self.metric @ step.inverse, centers=step(self.centers)
        )

    @property
    def jit_state(self) -> TermsState:
        """The sum for jitted loops, in coordinates v, without the offset."""
        terms = self.terms
        return TermsState(np.ascontiguousarray(terms.factors), self.coefficients, terms.drivers, terms.rates)


def extended(v: np.ndarray, drivers: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """w (n, 1 + d + e) at the rows of v (n, d)."""
    arguments = np.clip(v[:, drivers] * rates, -LARGEST, LARGEST)
    return np.hstack([np.ones((len(v), 1)), v, np.exp(arguments)])


def products(w: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """The terms (n, s) with these factors (s, q), at the rows of w."""
    out = w[:, factors[:, 0]]
    for column in factors.T[1:]:
        used = np.flatnonzero(column)
        out[:, used] *= w[:, column[used]]
    return out


def _errors(residuals: np.ndarray, weights: np.ndarray, *, trimmed: float) -> np.ndarray:
    """Weighted root mean squares (r,) of the columns (n, r), without this part of the rows, the worst."""
    squares = weights[:, None] * residuals**2
    n = len(squares)
    least = int(np.ceil((1.0 - trimmed) * n))
    if least < n:
        squares = np.partition(squares, least - 1, axis=0)[:least]
    return np.sqrt(squares.sum(axis=0))


def fit_terms(data: Data, terms: Terms, *, n_searched: int) -> TermExpansion:
    """Weighted least squares on these terms, with a ridge in units of their spread, chosen by leave-one-out."""
    weights, y = data.weights, data.residual
    design = terms.values(data.z)
    if terms.ties is not None:
        design = design @ terms.ties
    mean, value_mean = weights @ design, float(weights @ y)
    design -= mean
    spread = np.sqrt(weights @ design**2)
    spread = np.where(spread > 0, spread, 1.0)
    design /= spread
    weighted = weights[:, None] * design
    path = ridge_path(weighted.T @ design, weighted.T @ (y - value_mean))
    residuals = path.leave_one_out(design, y - value_mean, weights, REGULARIZATIONS)
    errors = _errors(residuals, weights, trimmed=_TRIMMED if is_wide(data.z.shape[1]) else 0.0)
    chosen = largest_regularization(errors, float(np.sqrt(weights @ (y - value_mean) ** 2)))
    coefficients = path.coefficients(float(REGULARIZATIONS[chosen])) / spread
    found = TermExpansion(
        terms=terms,
        coefficients=coefficients if terms.ties is None else terms.ties @ coefficients,
        offset=float(value_mean - mean @ coefficients),
        regularization=float(REGULARIZATIONS[chosen]),
        loo_sd=float(errors[chosen]),
        residuals=residuals[:, chosen],
        metric=np.eye(len(terms.matrix)),
        centers=data.centers,
        n_searched=n_searched,
    )
    return found._replace(metric=metric_of_gradients(found.gradients(data.z), weights))
