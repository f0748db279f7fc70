"""Likelihoods of continuous data.

The errors are independent, and the data may be censored, or the errors are correlated and normal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import digamma, gammaln, log_ndtr, stdtr

from kmc.arrays import as_array
from kmc.likelihoods.base import OfData, Values, as_bound, as_term, as_terms, check_data

_HALF_LOG_2_PI = 0.5 * np.log(2.0 * np.pi)


class Normal(OfData):
    """Normal errors around the outputs.

    Parameters
    ----------
    observed : array_like
        The data y, of any shape, with NaN where they are missing.
    sd : float, array_like, str or list of these, optional
        The standard deviation: numbers, the name of a parameter, or a list of both, whose variances
        add: ``sd=[known_errors, "jitter"]``.
    relative : float, array_like, str or list of these, optional
        Standard deviations relative to the output: their variances, (relative * output)^2, add.
    lower, upper : float or array_like, optional
        Bounds of what can be measured. A value equal to its bound is censored: its likelihood is
        the probability of that bound and all beyond it.
    observe : callable, optional
        A function of (outputs, parameters), for gains, backgrounds and dilutions: it returns an
        array in the shape of the data, which takes the place of the outputs. It gets a dict of all
        parameters; those that are not for the simulator are left out of its `inputs`. A ufunc of
        numpy, such as `np.exp`, gets the outputs alone.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message has its name and its value.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> likelihood = kmc.likelihoods.Normal([1.0, np.nan, 2.0], sd="sigma")
    >>> likelihood.names
    ('sigma',)
    >>> likelihood.log_likelihoods([1.0, 5.0, 3.0], {"sigma": 1.0})
    array([-0.92,  0.  , -1.42])
    >>> along_outputs, along_parameters = likelihood.gradients([1.0, 5.0, 3.0], {"sigma": 1.0})
    >>> along_outputs, along_parameters["sigma"]
    (array([ 0.,  0., -1.]), array(-1.))
    """

    def __init__(
        self,
        observed: Any,
        sd: Any = None,
        *,
        relative: Any = None,
        lower: Any = None,
        upper: Any = None,
        observe: Callable[..., Any] | None = None,
    ):
        shape = np.shape(observed)
        terms = {"sd": as_terms("sd", sd, shape), "relative": as_terms("relative", relative, shape)}
        if not any(terms.values()):
            raise TypeError(
                f"sd={sd!r} and relative={relative!r}: expected a standard deviation in one of them"
            )
        super().__init__(observed, observe, terms)
        self._bounds = _bounds(self, lower, upper)

    def _log_density(self, mean: np.ndarray, values: Values) -> np.ndarray:
        return _log_density(
            _GAUSSIAN, self.observed, mean, _scale(mean, values, "sd"), self._bounds
        )

    def _derivatives(
        self, mean: np.ndarray, values: Values
    ) -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
        scale = _scale(mean, values, "sd")
        along_mean, along_scale = _derivatives(_GAUSSIAN, self.observed, mean, scale, self._bounds)
        return _by_terms(along_mean, along_scale, mean, scale, values, "sd")

    def _draw(self, mean: np.ndarray, values: Values, rng: np.random.Generator) -> np.ndarray:
        drawn = mean + _scale(mean, values, "sd") * rng.standard_normal(mean.shape)
        return np.clip(drawn, *self._bounds)


class LogNormal(OfData):
    """Log-normal errors with the outputs as medians: log(y) is normal around log(output).

    Where an output is not positive, the density is zero.

    Parameters
    ----------
    observed : array_like
        The data y, positive, of any shape, with NaN where they are missing.
    sd : float, array_like, str or list of these
        The standard deviation of log(y), about the relative error of y: numbers, the name of a
        parameter, or a list of both, whose variances add.
    lower, upper : float or array_like, optional
        Positive bounds of what can be measured. A value equal to its bound is censored, see
        :class:`Normal`.
    observe : callable, optional
        See :class:`Normal`.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message has its name and its value.

    Examples
    --------
    >>> import kmc
    >>> likelihood = kmc.likelihoods.LogNormal([1.0, 2.0], sd=0.5)
    >>> likelihood.log_likelihoods([1.0, -2.0], {})
    array([-0.23,  -inf])
    """

    def __init__(
        self,
        observed: Any,
        sd: Any,
        *,
        lower: Any = None,
        upper: Any = None,
        observe: Callable[..., Any] | None = None,
    ):
        terms = {"sd": as_terms("sd", sd, np.shape(observed)), "relative": ()}
        if not terms["sd"]:
            raise TypeError(f"sd={sd!r}: expected the standard deviation of the data's logarithms")
        super().__init__(observed, observe, terms)
        check_data("observed", self.observed, self.observed > 0, "positive numbers")
        self._bounds = _bounds(self, lower, upper)
        for name, bound in zip(("lower", "upper"), self._bounds):
            check_data(name, bound, (bound > 0) | np.isinf(bound), "positive numbers")
        with np.errstate(divide="ignore"):
            self._log_bounds = np.log(np.maximum(self._bounds[0], 0.0)), np.log(self._bounds[1])
        self._log_observed = np.log(self.observed)

    def _log_density(self, mean: np.ndarray, values: Values) -> np.ndarray:
        scale = _scale(mean, values, "sd")
        found = _log_density(_GAUSSIAN, self._log_observed, np.log(mean), scale, self._log_bounds)
        inside = (self._log_observed > self._log_bounds[0]) & (
            self._log_observed < self._log_bounds[1]
        )
        found = np.where(inside, found - self._log_observed, found)
        return np.where(mean <= 0, -np.inf, found)

    def _derivatives(
        self, mean: np.ndarray, values: Values
    ) -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
        scale, log_mean = _scale(mean, values, "sd"), np.log(mean)
        along_log, along_scale = _derivatives(
            _GAUSSIAN, self._log_observed, log_mean, scale, self._log_bounds
        )
        return _by_terms(along_log / mean, along_scale, mean, scale, values, "sd")

    def _draw(self, mean: np.ndarray, values: Values, rng: np.random.Generator) -> np.ndarray:
        drawn = mean * np.exp(_scale(mean, values, "sd") * rng.standard_normal(mean.shape))
        return np.clip(drawn, *self._bounds)


class StudentT(OfData):
    """Student-t errors around the outputs, for data with outliers.

    Parameters
    ----------
    observed : array_like
        The data y, of any shape, with NaN where they are missing.
    df : float, array_like or str
        Degrees of freedom: numbers, or the name of a parameter.
    scale : float, array_like, str or list of these, optional
        The scale: numbers, the name of a parameter, or a list of both, whose squares add. With more
        than 2 degrees of freedom the standard deviation is scale * sqrt(df / (df - 2)).
    relative : float, array_like, str or list of these, optional
        Scales relative to the output: their squares, (relative * output)^2, add.
    lower, upper : float or array_like, optional
        Bounds of what can be measured. A value equal to its bound is censored, see :class:`Normal`.
    observe : callable, optional
        See :class:`Normal`.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message has its name and its value.

    Examples
    --------
    >>> import kmc
    >>> likelihood = kmc.likelihoods.StudentT([1.0, 9.0], df=4, scale="sigma")
    >>> likelihood.log_likelihoods([1.0, 2.0], {"sigma": 1.0})
    array([-0.98, -7.44])
    """

    def __init__(
        self,
        observed: Any,
        df: Any,
        scale: Any = None,
        *,
        relative: Any = None,
        lower: Any = None,
        upper: Any = None,
        observe: Callable[..., Any] | None = None,
    ):
        shape = np.shape(observed)
        terms = {
            "scale": as_terms("scale", scale, shape),
            "relative": as_terms("relative", relative, shape),
        }
        if not any(terms.values()):
            raise TypeError(
                f"scale={scale!r} and relative={relative!r}: expected a scale in one of them"
            )
        super().__init__(observed, observe, {**terms, "df": (as_term("df", df, shape),)})
        self._bounds = _bounds(self, lower, upper)

    def _log_density(self, mean: np.ndarray, values: Values) -> np.ndarray:
        (df,) = values["df"]
        found = _log_density(
            _student(df), self.observed, mean, _scale(mean, values, "scale"), self._bounds
        )
        return np.where(df > 0, found, -np.inf)

    def _derivatives(
        self, mean: np.ndarray, values: Values
    ) -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
        (df,) = values["df"]
        scale = _scale(mean, values, "scale")
        along_mean, along_scale = _derivatives(
            _student(df), self.observed, mean, scale, self._bounds
        )
        along, by_term = _by_terms(along_mean, along_scale, mean, scale, values, "scale")
        lower, upper = self._bounds
        z = (self.observed - mean) / scale
        square = z * z
        along_df = 0.5 * (
            digamma(0.5 * (df + 1.0))
            - digamma(0.5 * df)
            - 1.0 / df
            - np.log1p(square / df)
            + (df + 1.0) * square / (df * (df + square))
        )
        along_df = np.where(
            self.observed <= lower, _log_cdf_along_df((lower - mean) / scale, df), along_df
        )
        along_df = np.where(
            self.observed >= upper, _log_cdf_along_df((mean - upper) / scale, df), along_df
        )
        return along, {**by_term, "df": [along_df]}

    def _draw(self, mean: np.ndarray, values: Values, rng: np.random.Generator) -> np.ndarray:
        (df,) = values["df"]
        drawn = mean + _scale(mean, values, "scale") * rng.standard_t(
            np.broadcast_to(df, mean.shape)
        )
        return np.clip(drawn, *self._bounds)


class _Family(NamedTuple):
    """A symmetric distribution with scale 1 around 0."""

    log_pdf: Callable[[Any], Any]
    slope: Callable[[Any], Any]  # derivative of log_pdf
    log_cdf: Callable[[Any], Any]


_GAUSSIAN = _Family(lambda z: -0.5 * z * z - _HALF_LOG_2_PI, lambda z: -z, log_ndtr)


def _student(df: np.ndarray) -> _Family:
    constant = gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df) - 0.5 * np.log(df * np.pi)
    return _Family(
        lambda z: constant - 0.5 * (df + 1.0) * np.log1p(z * z / df),
        lambda z: -(df + 1.0) * z / (df + z * z),
        lambda z: np.log(stdtr(df, z)),
    )


def _log_cdf_along_df(z: np.ndarray, df: np.ndarray) -> np.ndarray:
    """Differentiate log F(z; df) along df by central differences, as there is no closed form."""
    step = 1e-5 * df
    return (np.log(stdtr(df + step, z)) - np.log(stdtr(df - step, z))) / (2.0 * step)


def _bounds(likelihood: OfData, lower: Any, upper: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return both bounds, infinite where there are none.

    Raises
    ------
    ValueError
        Data lie beyond them, or a lower bound is not below the upper one.
    """
    data = likelihood.observed
    found = as_bound("lower", lower, data.shape), as_bound("upper", upper, data.shape)
    low = np.array(-np.inf) if found[0] is None else found[0]
    high = np.array(np.inf) if found[1] is None else found[1]
    if not np.all(low < high):
        raise ValueError(
            f"lower={lower!r} and upper={upper!r}: expected lower bounds below the upper ones"
        )
    check_data(
        "observed", data, data >= low, f"at least lower={lower!r}; a value equal to it is censored"
    )
    check_data(
        "observed", data, data <= high, f"at most upper={upper!r}; a value equal to it is censored"
    )
    return low, high


