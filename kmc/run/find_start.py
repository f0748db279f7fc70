"""``kmc.find_start``: start points from an optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from kmc.arrays import as_array
from kmc.checks import as_count, as_number
from kmc.errors import EvaluationError
from kmc.model.convert import as_model
from kmc.model.evaluate import Evaluator
from kmc.model.model import Model
from kmc.model.starts import TRIED, wide_batches
from kmc.run.structure import Structured, structured
from kmc.seeds import Seed, as_seed
from kmc.surrogate.emulator.climbs import Climbs

_CLIMBS = 3  # local searches, from the best of the first points
# part of the evaluations for these first points; half as many are for points around the maxima
_SEARCHED = 0.25
_AROUND = 1.0  # sd of the start points around a maximum, in steps that cost half a nat
_DEEP = 25.0  # nats below the best maximum: lower start points and lower maxima are left out


@dataclass(frozen=True, eq=False)
class StartPoints:
    """Start points found by :func:`kmc.find_start`; pass it as ``initial=`` of :func:`kmc.sample`.

    Attributes
    ----------
    initial : ndarray, shape (k, d)
        Start points, unconstrained, the best first.
    log_density : ndarray, shape (k,)
        Log-densities of these points.
    n_evaluations : int
        Evaluations of the model. They are not among those that :func:`kmc.sample` counts.
    x : ndarray, shape (n, d)
    values : ndarray, shape (n,)
        All points that were evaluated, and their log-densities; -inf where the evaluation failed.
        For a bare function they can be used as a history: ``kmc.sample(..., history=(start.x,
        start.values))``.
    """

    initial: np.ndarray
    log_density: np.ndarray
    n_evaluations: int
    x: np.ndarray
    values: np.ndarray

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.initial, dtype=dtype)

    def __repr__(self) -> str:
        return (
            f"StartPoints(initial=<{len(self.initial)} points>, "
            f"log_density={self.log_density.max():.6g} at best, "
            f"n_evaluations={self.n_evaluations})"
        )


def find_start(
    target: Callable[[np.ndarray], float] | Model,
    dim: int | None = None,
    bounds: Any = None,
    n_points: int = 4,
    max_evaluations: int | None = None,
    seed: Seed = None,
) -> StartPoints:
    """Find start points for :func:`kmc.sample` with a local optimizer.

    Parameters
    ----------
    target : callable, Model, pymc.Model or bridgestan.StanModel
        As for :func:`kmc.sample`.
    dim : int, optional
        Number of parameters d, for a bare callable.
    bounds : sequence of d pairs, or mapping of str to pair, optional
        Plausible bounds, between which the search begins: one pair per coordinate of the vector, or
        by name the bounds of parameters, numbers or arrays of the parameter's shape. They are not
        hard: the search may leave them. Without bounds it begins at the model's own start points,
        followed by points on all scales.
    n_points : int
        Number k of start points: at least as many as there will be chains.
    max_evaluations : int, optional
        Budget; by default 200 + 100 d.
    seed : int, SeedSequence or Generator, optional
        The same seed gives the same points.

    Returns
    -------
    StartPoints
        With ``initial`` (k, d), which ``kmc.sample(..., initial=...)`` takes, and the cost,
        ``n_evaluations``.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; or no point of positive density was found, and the message says what
        was tried.

    Notes
    -----
    Points between the bounds come first. From the best of them, up to three local searches climb by
    SciPy's Powell method. The start points are spread around the maxima that they reach, by steps
    that cost half a nat in each coordinate. Where the function fails, the density is taken to be
    zero.

    Of a model with a simulator whose outputs are known, climbs take steps to the maximum of the
    posterior with linearized outputs, as a least-squares fit does, and start points are draws of
    the normal approximation there.

    Maxima of a density are not draws from it: this helps with models that are hard to start, and
    warm-up does the rest. Start points that all lie in one mode give no information about other
    modes.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> def logistic_growth(x):  # zero outside of its box
    ...     rate, capacity = x
    ...     if not (0 < rate < 1 and 100 < capacity < 1000):
    ...         return -np.inf
    ...     return -0.5 * ((rate - 0.1) / 0.01) ** 2 - 0.5 * ((capacity - 500) / 20) ** 2
    >>> start = kmc.find_start(logistic_growth, dim=2, bounds=[(0, 1), (100, 1000)], seed=1)
    >>> start.initial[0].round(1).tolist(), start.n_evaluations <= 400
    ([0.1, 500.0], True)
    >>> idata = kmc.sample(
    ...     logistic_growth, dim=2, initial=start, draws=100, max_evaluations=800, progress=False
    ... )
    """
    model = as_model(target, dim)
    n_points = as_number("n_points", n_points, 1)
    budget = as_count("max_evaluations", max_evaluations, 10)
    search = _Search(model, 200 + 100 * model.dim if budget is None else budget)
    rng = np.random.default_rng(as_seed(seed))
    known = structured(model)
    n_first = max(int(_SEARCHED * search.budget) if known is None else 0, 4)
    first = _first_points(model, bounds, rng, n_first)
    for batch in first:
        search.look(batch)
        enough = known is not None or search.left <= (1.0 - _SEARCHED) * search.budget
        if enough and np.any(np.isfinite(search.all_values())):
            break
        if not search.left:
            raise ValueError(_nothing(search, bounds))
    if not np.any(np.isfinite(search.all_values())):
        raise ValueError(_nothing(search, bounds))
    reserved = int(0.5 * _SEARCHED * search.budget)
    if known is None:
        tops = _tops(search, reserved)
        steps = np.diag(_widths(search, tops[0]))
    else:
        top, steps = _climbed(search, known, reserved, rng)
        tops = [top]
    points = _spread(search, tops, steps, n_points, rng)
    values = np.array([search.known[point.tobytes()] for point in points])
    order = np.argsort(-values, kind="stable")
    x = np.array(search.x)
    return StartPoints(
        points[order], values[order], search.evaluate.n_evaluations, x, search.all_values()
    )


class _Search:
    """Count evaluations within a budget and keep them; a failure is a density of zero."""

    def __init__(self, model: Model, budget: int):
        self.evaluate, self.budget = Evaluator(model, keep=self._keep), budget
        self._blobs: dict[bytes, Any] = {}
        self.x: list[np.ndarray] = []
        self.known: dict[bytes, float] = {}
        self.failure: EvaluationError | None = None

    @property
    def left(self) -> int:
        """Evaluations that can still be made."""
        return self.budget - self.evaluate.n_evaluations

    def __call__(self, x: np.ndarray) -> float:
        """Return the log-density at x (d,), evaluated unless known; -inf if the budget is spent."""
        x = np.array(x, dtype=float)
        key = x.tobytes()
        if key not in self.known:
            if not self.left:
                return -np.inf
            value = -np.inf
            try:
                value = float(self.evaluate(x[None])[0])
            except EvaluationError as error:
                self.failure = self.failure or error
            self.x.append(x)
            self.known[key] = value
        return self.known[key]

    def _keep(self, points, evaluations):
        self._blobs |= {
            x.tobytes(): each.blobs for x, each in zip(points, evaluations, strict=True)
        }

    def outputs(self, points: np.ndarray, known: Structured) -> np.ndarray:
        """Return the simulator's outputs (k, n) at evaluated points (k, d); NaN where it failed."""
        return known.outputs([self._blobs.get(x.tobytes()) for x in points])

    def look(self, points: np.ndarray) -> None:
        """Evaluate points (k, d)."""
        for x in points:
            self(x)

    def all_values(self) -> np.ndarray:
        """Return the values of all evaluated points, (n,)."""
        return np.array([self.known[x.tobytes()] for x in self.x])


