"""Take existing evaluations (``history=``) from arrays, stores, results or ``kmc.record``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from kmc.arrays import as_array
from kmc.model.least_squares import residual_of
from kmc.model.model import Model
from kmc.model.returned import number_of
from kmc.model.simulation import OUTPUT, OUTPUTS
from kmc.run.store.evaluations import stored_evaluations
from kmc.run.structure import Structured, structured
from kmc.surrogate.emulator.jit_state import log_densities
from kmc.surrogate.mass import bulk_depth

EVALUATIONS = "evaluations"
"""The group of all evaluations in the result of a short run."""

MOST = 20_000  # points that are kept; a fit selects among them
_OTHER_DATA = 0.1  # nats, in the median, between values in the history and those of its outputs
_GUESSES = 64  # draws of the prior, for parameters that a recorded simulator does not get
_EXPECTED = (
    "expected (x, values) with points x (n, d) and what log_density returned there (n,), the path "
    "of a store, or a result of kmc.sample"
)


class Given(NamedTuple):
    """Points and values, as the sampler sees them."""

    x: np.ndarray  # (n, d), unconstrained
    values: np.ndarray  # (n,), log-Jacobians included; -inf where the density is zero
    # (n, k) of a simulator, as they are learned; NaN where they are not known
    outputs: np.ndarray | None = None

    @property
    def digest(self) -> str:
        """Hash of the bytes, to tell histories apart."""
        return hashlib.sha256(
            b"".join(part.tobytes() for part in self if part is not None)
        ).hexdigest()[:16]

    def starts(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return at most so many distinct points to start at.

        They are drawn at random from points no further below the highest than nearly all of a
        Gaussian's mass; if these are too few, the highest points are taken.
        """
        _, first = np.unique(self.x, axis=0, return_index=True)
        rows = first[np.isfinite(self.values[first])]
        rows = rows[np.argsort(-self.values[rows], kind="stable")]
        if not len(rows):
            return rows
        near = rows[self.values[rows] > self.values[rows[0]] - bulk_depth(self.x.shape[1])]
        return rng.permutation(near)[:count] if len(near) >= count else rows[:count]


def as_given(history: Any, model: Model) -> Given | None:
    """Return a history as distinct evaluations in the sampler's coordinates; None for None.

    Raises
    ------
    TypeError, ValueError
        The points or values do not fit this model.
    """
    if history is None:
        return None
    if isinstance(history, (str, os.PathLike)):
        given = _of_store(history, model)
    elif isinstance(history, Record):
        given = _of_record(history, model)
    elif hasattr(history, "groups"):
        given = _of_result(history, model)
    else:
        given = _of_arrays(history, model)
    if not len(given.x):
        raise ValueError("history holds no evaluations: leave it out")
    return _thinned(given)


def _of_arrays(history, model):
    if not isinstance(history, (tuple, list)) or len(history) != 2:
        raise TypeError(f"history={_short(history)}: {_EXPECTED}")
    x = model.start_points(history[0], 1, "history")
    try:
        values = np.array(as_array("history", history[1]), dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"history has the values {_short(history[1])}: {_EXPECTED}") from error
    if values.shape != (len(x),):
        raise ValueError(
            f"history has {len(x)} points and values of shape {values.shape}: expected ({len(x)},)"
        )
    wrong = np.flatnonzero(np.isnan(values) | (values == np.inf))
    if len(wrong):
        raise ValueError(
            f"history has the value {values[wrong[0]]} at point {wrong[0]}: expected finite "
            "numbers, or -inf where the density is zero"
        )
    return Given(x, values + model.log_added(x) if model.named else values)


