"""A result in numbers: the table of its parameters, and its highest points.

The table is ArviZ's, with circular statistics for angles.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from kmc.diagnostics.draws import columns, labeled_posterior, posterior_of
from kmc.model.posterior import LOG_PRIOR, TOTAL
from kmc.run.problems import sentences_of
from kmc.unwritable import import_arviz

WIDTH = 80
_LEAST = ("mcse_sd", "mcse_mean")
"""Columns that are left out first."""

_SHOWN = 10  # numbers in a line


def summary(idata: Any, var_names: Sequence[str] | None = None) -> Any:
    """Return ArviZ's summary of the posterior, and the warnings.

    Variables on a circle have their circular mean and sd. The summary is printed with three digits,
    within 80 columns, and with the warnings of the run below.

    Parameters
    ----------
    idata : InferenceData or DataTree
        The result of :func:`kmc.sample`. A variable is on a circle if its attributes say so, as for
        :class:`kmc.Circular` and :class:`kmc.Angle`.
    var_names : sequence of str, optional
        Variables of the posterior, or elements of them, ``"slope[A]"``; all of them by default.

    Returns
    -------
    pandas.DataFrame
        One row for each number, with ArviZ's columns, not rounded, also those that are too many to
        be printed. Its ``attrs["warnings"]`` is a list of the run's warnings; :func:`kmc.warnings`
        has them by code. On a circle, "mean" is the circular mean, in [low, high); "sd" is the
        circular sd, sqrt(-2 log R), in the parameter's unit. Everything else (intervals, errors,
        effective sample sizes, R-hat) is computed from the draws within half a period of that mean:
        an interval may extend beyond `low` or `high`, and then continues at the other end.

    Raises
    ------
    TypeError, ValueError
        `idata` has no group "posterior", or `var_names` is empty or has a name that is not in it.

    Notes
    -----
    The circular sd is about the sd for a narrow distribution, and infinite for a uniform one. If
    there are several directions, a circular mean lies between them and is not informative: plot the
    draws.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> circle = kmc.Circular(0, 2 * np.pi)
    >>> model = kmc.Model(lambda p: 9 * np.cos(p["phi"]), parameters={"phi": circle})
    >>> idata = kmc.sample(model, draws=100, max_evaluations=800, seed=1, progress=False)
    >>> summary = kmc.summary(idata)
    >>> float(summary["sd"]["phi"]) < 0.5  # of the numbers in [0, 2 pi), split in two: about 3
    True
    """
    arviz = import_arviz()
    posterior = posterior_of(idata)
    variables = labeled_posterior(idata)
    chosen = columns(variables, var_names)
    names = list(dict.fromkeys(column.variable for column in chosen))
    dataset = (posterior.to_dataset() if hasattr(posterior, "to_dataset") else posterior)[
        names
    ].compute()
    means, sds = {}, {}
    row = 0
    for name in names:
        size = int(np.prod(dataset[name].shape[2:]))
        if (circle := Circle.of(posterior[name].attrs)) is not None:
            around = dataset[name].transpose("chain", "draw", ...).copy()
            for k, index in enumerate(np.ndindex(around.shape[2:]), start=row):
                draws = around.values[(..., *index)]
                means[k], sds[k] = circle.mean(draws), circle.sd(draws)
                around.values[(..., *index)] = circle.around(draws, means[k])
            dataset[name] = around
        row += size
    table = arviz.summary(dataset, round_to="none")
    for column, found in (("mean", means), ("sd", sds)):
        table.iloc[list(found), table.columns.get_loc(column)] = list(found.values())
    places = {column: i for i, column in enumerate(columns(variables, names))}  # the table's order
    # pandas takes long to import

    found = Table(table.iloc[[places[column] for column in chosen]])
    found.attrs["warnings"] = sentences_of(posterior.attrs)
    return found


class Circle(NamedTuple):
    """A range of values with a period."""

    low: float
    period: float

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Circle | None:
        """Return the circle of a variable of the results, from its attributes; None without one."""
        return cls(float(attrs["low"]), float(attrs["period"])) if attrs.get("circular") else None

    def mean(self, values: np.ndarray) -> float:
        """Return the direction of the mean of unit vectors, in [low, low + period)."""
        return float(self.wrapped(np.angle(self._resultant(values)) * self.period / (2.0 * np.pi)))

    def sd(self, values: np.ndarray) -> float:
        """Return sqrt(-2 log R) as a length: the sd, if that is small.

        R is the length of the mean of unit vectors. See Mardia and Jupp (2000), "Directional
        statistics", section 2.3.
        """
        length = min(float(np.abs(self._resultant(values))), 1.0)
        with np.errstate(divide="ignore"):
            return float(np.sqrt(-2.0 * np.log(length))) * self.period / (2.0 * np.pi)

    def wrapped(self, values: Any) -> np.ndarray:
        """Return the values in [low, low + period)."""
        wrapped = self.low + np.mod(np.asarray(values) - self.low, self.period)
        return np.where(wrapped < self.low + self.period, wrapped, self.low)

    def around(self, values: np.ndarray, center: float) -> np.ndarray:
        """Return values within half a period of a center, perhaps outside [low, low + period)."""
        return center + np.mod(values - center + 0.5 * self.period, self.period) - 0.5 * self.period

    def _resultant(self, values):
        return np.mean(np.exp(2j * np.pi / self.period * np.asarray(values)))


class Table(pd.DataFrame):
    """A summary; ``attrs["warnings"]`` is a list of sentences. Its parts are plain data frames."""

    _metadata: ClassVar[list[str]] = []

    @property
    def _constructor(self) -> Callable[..., Any]:
        return pd.DataFrame

    def __repr__(self) -> str:
        return "\n".join([text_of(self), *_wrapped(self.attrs.get("warnings", ()))])

    def _repr_html_(self) -> str:
        items = "".join(
            f"<li>{escape(sentence)}</li>" for sentence in self.attrs.get("warnings", ())
        )
        return self.to_html(**_style()) + (f"<p>Warnings:</p><ul>{items}</ul>" if items else "")


def text_of(table: Any) -> str:
    """Return a summary's rows, within 80 characters if names allow; the rest continues below."""
    for n in range(len(_LEAST) + 1):
        text: str = table.drop(columns=list(_LEAST[:n]), errors="ignore").to_string(**_style())
        if max(map(len, text.splitlines())) <= WIDTH:
            return text
    return table.drop(columns=list(_LEAST), errors="ignore").to_string(line_width=WIDTH, **_style())