def _first_points(model, bounds, rng, n):
    """Yield batches of points: between bounds, or else the default starts, then on all scales."""
    if bounds is not None:
        between = _between(model, bounds)
        while True:
            yield between(rng, n)
    points = model.initial_points(rng, n)
    yield rng.uniform(-2.0, 2.0, (n, model.dim)) if points is None else points
    yield from wide_batches(rng, 4, model.dim)


def _between(model, bounds):
    """Return a function that draws points (n, d) between bounds."""
    if isinstance(bounds, Mapping):
        if unknown := set(bounds) - set(model.dims):
            raise ValueError(
                f"bounds has {min(map(str, unknown))!r}, which is not a parameter of the model"
            )
        ends = {name: _pair(f"bounds[{name!r}]", pair) for name, pair in bounds.items()}

        def draw(rng, n):
            points = model.initial_points(rng, n)
            points = rng.uniform(-2.0, 2.0, (n, model.dim)) if points is None else points
            values = model.constrain(points)
            for name, (low, high) in ends.items():
                try:
                    values[name] = low + (high - low) * rng.uniform(size=values[name].shape)
                except ValueError as error:
                    raise ValueError(
                        f"bounds[{name!r}] has a different shape than the parameter: {error}"
                    ) from error
            try:
                return model.start_points(values, n)
            except ValueError as error:
                raise ValueError(f"bounds: {error}") from error

        return draw
    low, high = _pair("bounds", bounds, model.dim)
    return lambda rng, n: low + (high - low) * rng.uniform(size=(n, model.dim))