def _of_record(history, model):
    """Return evaluations from recorded calls of the log-density, log-likelihood or residuals.

    Calls at a bound or outside are left out.
    """
    if model.space is not None:
        raise TypeError(
            "history is a record, and the model has a space of its own: pass unconstrained "
            "points, (x, values)"
        )
    if model.simulation is not None:
        return _of_simulations(history, model, model.simulation)
    residual = residual_of(model.log_likelihood)
    x, values, refused = [], [], None
    for point, value in zip(history.points, history.values, strict=True):
        named = isinstance(point, Mapping)
        row = (
            {name: each[None] for name, each in point.items() if name in model.dims}
            if named
            else point[None]
        )
        try:
            row = model.start_points(row, 1, "history")
        except ValueError as error:
            refused = refused or error
            continue
        if residual is not None:
            value = residual.of(
                value, {name: each[0] for name, each in model.constrain(row).items()}
            )
        number = number_of(value[0] if isinstance(value, tuple) else value)
        if number is None:
            raise TypeError(
                f"history has the value {_short(value)}: expected what the model's function returns"
            )
        x.append(row[0])
        values.append(number)
    if refused is not None and not x:
        raise refused
    points, found = np.array(x).reshape(-1, model.dim), np.array(values)
    apart = model.log_prior_apart(points)
    found = found + (model.log_added(points) if apart is None else apart)
    return Given(points, np.where(found < np.inf, found, -np.inf))


def _of_simulations(history, model, simulation):
    """Return evaluations from recorded calls of a simulator.

    Parameters that it does not get have the values, among draws of the prior, at which the density
    is highest.
    """
    known = structured(model)
    if known is None:
        raise TypeError(
            "history is a record of a simulator whose outputs cannot be learned: pass points and "
            "log-densities"
        )
    inputs = [name for name in simulation.inputs if name in model.dims]
    others = [name for name in model.dims if name not in inputs]
    guesses = model.constrain(known.structure.parameters.draw(np.random.default_rng(0), _GUESSES))
    x, values, outputs = [], [], []
    for point, returned in zip(history.points, history.values, strict=True):
        if not isinstance(point, Mapping) or not set(inputs) <= set(point):
            raise TypeError(
                f"history has a call with {_short(point)}: expected the simulator's inputs, "
                f"{inputs}"
            )
        own = {name: np.repeat(point[name][None], _GUESSES, axis=0) for name in inputs}
        try:
            rows = model.start_points(own | {name: guesses[name] for name in others}, 1, "history")
        except ValueError:  # at a bound, or outside
            continue
        by_name = returned if simulation.by_name else {OUTPUT: returned}
        shapes = {name: np.shape(one.observed) for name, one in known.likelihoods.items()}
        if (
            not isinstance(by_name, Mapping)
            or {name: np.shape(each) for name, each in by_name.items()} != shapes
        ):
            raise TypeError(
                f"history has a call that returned {_short(returned)}: expected outputs of shapes "
                f"{shapes}"
            )
        found = known.outputs(
            [{f"{OUTPUTS}.{name}": np.asarray(each, float) for name, each in by_name.items()}]
        )
        heights = log_densities(known.structure, rows, np.repeat(found, _GUESSES, axis=0))
        best = int(np.argmax(np.nan_to_num(heights, nan=-np.inf)))
        x.append(rows[best])
        values.append(heights[best])
        outputs.append(found[0])
    points, levels = np.array(x).reshape(-1, model.dim), np.array(values)
    found = np.array(outputs).reshape(len(x), len(known.structure.data.observed))
    failed = ~np.isfinite(levels)
    return Given(points, np.where(failed, -np.inf, levels), found)


def _of_store(path, model):
    shapes, x, values, blobs = stored_evaluations(path)
    _check_names(f"history={os.fspath(path)!r}", shapes, x.shape[1], model)
    values = np.where(values < np.inf, values, -np.inf)  # where the function failed, too
    known = structured(model)
    return (
        Given(x, values)
        if known is None
        else _with_outputs(x, values, _outputs(blobs, len(x), known), known)
    )