def _scale(mean: np.ndarray, values: Values, name: str) -> np.ndarray:
    """Return the root of the sum of variances; NaN where a scale is not positive (density zero)."""
    if len(values[name]) == 1 and not values["relative"]:
        (scale,) = values[name]
    else:
        variances = [each**2 for each in values[name]] + [
            (each * mean) ** 2 for each in values["relative"]
        ]
        scale = np.sqrt(sum(variances))
    negative = sum(((each < 0) for each in (*values[name], *values["relative"])), np.array(False))
    return np.where(negative | (scale <= 0), np.nan, scale)


def _log_density(
    family: _Family, y: Any, mean: np.ndarray, scale: np.ndarray, bounds: Any
) -> np.ndarray:
    """Return log p((y - mean) / scale) / scale.

    For censored data, it is the log of the probability beyond the bound.
    """
    lower, upper = bounds
    found = family.log_pdf((y - mean) / scale) - np.log(scale)
    found = np.where(y <= lower, family.log_cdf((lower - mean) / scale), found)
    found = np.where(y >= upper, family.log_cdf((mean - upper) / scale), found)
    return np.where(np.isnan(scale) & ~np.isnan(mean), -np.inf, found)


def _derivatives(
    family: _Family, y: Any, mean: np.ndarray, scale: np.ndarray, bounds: Any
) -> tuple[Any, Any]:
    """Return the derivatives of :func:`_log_density` along the mean and along the scale."""
    lower, upper = bounds
    z = (y - mean) / scale
    slope = family.slope(z)
    along_mean, along_scale = -slope / scale, -(1.0 + slope * z) / scale
    for censored, sign, bound in ((y <= lower, 1.0, lower), (y >= upper, -1.0, upper)):
        # log F(v) with v = ±(bound - mean) / scale: its derivative is the ratio of density and
        # probability
        v = sign * (bound - mean) / scale
        ratio = np.exp(family.log_pdf(v) - family.log_cdf(v))
        along_mean = np.where(censored, -sign * ratio / scale, along_mean)
        along_scale = np.where(censored, -ratio * v / scale, along_scale)
    return along_mean, along_scale