def _pair(name, pair, dim=None):
    expected = f"{name}={pair!r}: expected " + (
        "a pair (low, high)" if dim is None else f"{dim} pairs (low, high)"
    )
    try:
        if dim is None:
            low, high = (as_array(name, end) for end in pair)
        else:
            low, high = as_array(name, pair).reshape(dim, 2).T
    except (TypeError, ValueError) as error:
        raise TypeError(expected) from error
    if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high)) and np.all(low < high)):
        raise ValueError(f"{expected}, finite and low < high")
    return low, high


def _tops(search, reserved):
    """Return the maxima (t, d), the best first, without those that are far lower."""
    values = search.all_values()
    order = [i for i in np.argsort(-values, kind="stable") if np.isfinite(values[i])]
    starts = [search.x[i] for i in order[:_CLIMBS]]
    scale = np.abs(np.array([search.x[i] for i in order[: 4 * _CLIMBS]])).max(axis=0)
    tops = []
    for i, start in enumerate(starts):
        share = (search.left - reserved) // (len(starts) - i)
        if share < len(start) + 2:
            tops.append(start)
            continue
        found = optimize.minimize(
            lambda x: min(-search(x), 1e300),  # walls, where infinities would give NaN
            start,
            method="Powell",
            options={
                "maxfev": share,
                "direc": np.diag(0.1 * np.where(scale > 0, scale, 1.0)),
                "ftol": 1e-6,
            },
        )
        tops.append(np.array(found.x, dtype=float))
    best = max(map(search, tops))
    tops = [top for top in tops if search(top) > best - _DEEP]
    return sorted(tops, key=search, reverse=True)


def _climbed(search, known, reserved, rng):
    """Return the best point of climbs with linearized outputs, and a covariance root there."""
    x = np.array(search.x)
    structure = known.structure
    climbs = Climbs(
        structure, x, search.all_values(), search.outputs(x, known), rng=rng, most=search.left // 2
    )
    while True:
        left = search.left - reserved
        points = climbs.propose()
        if not len(points):
            points = climbs.overtaken(max(left, 0))
        if not 0 < len(points) <= left:
            return climbs.top()
        search.look(points)
        climbs.tell(np.array([search(point) for point in points]), search.outputs(points, known))


def _spread(search, tops, steps, n_points, rng):
    """Return points (k, d): the best maximum, and others near maxima where the density is high.

    The steps (d, d) are a root of the covariance of those around a maximum.
    """
    best = search(tops[0])
    points = [tops[0]]
    while len(points) < n_points:
        top, factor = tops[len(points) % len(tops)], _AROUND
        point = top
        for _ in range(6):
            trial = top + factor * steps @ rng.standard_normal(len(top))
            if search(trial) > best - _DEEP:
                point = trial
                break
            factor *= 0.5
        points.append(point)
    return np.array(points)


def _widths(search, top):
    """Find each coordinate's step that costs half a nat, to a factor of two, by few evaluations."""
    best = search(top)
    widths = np.empty(len(top))
    for j in range(len(top)):
        step = np.zeros(len(top))
        size = 0.05 * max(abs(top[j]), 0.1)
        for _ in range(6):
            step[j] = size
            loss = best - max(search(top + step), search(top - step))
            if 0.125 < loss < 2.0:
                break
            size *= float(np.clip(np.sqrt(0.5 / max(loss, 1e-6)), 0.02, 30.0))
        widths[j] = size
    return widths


def _nothing(search, bounds):
    where = (
        f"at the usual start points, and {TRIED}"
        if bounds is None
        else f"between bounds={bounds!r}"
    )
    last = "" if search.failure is None else f"; some failed ({search.failure.args[0]})"
    return (
        f"the log-density is -inf at each of {search.evaluate.n_evaluations} points {where}{last}: "
        "give bounds between which the density is positive, or more max_evaluations"
    )