def _of_result(idata, model):
    """Return what the chains accepted and what a short run learned from.

    A store has all evaluations of its run.
    """
    if idata.attrs.get("inference_library") != "kmc":
        raise ValueError(
            f"history is a result of {idata.attrs.get('inference_library')}, not of kmc: "
            f"{_EXPECTED}"
        )
    names = [
        name.rpartition("/")[2]
        for name in (idata.groups() if callable(idata.groups) else idata.groups)
    ]
    group = "unconstrained_posterior" if "unconstrained_posterior" in names else "posterior"
    x = np.asarray(idata[group]["x"].transpose("chain", "draw", ...).values, dtype=float)
    values = np.asarray(idata["sample_stats"]["lp"].transpose("chain", "draw").values, dtype=float)
    _check_names("history", list(idata["posterior"].data_vars), x.shape[2], model)
    x, values = x.reshape(-1, x.shape[2]), values.ravel()
    more, levels = (
        evaluations_of(idata, x.shape[1], "history")
        if EVALUATIONS in names
        else (x[:0], values[:0])
    )
    every, all_values = np.vstack([x, more]), np.append(values, levels)
    if (known := structured(model)) is None:
        return Given(every, all_values)
    group = idata[OUTPUTS].data_vars if OUTPUTS in names else {}
    arrays = {name: one.transpose("chain", "draw", ...).values for name, one in group.items()}
    blobs = {
        f"{OUTPUTS}.{name}": each.reshape(-1, *each.shape[2:]) for name, each in arrays.items()
    }
    further = (
        outputs_of(idata, len(more), known)
        if len(more)
        else np.empty((0, len(known.structure.data.observed)))
    )
    return _with_outputs(
        every, all_values, np.vstack([_outputs(blobs, len(x), known), further]), known
    )


def _outputs(blobs: Mapping[str, np.ndarray], n: int, known: Structured) -> np.ndarray:
    """Return outputs (n, k) as they are learned, from blobs (n, ...); NaN if these are others."""
    none = np.full((n, len(known.structure.data.observed)), np.nan)
    own = {f"{OUTPUTS}.{name}": np.shape(one.observed) for name, one in known.likelihoods.items()}
    if not all(
        name in blobs and blobs[name].shape == (n, *shape) and blobs[name].dtype.kind in "iuf"
        for name, shape in own.items()
    ):
        return none
    return known.outputs([{name: blobs[name][i] for name in own} for i in range(n)])


def _with_outputs(
    x: np.ndarray, values: np.ndarray, outputs: np.ndarray, known: Structured
) -> Given:
    """Return evaluations with outputs (n, k).

    If they were made with other data, they get the values that they have now.
    """
    outputs[~np.isfinite(values)] = np.nan
    rows = np.isfinite(outputs).all(axis=1)
    if not rows.any():
        return Given(x, values)
    now = log_densities(known.structure, x[rows], outputs[rows])
    if np.median(np.abs(now - values[rows])) < _OTHER_DATA:
        return Given(x, values, outputs)
    return Given(x[rows], np.where(np.isfinite(now), now, -np.inf), outputs[rows])


