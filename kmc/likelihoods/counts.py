"""Likelihoods of counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, xlog1py, xlogy

from kmc.arrays import as_array
from kmc.likelihoods.base import OfData, Values, as_term, check_data, fitting

_MOST = 2.0**62  # the largest mean that NumPy draws counts of


class Poisson(OfData):
    """Poisson counts, whose means are the outputs.

    Where an output is negative, the density is zero.

    Parameters
    ----------
    observed : array_like
        The counts, of any shape, with NaN where they are missing.
    observe : callable, optional
        A function of (outputs, parameters), see :class:`Normal`.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message has its name and its value.

    Examples
    --------
    >>> import kmc
    >>> kmc.likelihoods.Poisson([0, 3]).log_likelihoods([0.5, 2.0], {})
    array([-0.5 , -1.71])
    """

    def __init__(self, observed: Any, *, observe: Callable[..., Any] | None = None):
        super().__init__(observed, observe, {})
        self.observed = _as_counts(self.observed)

    def _log_density(self, mean: np.ndarray, values: Values) -> np.ndarray:
        y = self.observed
        return np.where(mean < 0, -np.inf, xlogy(y, mean) - mean - gammaln(y + 1.0))

    def _derivatives(
        self, mean: np.ndarray, values: Values
    ) -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
        return _ratio(self.observed, mean) - 1.0, {}

    def _draw(self, mean: np.ndarray, values: Values, rng: np.random.Generator) -> np.ndarray:
        return _counts(self, rng.poisson(np.minimum(mean, _MOST)))


class NegativeBinomial(OfData):
    """Counts whose means mu are the outputs, and whose variances are mu + mu^2 / dispersion.

    Where an output is negative, the density is zero.

    Parameters
    ----------
    observed : array_like
        The counts, of any shape, with NaN where they are missing.
    dispersion : float, array_like or str
        Numbers, or the name of a parameter. The larger it is, the closer the counts are to Poisson
        counts.
    observe : callable, optional
        A function of (outputs, parameters), see :class:`Normal`.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message has its name and its value.

    Examples
    --------
    >>> import kmc
    >>> likelihood = kmc.likelihoods.NegativeBinomial([0, 3], dispersion="phi")
    >>> likelihood.log_likelihoods([0.5, 2.0], {"phi": 5.0})
    array([-0.48 , -1.89])
    """

    def __init__(
        self, observed: Any, dispersion: Any, *, observe: Callable[..., Any] | None = None
    ):
        super().__init__(
            observed,
            observe,
            {"dispersion": (as_term("dispersion", dispersion, np.shape(observed)),)},
        )
        self.observed = _as_counts(self.observed)

    def _log_density(self, mean: np.ndarray, values: Values) -> np.ndarray:
        y, (phi,) = self.observed, values["dispersion"]
        found = (
            gammaln(y + phi)
            - gammaln(phi)
            - gammaln(y + 1.0)
            - phi * np.log1p(mean / phi)
            + xlogy(y, mean / (mean + phi))
        )
        return np.where((mean < 0) | (phi <= 0), -np.inf, found)

    def _derivatives(
        self, mean: np.ndarray, values: Values
    ) -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
        y, (phi,) = self.observed, values["dispersion"]
        along_phi = (
            digamma(y + phi) - digamma(phi) - np.log1p(mean / phi) + (mean - y) / (mean + phi)
        )
        return _ratio(y, mean) - (y + phi) / (mean + phi), {"dispersion": [along_phi]}

    def _draw(self, mean: np.ndarray, values: Values, rng: np.random.Generator) -> np.ndarray:
        (phi,) = values["dispersion"]
        rate = rng.gamma(np.broadcast_to(phi, mean.shape), mean / phi)
        return _counts(self, rng.poisson(np.minimum(rate, _MOST)))


class Binomial(OfData):
    """Counts of successes among n trials, whose probabilities are the outputs.

    Where an output is not between 0 and 1, the density is zero.

    Parameters
    ----------
    observed : array_like
        The counts, of any shape, with NaN where they are missing.
    n : int or array_like
        The number of trials of each.
    observe : callable, optional
        A function of (outputs, parameters), see :class:`Normal`.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message has its name and its value.

    Examples
    --------
    >>> import kmc
    >>> kmc.likelihoods.Binomial([0, 3], n=10).log_likelihoods([0.1, 0.3], {})
    array([-1.05, -1.32])
    """

    def __init__(self, observed: Any, n: Any, *, observe: Callable[..., Any] | None = None):
        super().__init__(observed, observe, {})
        self.observed = _as_counts(self.observed)
        self.n = fitting("n", as_array("n", n), self.missing.shape)
        check_data(
            "n", self.n, (self.n >= 1) & (self.n == np.floor(self.n)), "whole numbers of at least 1"
        )
        check_data(
            "observed",
            self.observed,
            self.observed <= self.n,
            f"at most the number of trials, n={n!r}",
        )

    def _log_density(self, mean: np.ndarray, values: Values) -> np.ndarray:
        y, n = self.observed, self.n
        ways = gammaln(n + 1.0) - gammaln(y + 1.0) - gammaln(n - y + 1.0)
        return _outside(mean, ways + xlogy(y, mean) + xlog1py(n - y, -mean))

    def _derivatives(
        self, mean: np.ndarray, values: Values
    ) -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
        y, n = self.observed, self.n
        return _ratio(y, mean) - _ratio(n - y, 1.0 - mean), {}

    def _draw(self, mean: np.ndarray, values: Values, rng: np.random.Generator) -> np.ndarray:
        return _counts(
            self, rng.binomial(np.broadcast_to(self.n, mean.shape).astype(np.int64), mean)
        )


class Bernoulli(OfData):
    """Zeros and ones; the outputs are the probabilities of a one.

    Where an output is not between 0 and 1, the density is zero.

    Parameters
    ----------
    observed : array_like
        Zeros and ones, or truth values, of any shape, with NaN where they are missing.
    observe : callable, optional
        A function of (outputs, parameters), see :class:`Normal`.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message has its name and its value.

    Examples
    --------
    >>> import kmc
    >>> kmc.likelihoods.Bernoulli([0, 1]).log_likelihoods([0.1, 0.5], {})
    array([-0.11, -0.69])
    """

    def __init__(self, observed: Any, *, observe: Callable[..., Any] | None = None):
        super().__init__(observed, observe, {})
        check_data("observed", self.observed, np.isin(self.observed, (0.0, 1.0)), "0 or 1")
        self.observed = _as_counts(self.observed)

    def _log_density(self, mean: np.ndarray, values: Values) -> np.ndarray:
        return _outside(mean, np.where(self.observed == 1.0, np.log(mean), np.log1p(-mean)))

    def _derivatives(
        self, mean: np.ndarray, values: Values
    ) -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
        return np.where(self.observed == 1.0, 1.0 / mean, -1.0 / (1.0 - mean)), {}

    def _draw(self, mean: np.ndarray, values: Values, rng: np.random.Generator) -> np.ndarray:
        return _counts(self, rng.binomial(1, mean))


def _as_counts(observed: np.ndarray) -> np.ndarray:
    """Return the counts as whole numbers, so ArviZ plots bars; as floats if some are missing."""
    valid = (observed >= 0) & (observed <= 2**53) & (observed == np.floor(observed))
    check_data("observed", observed, valid, "whole numbers from 0 to 2**53")
    return observed if np.isnan(observed).any() else observed.astype(np.int64)


def _outside(probability: np.ndarray, found: np.ndarray) -> np.ndarray:
    return np.where((probability < 0) | (probability > 1), -np.inf, found)


def _ratio(counts: Any, mean: np.ndarray) -> np.ndarray:
    """Return counts / mean, 0 for counts of zero: the derivative of counts * log(mean)."""
    return np.where(counts == 0, 0.0, counts / mean)


def _counts(likelihood: OfData, drawn: np.ndarray) -> np.ndarray:
    """Return draws in the type of the data; if some are missing, draws may be NaN."""
    return drawn.astype(float) if likelihood.missing.any() else drawn
