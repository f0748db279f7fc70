"""``kmc.best``: the points of the highest log-density."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kmc.diagnostics.draws import posterior_of

_SHOWN = 10  # numbers in a line
_PARTS = ("total_log_likelihood", "log_prior")


class Point(NamedTuple):
    """Parameters, and the log-density there; ``str`` gives them in one line.

    Attributes
    ----------
    parameters : dict of str to float or ndarray
    log_density : float
        With respect to these parameters, without log-Jacobians of kmc's transformations.
    total_log_likelihood, log_prior : float or None
        Its parts, if the model has its prior apart: ``kmc.Model(log_likelihood=..., log_prior=...)``, or parameters
        that are declared with priors.
    """

    parameters: dict[str, Any]
    log_density: float
    total_log_likelihood: float | None = None
    log_prior: float | None = None

    def __str__(self) -> str:
        parts = {"log-likelihood": self.total_log_likelihood, "log-prior": self.log_prior}
        known = ", ".join(f"{name} {value:.6g}" for name, value in parts.items() if value is not None)
        numbers = [
            f"{name}{list(index) if index else ''} = {np.asarray(value)[index]:.4g}"
            for name, value in self.parameters.items()
            for index in np.ndindex(np.shape(value))
        ]
        more = ", ..." if len(numbers) > _SHOWN else ""
        return f"{self.log_density:.6g}{f' ({known})' if known else ''} at {', '.join(numbers[:_SHOWN])}{more}"


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
    """Return the points of the highest log-density: among the draws, and among all evaluations of the run.

    Neither is the mode itself: an optimizer that starts there comes closer. In many dimensions all draws are far below
    the mode, as there is little volume near it.

    Parameters
    ----------
    idata : InferenceData or DataTree
        A result of :func:`kmc.sample` or :func:`kmc.load`.

    Returns
    -------
    Best
        With ``draw`` and ``evaluation``, each with ``parameters`` by name (``"x"`` if they have no names),
        ``log_density``, ``total_log_likelihood`` and ``log_prior``. The log-density is with respect to these
        parameters: the variable "constrained_lp" of the group ``sample_stats``. For PyMC and Stan models it is with
        respect to the unconstrained ones, as for their own samplers. For a result that kmc did not make, and for
        results of several runs that were joined, ``evaluation`` may be the best draw.

    Raises
    ------
    TypeError, ValueError
        `idata` has no draws, or no log-density of them.

    Examples
    --------
    >>> import kmc
    >>> model = kmc.Model(lambda p: -3.0 * p["rate"], parameters={"rate": kmc.Gamma(3, 1)})  # mode: 0.5
    >>> idata = kmc.sample(model, draws=None, max_evaluations=400, seed=1, progress=False)
    >>> found = kmc.best(idata)
    >>> abs(found.draw.parameters["rate"] - 0.5) < 0.05
    True
    >>> found.evaluation.log_density >= found.draw.log_density
    True
    """
    posterior, stats, blobs = posterior_of(idata), _variables(idata, "sample_stats"), _variables(idata, "blobs")
    if "lp" not in stats or not np.any(np.isfinite(stats["lp"].values)):
        raise ValueError("idata has no draws with a log-density, the variable 'lp' of the group 'sample_stats'")
    log_density = stats["constrained_lp" if "constrained_lp" in stats else "lp"].transpose("chain", "draw").values
    place = np.unravel_index(np.argmax(np.where(np.isnan(log_density), -np.inf, log_density)), log_density.shape)

    def at(variable: Any) -> Any:
        return _plain(variable.transpose("chain", "draw", ...).values[place])

    parameters = {str(name): at(variable) for name, variable in posterior.data_vars.items()}
    parts = [at(blobs[name]) if name in blobs and blobs[name].ndim == 2 else None for name in _PARTS]
    draw = Point(parameters, float(log_density[place]), *parts)
    try:
        recorded = json.loads(idata.attrs.get("best", "null"))
        if recorded is None or recorded["log_density"] < draw.log_density:
            return Best(draw, draw)
        parameters = {name: _plain(value) for name, value in recorded["parameters"].items()}
        return Best(draw, Point(parameters, float(recorded["log_density"]), *map(recorded.get, _PARTS)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError("the attribute 'best' of idata is not what a run of kmc records") from error


def _variables(idata: Any, group: str) -> Mapping[Any, Any]:
    try:
        return idata[group].data_vars
    except (KeyError, AttributeError):
        return {}


def _plain(value: Any) -> Any:
    """Return a scalar as a Python number, anything else as an array."""
    array = np.array(value)
    return array if array.ndim else array.item()