def _by_terms(
    along_mean: Any,
    along_scale: Any,
    mean: np.ndarray,
    scale: np.ndarray,
    values: Values,
    name: str,
) -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
    """Return the derivatives along outputs and terms.

    Here scale^2 = sum of term^2 + sum of (relative * output)^2. For :class:`LogNormal`,
    `along_mean` is along the output, and there are no relative terms.
    """
    for each in values["relative"]:
        along_mean = along_mean + along_scale * each**2 * mean / scale
    return along_mean, {
        name: [along_scale * each / scale for each in values[name]],
        "relative": [along_scale * each * mean**2 / scale for each in values["relative"]],
    }


class MultivariateNormal(OfData):
    """Correlated normal errors around the outputs.

    Parameters
    ----------
    observed : array_like, shape (n,)
        The data, with NaN where they are missing.
    cov : array_like, shape (n, n), or callable
        The covariance matrix of the errors; or a function that returns it, given a dict of all
        parameters. Parameters for it alone are left out of the simulator's `inputs`. Where a
        function returns a matrix that is not positive-definite, the density is zero.
    observe : callable, optional
        A function of (outputs, parameters), see :class:`Normal`.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message has its name and its value.

    Notes
    -----
    The log-likelihood of an observation is that given the observations before it, so that the sum
    is the log-likelihood of all. ``arviz.loo`` then leaves out one such factor at a time.

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
                raise ValueError(
                    "cov is not positive-definite: expected the covariance matrix of the errors"
                )

    def _values(self, parameters: Mapping[str, Any]) -> Values:
        if self._known is not None:
            return self._known
        return self._factors(_as_covariance("cov", self._cov(parameters), len(self.missing)))

    def _factors(self, cov: np.ndarray) -> Values:
        """Return the Cholesky factors of the covariance, and of its part of the observed data."""
        seen = ~self.missing
        return {
            "factor": (_factor(cov),),
            "factor of observed": (_factor(cov[np.ix_(seen, seen)]),),
        }

    @property
    def _has_functions(self) -> bool:
        return self.observe is not None or callable(self._cov)

    def _log_density(self, mean: np.ndarray, values: Values) -> np.ndarray:
        # With cov = L L^T and L z = y - mean, log p(y_i | y_1, ..., y_{i-1}) = -z_i^2 / 2 - log
        # L_ii - log(2 pi) / 2.
        (factor,) = values["factor of observed"]
        found = np.zeros(mean.shape)
        if np.isnan(factor).any():
            return found - np.inf
        seen = ~self.missing
        z = solve_triangular(factor, (self.observed - mean)[seen], lower=True, check_finite=False)
        found[seen] = -0.5 * z**2 - np.log(np.diag(factor)) - 0.5 * np.log(2.0 * np.pi)
        return found

    def _derivatives(
        self, mean: np.ndarray, values: Values
    ) -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
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
        raise ValueError(
            f"{name} has the shape {cov.shape}: expected ({n}, {n}), for {n} observations"
        )
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
