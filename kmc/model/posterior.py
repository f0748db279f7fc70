"""A log-density as the sum of a log-likelihood and a log-prior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.arrays import as_array

LOG_PRIOR, TOTAL = "log_prior", "total_log_likelihood"
"""Names of the blobs of the two parts."""


@dataclass(frozen=True, repr=False)
class Posterior:
    """The sum of a log-likelihood and a log-prior, which are stored with the draws.

    Parameters
    ----------
    log_likelihood : callable
        Takes the parameters, and further arguments. It returns a number, an array with a number for
        each observation, a dict of such arrays, or a pair of any of these and a dict of further
        outputs.
    log_prior : callable or None
        Takes the parameters and returns a number. Where it is -inf, the likelihood is not
        evaluated. None: zero.
    vectorized : bool
        Whether both take many points at once: the first dimension of what they return is that of
        the points.
    """

    log_likelihood: Callable[..., Any]
    log_prior: Callable[[Any], Any] | None
    vectorized: bool

    def __repr__(self) -> str:
        parts = (self.log_likelihood, self.log_prior)
        return " + ".join(
            getattr(part, "__qualname__", repr(part)) for part in parts if part is not None
        )

    def __call__(self, parameters: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the log-density and a dict of its parts.

        There is no dict if the prior is zero at all points.
        """
        prior = (
            None
            if self.log_prior is None
            else as_array("log_prior", self.log_prior(_copy(parameters)))
        )
        if prior is not None and np.all(prior == -np.inf):
            return prior if self.vectorized else -np.inf
        returned = self.log_likelihood(parameters, *args, **kwargs)
        likelihood, blobs = (
            returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, {})
        )
        total = self._total(likelihood)
        blobs = {**blobs, TOTAL: total}
        if prior is None:
            value = total
        else:
            value = np.where(prior == -np.inf, -np.inf, total + prior)
            blobs[LOG_PRIOR] = prior
        if isinstance(likelihood, dict) or np.ndim(likelihood) > int(self.vectorized):
            blobs["log_likelihood"] = likelihood
        return (value if self.vectorized else float(value)), blobs

    def _total(self, likelihood):
        arrays = likelihood.values() if isinstance(likelihood, dict) else [likelihood]
        leading = int(self.vectorized)
        return sum(
            np.sum(as_array("log_likelihood", a), axis=tuple(range(leading, np.ndim(a))))
            for a in arrays
        )


def with_declared(
    blobs: dict[str, Any] | None, value: Any, log_prior: Any, apart: bool
) -> dict[str, Any]:
    """Return the blobs of a function that returned ``value``, with the declared log-prior.

    ``apart`` says that the function is a :class:`Posterior`, whose blobs have both parts already.
    Otherwise its value is the log-likelihood.
    """
    own = blobs or {}
    if apart:
        return {**own, LOG_PRIOR: own.get(LOG_PRIOR, 0.0) + log_prior}
    return {TOTAL: value, LOG_PRIOR: log_prior, **own}


def _copy(parameters):
    """Copy the parameters for one of the parts, as either may modify its arrays."""
    if isinstance(parameters, dict):
        return {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in parameters.items()
        }
    return parameters.copy()
