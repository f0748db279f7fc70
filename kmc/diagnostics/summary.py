"""``kmc.summary``: ArviZ's table, with circular statistics for angles, and how it is printed in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from kmc.diagnostics.draws import columns, labeled_posterior, posterior_of
from kmc.run.problems import sentences_of
from kmc.unwritable import import_arviz

WIDTH = 80
_LEAST = ("mcse_sd", "mcse_mean")
"""Columns that are left out first."""


def summary(idata: Any, var_names: Sequence[str] | None = None) -> Any:
    """Return ArviZ's summary of the posterior, with circular mean and sd for variables on a circle, and the warnings.

    It is printed with three digits, within 80 columns, and with the warnings of the run below.

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
        One row for each number, with ArviZ's columns, not rounded, also those that are too many to be printed. Its
        ``attrs["warnings"]`` is a list of the run's warnings; :func:`kmc.warnings` has them by code. On a circle,
        "mean" is the circular mean, in [low, high); "sd" is the circular sd, sqrt(-2 log R), in the parameter's unit.
        Everything else (intervals, errors, effective sample sizes, R-hat) is computed from the draws within half a
        period of that mean: an interval may extend beyond `low` or `high`, and then continues at the other end.

    Raises
    ------
    TypeError, ValueError
        `idata` has no group "posterior", or `var_names` is empty or has a name that is not in it.

    Notes
    -----
    The circular sd is about the sd for a narrow distribution, and infinite for a uniform one. If there are several
    directions, a circular mean lies between them and is not informative: plot the draws.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> model = kmc.Model(lambda p: 9 * np.cos(p["phi"]), parameters={"phi": kmc.Circular(0, 2 * np.pi)})
    >>> idata = kmc.sample(model, draws=100, max_evaluations=800, seed=1, progress=False)
    >>> float(kmc.summary(idata)["sd"]["phi"]) < 0.5  # of the numbers in [0, 2 pi), split in two: about 3
    True
    """
    arviz = import_arviz()
    posterior = posterior_of(idata)
    variables = labeled_posterior(idata)
    chosen = columns(variables, var_names)
    names = list(dict.fromkeys(column.variable for column in chosen))
    dataset = (posterior.to_dataset() if hasattr(posterior, "to_dataset") else posterior)[names].compute()
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
        """Return the circle of a variable of the results, from its attributes; None if it is not on a circle."""
        return cls(float(attrs["low"]), float(attrs["period"])) if attrs.get("circular") else None

    def mean(self, values: np.ndarray) -> float:
        """Return the direction of the mean of unit vectors, in [low, low + period)."""
        return float(self.wrapped(np.angle(self._resultant(values)) * self.period / (2.0 * np.pi)))

    def sd(self, values: np.ndarray) -> float:
        """Sqrt(-2 log R) as a length, where R is the length of the mean of unit vectors: the sd, if that is small.

        See Mardia and Jupp (2000), "Directional statistics", section 2.3.
        """
        length = min(float(np.abs(self._resultant(values))), 1.0)
        with np.errstate(divide="ignore"):
            return float(np.sqrt(-2.0 * np.log(length))) * self.period / (2.0 * np.pi)

    def wrapped(self, values: Any) -> np.ndarray:
        """Values in [low, low + period)."""
        wrapped = self.low + np.mod(np.asarray(values) - self.low, self.period)
        return np.where(wrapped < self.low + self.period, wrapped, self.low)

    def around(self, values: np.ndarray, center: float) -> np.ndarray:
        """Values within half a period of a center; some may be outside [low, low + period)."""
        return center + np.mod(values - center + 0.5 * self.period, self.period) - 0.5 * self.period

    def _resultant(self, values):
        return np.mean(np.exp(2j * np.pi / self.period * np.asarray(values)))


class Table(pd.DataFrame):
    """A summary; ``attrs["warnings"]`` is a list of sentences. Parts of it are plain data frames."""

    _metadata: ClassVar[list[str]] = []

    @property
    def _constructor(self) -> Callable[..., Any]:
        return pd.DataFrame

    def __repr__(self) -> str:
        return "\n".join([text_of(self), *_wrapped(self.attrs.get("warnings", ()))])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.attrs.get("warnings", ()))
        return self.to_html(**_style()) + (f"<p>Warnings:</p><ul>{items}</ul>" if items else "")


def text_of(table: Any) -> str:
    """Return the rows of a summary, of at most 80 characters if names allow; the rest continues below."""
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
    return [line for each in sentences for line in textwrap.wrap(f"Warning: {each}", WIDTH, subsequent_indent="  ")]
