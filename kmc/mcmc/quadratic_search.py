"""A local search by quadratic models, for budgets of a few hundred evaluations.

A climb (:mod:`kmc.mcmc.local_searches`) spends d + 1 evaluations on each gradient. Here each evaluation changes a
model of the log-density: of all quadratics that interpolate the last 2 d + 1 values, the one whose Hessian differs
least from that of the model before, in the Frobenius norm (Powell 2004, "Least Frobenius norm updating of quadratic
models that satisfy interpolation conditions", Mathematical Programming 100). The next point is the model's maximum
within a trust region. It is for finding the bulk, not the maximum: it ends when steps gain no more than half a nat.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.mcmc.walkers import start_spread

# Set by hand, but for the first one as in Powell's NEWUOA (2006).
_LEAST_GAIN = 0.5  # nats: a step that gains less is idle ...
_IDLE_STEPS = 3  # ... and the search ends after so many of them, ...
_BARREN_MORE = 3  # ... or after so many points, plus one per dimension, that explore or are idle
_RADIUS = 0.5  # of the first trust region, in spreads of the start points
_SMALLEST, _LARGEST = 0.02, 20.0  # times the first radius
_GOOD, _POOR = 0.7, 0.1  # gain relative to the expected one, from which the radius is doubled, or halved
_FAR = 2.0  # radii: interpolation points further away say little of the model here
_REPLACED = 0.5  # factor on the distance of a new point that is not the best, when the farthest is left out
_DEPTH_OF_ZEROS = 2.0  # times the depth of the deepest value: what is taken for zero density
_SPREAD = 2.0  # sds of the cloud around the end: as wide as they are, fits know nothing of what is deeper (tried)
_WIDEST = 1.0  # sd along flat directions, in spreads of the start points


class StartSearch:
    """A search from the highest start point, in the user's coordinates, with a limit.

    Parameters
    ----------
    initial : ndarray, shape (k, d)
        Start points.
    values : ndarray, shape (k,)
    limit : int
        Evaluations after which it ends in any case.
    """

    def __init__(self, initial: np.ndarray, values: np.ndarray, limit: int):
        best = int(np.argmax(values))
        self._origin, self._spread = initial[best].copy(), start_spread(initial)
        self._search, self._limit = QuadraticSearch(np.zeros(initial.shape[1]), float(values[best])), limit

    @property
    def ended(self) -> bool:
        """Whether it has come to where steps gain hardly anything, or to its limit."""
        return self._search.ended or self._search.n_evaluations >= self._limit

    @property
    def points(self) -> np.ndarray:
        """Points (k, d) to evaluate next."""
        return self._back(self._search.ask())

    def tell(self, values: np.ndarray) -> None:
        """Continue with their values."""
        self._search.tell(values)

    def end(self) -> tuple[np.ndarray, float]:
        """The highest point (d,) and its value."""
        return self._back(self._search.position), self._search.value

    def cloud(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (count, d) around it, twice as wide as the Gaussian with the curvature that was found there."""
        z = rng.standard_normal((count, len(self._origin)))
        values, directions = np.linalg.eigh(self._search.covariance())
        return self._back(self._search.position + (_SPREAD * z * np.sqrt(values)) @ directions.T)

    def _back(self, z: np.ndarray) -> np.ndarray:
        return self._origin + self._spread * z


class _Step(NamedTuple):
    """A point to evaluate, and what the model expects to gain there."""

    end: np.ndarray
    expected: float
    explores: bool  # where the model is not determined, not where it is highest