def digits(value: float) -> str:
    """Format a number for a table.

    Examples
    --------
    >>> digits(1234.5), digits(0.012345)
    ('1234', '0.0123')
    """
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _style() -> dict[str, Any]:
    return {
        "float_format": digits,
        "formatters": {"r_hat": "{:.2f}".format},
        "max_rows": pd.get_option("display.max_rows"),
    }


def _wrapped(sentences: Any) -> list[str]:
    return [
        line
        for each in sentences
        for line in textwrap.wrap(f"Warning: {each}", WIDTH, subsequent_indent="  ")
    ]


class Point(NamedTuple):
    """Parameters, and the log-density there; ``str`` gives them in one line.

    Attributes
    ----------
    parameters : dict of str to float or ndarray
    log_density : float
        With respect to these parameters, without log-Jacobians of kmc's transformations.
    total_log_likelihood, log_prior : float or None
        Its parts, if the model has its prior apart: ``kmc.Model(log_likelihood=...,
        log_prior=...)``, or parameters that are declared with priors.
    """

    parameters: dict[str, Any]
    log_density: float
    total_log_likelihood: float | None = None
    log_prior: float | None = None

    def __str__(self) -> str:
        parts = {"log-likelihood": self.total_log_likelihood, "log-prior": self.log_prior}
        known = ", ".join(
            f"{name} {value:.6g}" for name, value in parts.items() if value is not None
        )
        numbers = [
            f"{name}{list(index) if index else ''} = {np.asarray(value)[index]:.4g}"
            for name, value in self.parameters.items()
            for index in np.ndindex(np.shape(value))
        ]
        more = ", ..." if len(numbers) > _SHOWN else ""
        return (
            f"{self.log_density:.6g}{f' ({known})' if known else ''} at "
            f"{', '.join(numbers[:_SHOWN])}{more}"
        )