def evaluations_of(idata: Any, dim: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return points (n, dim) and values (n,) of a group of evaluations from any file.

    Raises
    ------
    ValueError
        No run makes them: they are of another shape or type, or not numbers.
    """
    group = idata[EVALUATIONS]
    x, values = (group[part].values if part in group else np.empty(()) for part in ("x", "lp"))
    if not (
        x.shape == (*values.shape, dim)
        and values.ndim == 2
        and all(part.dtype.kind in "iuf" for part in (x, values))
        and np.isfinite(x[rows := ~np.isnan(values)]).all()
        and rows.any()
        and (values[rows] < np.inf).all()
    ):
        raise ValueError(
            f"{name} has evaluations that no run makes: values {values.shape} at points {x.shape}"
        )
    return x[rows].astype(float), values[rows].astype(float)


def outputs_of(idata: Any, n: int, known: Structured) -> np.ndarray:
    """Return outputs (n, k) of the group of evaluations, as they are learned; NaN where unknown."""
    arrays = {name: one.values for name, one in idata[EVALUATIONS].data_vars.items()}
    rows = ~np.isnan(arrays["lp"])
    group = {name: one[rows] for name, one in arrays.items() if one.shape[:2] == rows.shape}
    learned, size = group.get(OUTPUTS), len(known.structure.data.observed)
    if learned is not None and learned.shape == (n, size) and learned.dtype == np.float64:
        return learned
    return _outputs(group, n, known)


def _check_names(what: str, names: Any, dim: int, model: Model) -> None:
    if set(names) != set(model.dims) or dim != model.dim:
        raise ValueError(
            f"{what} is of a run with the parameters {', '.join(names)} ({dim} numbers): expected "
            f"those of this model, {', '.join(model.dims)} ({model.dim} numbers)"
        )


def _thinned(given):
    """Return distinct rows in their order; of too many, equally spaced ones."""
    rows = np.column_stack([given.x, given.values])
    first = np.sort(np.unique(rows, axis=0, return_index=True)[1])
    if len(first) > MOST:
        first = first[np.linspace(0, len(first) - 1, MOST).astype(int)]
    outputs = None if given.outputs is None else given.outputs[first]
    return Given(np.ascontiguousarray(given.x[first]), given.values[first], outputs)


def _short(value):
    text = (
        repr(value)
        if not isinstance(value, Mapping)
        else f"a mapping of {', '.join(map(repr, value))}"
    )
    return text if len(text) <= 120 else text[:117] + "..."


def record(f: Callable[..., Any]) -> Record:
    """Return a function that does what f does, and keeps its arguments and values for ``history=``.

    Parameters
    ----------
    f : callable
        The log-density of a model, its log-likelihood, its simulator, or its function of residuals
        (:func:`kmc.from_residual`). Its first argument is an array (d,), a dict of parameters by
        name, or an ``lmfit.Parameters``. Of an objective that an optimizer minimizes, record the
        function inside, ``lambda x: -recorded(x)``.

    Returns
    -------
    Record
        With the lists ``points`` and ``values``, which are copies. Calls in other processes are not
        recorded.

    Raises
    ------
    TypeError
        It is not callable.

    Examples
    --------
    >>> import scipy.optimize
    >>> import kmc
    >>> def log_density(x):
    ...     return -50.0 * (x[1] - x[0] ** 2) ** 2 - 0.5 * (1 - x[0]) ** 2
    >>> recorded = kmc.record(log_density)
    >>> found = scipy.optimize.minimize(lambda x: -recorded(x), [-1.0, 1.0], method="Nelder-Mead")
    >>> idata = kmc.sample(
    ...     log_density, dim=2, history=recorded, max_evaluations=500, seed=1, progress=False
    ... )
    >>> len(recorded.values) == found.nfev, idata.attrs["n_history"] > 50
    (True, True)
    """
    if not callable(f):
        raise TypeError(f"f={f!r}: expected a function")
    return Record(f)


class Record:
    """A function and its calls.

    Attributes
    ----------
    points : list
        Arrays (d,), or dicts of parameters by name.
    values : list
        What the function returned at each.
    """

    def __init__(self, f: Callable[..., Any]):
        self._f = f
        self.points: list[Any] = []
        self.values: list[Any] = []

    def __repr__(self) -> str:
        return f"<{len(self.values)} calls of {self._f!r}>"

    def __call__(self, parameters: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the function, record its parameters and its value, and return the value."""
        if isinstance(parameters, Mapping):
            point: Any = {
                name: np.array(getattr(one, "value", one)) for name, one in parameters.items()
            }
        else:
            point = np.array(parameters, dtype=float)
        value = self._f(parameters, *args, **kwargs)
        self.points.append(point)
        self.values.append(np.array(value) if isinstance(value, np.ndarray) else value)
        return value