class QuadraticSearch:
    """One search, in coordinates in which spreads of about one are expected.

    ``ask`` gives the points (k, d) to evaluate next, and ``tell`` takes their values.

    Parameters
    ----------
    start : ndarray, shape (d,)
    value : float
        The log-density there.

    Attributes
    ----------
    n_evaluations : int

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.mcmc.quadratic_search import QuadraticSearch
    >>> search = QuadraticSearch(np.array([3.0, -2.0]), -15.5)
    >>> while not search.ended:
    ...     search.tell(np.array([-1.5 * x[0] ** 2 - 0.5 * x[1] ** 2 for x in search.ask()]))
    >>> search.n_evaluations, bool(search.value > -0.5)
    (12, True)
    >>> search.covariance().round(2).tolist()
    [[0.33, 0.0], [0.0, 1.0]]
    """

    def __init__(self, start: np.ndarray, value: float):
        d = len(start)
        self.n_evaluations = 0
        self._points, self._values = np.array(start[None], float), np.array([float(value)])
        self._center, self._constant = self._points[0].copy(), float(value)  # of the model
        self._gradient, self._hessian = np.zeros(d), np.zeros((d, d))
        self._radius = _RADIUS
        self._step: _Step | None = None  # before the first one: a cross of points
        self._idle = self._barren = 0

    @property
    def position(self) -> np.ndarray:
        """The highest point."""
        return self._points[int(np.argmax(self._values))]

    @property
    def value(self) -> float:
        """Its value."""
        return float(self._values.max())

    @property
    def ended(self) -> bool:
        """Whether the last steps have gained hardly anything."""
        return self._idle >= _IDLE_STEPS or self._barren >= len(self._center) + _BARREN_MORE

    def covariance(self) -> np.ndarray:
        """That of the Gaussian with the model's curvature; along flat directions its sd is one."""
        curvatures, directions = np.linalg.eigh(-self._hessian)
        return (directions / np.maximum(curvatures, _WIDEST**-2)) @ directions.T

    def ask(self) -> np.ndarray:
        """Points to evaluate next."""
        if self._step is None:
            cross = self._radius * np.eye(len(self._center))
            return self._points[0] + np.vstack([cross, -cross])
        return self._step.end[None]

    def tell(self, values: np.ndarray) -> None:
        """Continue with the values of the requested points."""
        points, before, top = self.ask(), self.position, self.value
        self.n_evaluations += len(values)
        self._points = np.vstack([self._points, points])
        self._values = np.append(self._values, self._legal(values))
        if self._step is not None:
            gain = float(self._values[-1]) - top
            reached = gain / max(self._step.expected, 1e-12)
            self._barren = self._barren + 1 if gain < _LEAST_GAIN else 0
            if not self._step.explores:
                self._adapt(reached, gain, float(np.linalg.norm(points[0] - before)))
            self._leave_out_farthest()
        else:
            reached = 1.0
        self._refit()
        self._step = self._next(reached)

    def _legal(self, values: np.ndarray) -> np.ndarray:
        """The values; zero density is taken to be deeper than all else."""
        known = np.append(self._values, values)
        known = known[np.isfinite(known)]
        lowest = known.max() - _DEPTH_OF_ZEROS * (np.ptp(known) + 1.0)
        return np.where(np.isfinite(values), values, lowest)

    def _adapt(self, reached: float, gain: float, length: float) -> None:
        if reached > _GOOD:
            self._radius = min(max(self._radius, 2.0 * length), _LARGEST * _RADIUS)
        elif reached < _POOR:
            self._radius = max(0.5 * min(self._radius, length), _SMALLEST * _RADIUS)
        self._idle = self._idle + 1 if gain < _LEAST_GAIN else 0

    def _leave_out_farthest(self) -> None:
        distances = np.linalg.norm(self._points - self.position, axis=1)
        distances[-1] *= _REPLACED
        kept = np.arange(len(self._points)) != np.argmax(distances)
        self._points, self._values = self._points[kept], self._values[kept]

    def _refit(self) -> None:
        """Interpolate all values, around the highest point, with the least change of the Hessian.

        The change is Σ λ_j y_j y_jᵀ over the points y_j, and λ and the linear part solve

            [A  B ] [λ]   [residuals]         A_ij = (y_i · y_j)² / 2,   B = [1  Y].
            [Bᵀ 0 ] [c] = [    0    ],
        """
        moved = self.position - self._center
        self._constant += float(self._gradient @ moved + 0.5 * moved @ self._hessian @ moved)
        self._gradient = self._gradient + self._hessian @ moved
        self._center = self.position.copy()
        y = self._points - self._center
        unit = max(float(np.abs(y).max()), 1e-300)
        predicted = self._constant + y @ self._gradient + 0.5 * np.einsum("ij,jk,ik->i", y, self._hessian, y)
        y = y / unit
        n, d = y.shape
        linear = np.hstack([np.ones((n, 1)), y])
        system = np.block([[0.5 * (y @ y.T) ** 2 + 1e-10 * np.eye(n), linear], [linear.T, np.zeros((d + 1, d + 1))]])
        right = np.append(self._values - predicted, np.zeros(d + 1))
        found = np.linalg.lstsq(system, right, rcond=1e-12)[0]
        self._constant += float(found[n])
        self._gradient = self._gradient + found[n + 1 :] / unit
        self._hessian = self._hessian + (y.T * found[:n]) @ y / unit**2

    def _next(self, reached: float) -> _Step:
        """The model's maximum in the trust region, or a point in the direction of which the near points say least."""
        step, expected = self._highest()
        away = self._points - self._center
        distances = np.linalg.norm(away, axis=1)
        doubtful = expected < _LEAST_GAIN or (self._idle > 0 and reached < _POOR)
        if not doubtful or distances.max() <= _FAR * self._radius:
            return _Step(self._center + step, expected, explores=False)
        d = len(step)
        near = away[distances <= _FAR * self._radius]
        direction = np.linalg.svd(np.vstack([near, np.zeros((d, d))]))[2][-1]
        step = self._radius * (direction if self._gradient @ direction >= 0 else -direction)
        expected = float(self._gradient @ step + 0.5 * step @ self._hessian @ step)
        return _Step(self._center + step, expected, explores=True)

    def _highest(self) -> tuple[np.ndarray, float]:
        """The step within the trust region to the model's maximum, and the gain there."""
        curvatures, directions = np.linalg.eigh(-self._hessian)
        slopes = directions.T @ self._gradient

        def step(shift: float) -> np.ndarray:
            return slopes / (curvatures + shift)

        shift = 0.0
        if curvatures[0] <= 0 or np.linalg.norm(step(0.0)) > self._radius:
            low = max(-float(curvatures[0]), 0.0) + 1e-12
            high = low + float(np.linalg.norm(slopes)) / self._radius + 1.0
            for _ in range(80):  # bisection
                shift = 0.5 * (low + high)
                low, high = (shift, high) if np.linalg.norm(step(shift)) > self._radius else (low, shift)
            shift = high
        found = step(shift)
        return directions @ found, float(slopes @ found - 0.5 * found @ (curvatures * found))