class Best(NamedTuple):
    """Result of :func:`best`.

    Attributes
    ----------
    draw : Point
        The best of the draws.
    evaluation : Point
        The best of all points that the run evaluated, warm-up and rejected proposals included.
    """

    draw: Point
    evaluation: Point


def best(idata: Any) -> Best:
    """Return the points of the highest log-density: among the draws, and among all evaluations.

    Neither is the mode itself: an optimizer that starts there comes closer. In many dimensions all
    draws are far below the mode, as there is little volume near it.

    Parameters
    ----------
    idata : InferenceData or DataTree
        A result of :func:`kmc.sample` or :func:`kmc.load`.

    Returns
    -------
    Best
        With ``draw`` and ``evaluation``, each with ``parameters`` by name (``"x"`` if they have no
        names), ``log_density``, ``total_log_likelihood`` and ``log_prior``. The log-density is with
        respect to these parameters: the variable "constrained_lp" of the group ``sample_stats``.
        For PyMC and Stan models it is with respect to the unconstrained ones, as for their own
        samplers. For a result that kmc did not make, and for results of several runs that were
        joined, ``evaluation`` may be the best draw.

    Raises
    ------
    TypeError, ValueError
        `idata` has no draws, or no log-density of them.

    Examples
    --------
    >>> import kmc
    >>> prior = kmc.Gamma(3, 1)
    >>> model = kmc.Model(lambda p: -3.0 * p["rate"], parameters={"rate": prior})  # mode: 0.5
    >>> idata = kmc.sample(model, draws=None, max_evaluations=400, seed=1, progress=False)
    >>> found = kmc.best(idata)
    >>> abs(found.draw.parameters["rate"] - 0.5) < 0.05
    True
    >>> found.evaluation.log_density >= found.draw.log_density
    True
    """
    posterior, stats, blobs = (
        posterior_of(idata),
        _variables(idata, "sample_stats"),
        _variables(idata, "blobs"),
    )
    if "lp" not in stats or not np.any(np.isfinite(stats["lp"].values)):
        raise ValueError(
            "idata has no draws with a log-density, the variable 'lp' of the group 'sample_stats'"
        )
    log_density = (
        stats["constrained_lp" if "constrained_lp" in stats else "lp"]
        .transpose("chain", "draw")
        .values
    )
    place = np.unravel_index(
        np.argmax(np.where(np.isnan(log_density), -np.inf, log_density)), log_density.shape
    )

    def at(variable: Any) -> Any:
        return _plain(variable.transpose("chain", "draw", ...).values[place])

    parameters = {str(name): at(variable) for name, variable in posterior.data_vars.items()}
    parts = [
        at(blobs[name]) if name in blobs and blobs[name].ndim == 2 else None
        for name in (TOTAL, LOG_PRIOR)
    ]
    draw = Point(parameters, float(log_density[place]), *parts)
    try:
        recorded = json.loads(idata.attrs.get("best", "null"))
        if recorded is None or recorded["log_density"] < draw.log_density:
            return Best(draw, draw)
        parameters = {name: _plain(value) for name, value in recorded["parameters"].items()}
        return Best(
            draw,
            Point(
                parameters, float(recorded["log_density"]), *map(recorded.get, (TOTAL, LOG_PRIOR))
            ),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(
            "the attribute 'best' of idata is not what a run of kmc records"
        ) from error


def _variables(idata: Any, group: str) -> Mapping[Any, Any]:
    try:
        return idata[group].data_vars
    except (KeyError, AttributeError):
        return {}


def _plain(value: Any) -> Any:
    """Return a scalar as a Python number, anything else as an array."""
    array = np.array(value)
    return array if array.ndim else array.item()
