"""Where evaluations are made: at chosen draws of the surrogate, and at points of other sources.

A batch has the points of some sources at its head, and for the rest draws of the surrogate at
several powers, chosen where the regression is uncertain and the density is not small. The sources
go where the surrogate's chains do not, and something may be. Others than those of batches are asked
when learning would end, or before the surrogate is frozen. Each is an entry of a list in
:mod:`kmc.kernel_hmc.learning`, and learning works without it: benchmarks/ablation.py says what it
is worth.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from kmc.kernel_hmc.modes import MOST, far_apart, maximum
from kmc.surrogate.emulator.climbs import Climbs
from kmc.surrogate.mass import noise_at
from kmc.surrogate.process import Process, Seen, fit_widely

CANDIDATES = (160, 120, 120)
"""Draws at each power among which a batch is chosen."""

TYPICAL = 0.25
"""Share of a batch that is drawn at power 1 without a choice.

How well these are predicted is how well the surrogate proposes.
"""

RADII = tuple(0.25 * 2.0**k for k in range(6))
"""Half the widths of the cubes around the best point in which a step of a climb may end.

The unit is the standard deviation of the points that count. As many of the cubes are allowed as
earlier steps were good for, as in trust-region methods (Conn, Gould and Toint 2000, Trust-Region
Methods, SIAM).
"""

LOST = 2
"""Cubes that are not allowed any more after a step that found no higher value.

One more is allowed after a step that did.
"""

WORTH = 1.0
"""Nats that a step of a climb must promise."""

LONG = 2.0
"""Length of a step beyond the draws, in standard deviations of those around its start.

These are the standard deviations in their widest direction.
"""

SURPRISE = 1.0
"""Nats above the forecast by which a value says that the surrogate lacks something.

The value is elsewhere than at the draws.
"""

# standard deviations of the draws: spread of the first points of a climb from a start
_AROUND = 0.5
_NEAR = 2  # of them that are compared with the forecast
_ENDS = 0.05  # share of the steps beyond the draws of which some are taken: the likeliest ones
_HOTTEST = 1e100  # temperature whose square is a number
_KINDS = 2, 3  # numbers of like groups that are tried in exchanges


Climbing = Generator[np.ndarray, np.ndarray, None]
"""Yields points (k, d), and is sent their log-densities (k,)."""


def candidates(
    positions: np.ndarray, powers: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return some distinct draws (n, d) of chains at these powers, and their powers (n,).

    The chains have draws (blocks, k, d) and powers (k,).
    """
    pool, kept = [], []
    for power, count in zip(np.unique(powers)[::-1], CANDIDATES):
        draws = positions[:, powers == power].reshape(-1, positions.shape[2])
        pool.append(draws[rng.choice(len(draws), min(count, len(draws)), replace=False)])
        kept.append(np.full(len(pool[-1]), power))
    distinct, first = np.unique(np.concatenate(pool), axis=0, return_index=True)
    return distinct, np.concatenate(kept)[first]


def choose(
    process: Process, candidates: np.ndarray, powers: np.ndarray, count: int, first: np.ndarray
) -> np.ndarray:
    """Return at most ``count`` points: ``first`` (k, d), then some of the candidates (n, d).

    The candidates are draws at powers (n,). One after the other, those are taken that decrease the
    expected loss most: the sum over the candidates of σ² / (1 + σ²) times their power, with σ² the
    variance of the log-density given the values chosen so far. It is a design by the variance that
    is left (Cohn 1996), of a loss that saturates: where the log-density is wrong by some nats, a
    proposal is lost, and more nats lose no more. Whether a point is behind a wall says only its own
    value: that has the variance p (1 - p) of its chance p.

    References
    ----------
    Cohn (1996), Neural network exploration using optimal experiment design, Neural Networks 9.
    """
    given = len(first)
    if given:
        candidates, powers = np.vstack([first, candidates]), np.append(np.ones(given), powers)
    scale = min(process.temperature, _HOTTEST)
    covariances = process.covariances(candidates)
    noise = np.exp(2.0 * process.regression.hyperparameters.noise)
    unsure = process.unsure(candidates) * powers
    chosen: list[int] = []
    for k in range(min(count, len(candidates))):
        variances = np.maximum(np.diag(covariances), 0.0)
        if k < given:
            j = k
        else:
            left = variances[None, :] - covariances**2 / (variances + noise)[:, None]
            left = scale**2 * np.maximum(left, 0.0)
            score = unsure - (left / (1.0 + left)) @ powers
            score[chosen] = -np.inf
            j = int(np.argmax(score))
        chosen.append(j)
        # Conditional on a value at j. No covariance is larger than the two variances allow, but for
        # rounding far out.
        largest = np.sqrt(variances)
        column = np.clip(covariances[j] / np.sqrt(variances[j] + noise), -largest, largest)
        covariances = covariances - np.outer(column, column)
    return candidates[chosen]


class Known(NamedTuple):
    """What a source is told."""

    seen: Seen
    process: Process  # fitted to it
    lowest: float  # log-density that nearly all draws have
    typical: float  # log-density that half of the draws have
    searched: bool  # whether the process has new hyperparameters, as it has now and then
    starts: np.ndarray  # (k,), which evaluations are those of the start points
    rng: np.random.Generator


class Source(ABC):
    """A source, with a memory of its own if it needs one."""

    @abstractmethod
    def points(self, known: Known, most: int) -> np.ndarray:
        """Return at most so many points (k, d)."""

    def tell(self, values: np.ndarray, highest: float, outputs: np.ndarray | None) -> None:
        """Note the values (k,) at the last new points, when ``highest`` was the highest one.

        Outputs (k, n) of a simulator are known if they are learned.
        """
        return


class Climb(Source):
    """The climb to the posterior, when the first points are far below it.

    A step in each batch; after steps in vain, at searches only.
    """

    def __init__(self):
        self._cubes = len(RADII)
        self._fit: Process | None = None

    def points(self, known: Known, most: int) -> np.ndarray:
        """See :class:`Source`."""
        if known.searched:
            self._cubes = max(self._cubes, LOST)
        if not self._cubes or known.process.reaches_far:
            return known.seen.points[:0]
        self._fit, step = climb(known.seen, known.rng, self._cubes, self._fit)
        if not len(step):
            self._cubes = 0
        return step[:most]

    def tell(self, values: np.ndarray, highest: float, outputs: np.ndarray | None) -> None:
        """See :class:`Source`."""
        risen = np.any(values > highest)
        self._cubes = min(self._cubes + 1, len(RADII)) if risen else max(self._cubes - LOST, 0)


class Beyond(Source):
    """Steps beyond the draws to where the posterior may go on for all that is known.

    A surrogate that falls too early there hides what is beyond it from its own chains. It is less
    sure there than where it has reason to fall: steps are taken where the least number of its
    standard deviations would make the place as high as the draws, and a surprise.
    """

    def points(self, known: Known, most: int) -> np.ndarray:
        """See :class:`Source`."""
        process = known.process
        z = beyond(process.coordinates(known.seen.draws))
        z = z[np.linalg.norm(z, axis=1) < process.reach]
        if most < 1 or not len(z):
            return known.seen.points[:0]
        x = process.back(z)
        lacking = np.maximum(known.lowest - process.forecast(x), SURPRISE)
        sds = process.temperature * process.standard_deviations(x)
        likeliest = z[np.argsort(lacking / sds, kind="stable")[: max(int(_ENDS * len(z)), most)]]
        return process.back(far_apart(likeliest, 0, most))


class BeyondAtSearches(Beyond):
    """One such step when the process has new hyperparameters, and its draws other ends."""

    def points(self, known: Known, most: int) -> np.ndarray:
        """See :class:`Source`."""
        return super().points(known, min(most, int(known.searched)))


class ClimbFromStarts(Source):
    """Climbs, side by side, from starts far below the draws: each may end in a mode of its own."""

    def __init__(self):
        # and the points that each has asked for
        self._climbs: list[tuple[Climbing, np.ndarray]] | None = None

    def points(self, known: Known, most: int) -> np.ndarray:
        """See :class:`Source`."""
        if self._climbs is None:
            self._climbs = [(climb, next(climb)) for climb in _climbs_from_starts(known)]
        return np.vstack([known.seen.points[:0], *(asked for _, asked in self._climbs)])[:most]

    def tell(self, values: np.ndarray, highest: float, outputs: np.ndarray | None) -> None:
        """See :class:`Source`."""
        climbs, self._climbs = self._climbs or [], []
        for climb, asked in climbs:
            own, values = values[: len(asked)], values[len(asked) :]
            if len(own) == len(asked):
                with suppress(StopIteration):
                    self._climbs.append((climb, climb.send(own)))


class OvertakenClimbs(Source):
    """Climbs with linearized outputs that were not the best one: each may end in another mode.

    A step in each batch, and of all of them when learning would end.
    """

    def __init__(self, climbs: Climbs, *, at_the_end: bool = False):
        self._climbs, self._at_the_end, self._n_asked = climbs, at_the_end, 0

    def points(self, known: Known, most: int) -> np.ndarray:
        """See :class:`Source`."""
        found = self._climbs.overtaken(most if self._at_the_end else min(most, 1))
        self._n_asked = len(found)
        return found

    def tell(self, values: np.ndarray, highest: float, outputs: np.ndarray | None) -> None:
        """See :class:`Source`."""
        if len(values) == self._n_asked and outputs is not None:
            self._climbs.tell(values, outputs)
        else:  # not asked for, as points are too near to known ones
            self._climbs.end()


class Exchanges(Source):
    """The highest point with exchanged blocks of coordinates, once.

    It is as high, where labels can be exchanged. A value with noise would not tell.
    """

    def __init__(self):
        self._tried = False

    def points(self, known: Known, most: int) -> np.ndarray:
        """See :class:`Source`."""
        tried, self._tried = self._tried or known.seen.noisy, True
        return exchanges(known.seen.points[np.argmax(known.seen.values)], 0 if tried else most)


def climb(
    seen: Seen, rng: np.random.Generator, cubes: int, last: Process | None = None
) -> tuple[Process, np.ndarray]:
    """Return a wide fit, from the last one, and the most promising point (1, d), or none (0, d).

    It is the maximum of a wide fit's mean in one of the smallest cubes around the best point, that
    with the largest mean minus standard deviation: a step is as long as the fit is sure of.
    """
    fit = fit_widely(seen, rng, last)
    steps = _maxima(
        fit,
        RADII[:cubes],
        seen.points[np.argmax(np.where(np.isfinite(seen.values), seen.values, -np.inf))],
    )
    gains = fit.temperature * fit.heights(steps)
    errors = fit.temperature * fit.regression.standard_deviations(steps)
    best = int(np.argmax(gains - errors))
    return fit, steps[[best]] if gains[best] > WORTH else steps[:0]


def _climbs_from_starts(known: Known) -> Iterator[Climbing]:
    """Yield a climb from each start below nearly all draws, or from some that are far apart."""
    seen, process, rng = known.seen, known.process, known.rng
    values = seen.values[known.starts]
    below = known.starts[np.isfinite(values) & (values < known.lowest)]
    if process.reaches_far or not len(below):
        return
    z = process.coordinates(seen.points[below])
    for start in far_apart(z, int(np.argmax(seen.values[below])), MOST):
        i = below[np.argmin(np.sum((z - start) ** 2, axis=1))]
        around = process.back(start + _AROUND * rng.standard_normal((len(start) + 1, len(start))))
        yield climb_from(seen, i, around, process.forecast(around[:_NEAR]), known.typical, rng)


def climb_from(
    seen: Seen,
    start: int,
    around: np.ndarray,
    forecast: np.ndarray,
    enough: float,
    rng: np.random.Generator,
) -> Climbing:
    """Climb from the point of that index, if the surrogate does not know the way up from there.

    Two values nearby say whether it does. If not, the climb knows its own evaluations alone, so
    that it ends in the mode on whose flank it began. Far below the highest value a surrogate need
    not hold to more than a share of the depth (:data:`kmc.surrogate.mass.DEPTH`).

    Parameters
    ----------
    seen : Seen
    start : int
    around : ndarray, shape (k, d)
        Points around the start, by which directions are known.
    forecast : ndarray
        Of the surrogate, at the first ones.
    enough : float
        The climb is over when it is as high.
    rng : Generator
    """
    near = yield around[: len(forecast)]
    depth = seen.values.max() - near
    if np.all(np.abs(near - forecast) <= SURPRISE + noise_at(depth, len(around[0]))):
        return
    points, values = np.vstack([seen.points[[start]], around]), np.append(seen.values[start], near)
    values = np.append(values, (yield around[len(near) :]))
    cubes, fit = len(RADII), None
    while cubes > 0 and values.max() < enough:
        fit, step = climb(
            Seen(points, values, points, np.full(points.shape, np.nan), seen.noisy), rng, cubes, fit
        )
        if not len(step):  # the fit is sure of none: it knows too little around the highest point
            step = points[[np.argmax(values)]] + rng.choice(around) - points[0]
        value = yield step
        cubes = min(cubes + 1, len(RADII)) if value[0] > values.max() else cubes - LOST
        points, values = np.vstack([points, step]), np.append(values, value)


def _maxima(fit: Process, radii: Sequence[float], start: np.ndarray) -> np.ndarray:
    """Return the maximum of the mean in each cube around the start (d,), (k, d)."""
    origin = z = fit.coordinates(start[None, :])[0]
    maxima = []
    for radius in radii:
        z = maximum(fit, z, np.stack([origin - radius, origin + radius]))
        maxima.append(z)
    return fit.back(np.array(maxima))


def beyond(draws: np.ndarray) -> np.ndarray:
    """Return points (2 n, d), two steps from each of the draws (n, d).

    The steps are in the widest direction around each draw, both ways.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernel_hmc.batch import beyond
    >>> rng = np.random.default_rng(1)
    >>> along = rng.normal(size=(1_000, 2)) * [3.0, 0.1]
    >>> bool(np.ptp(beyond(along)[:, 0]) > np.ptp(along[:, 0]))
    True
    """
    draws = np.unique(draws, axis=0)
    dim = draws.shape[1]
    around = 2 * dim + 2
    if len(draws) < around:
        return draws[:0]
    _, near = cKDTree(draws).query(draws, k=around)
    variances, directions = np.linalg.eigh(
        [np.cov(draws[rows].T).reshape(dim, dim) for rows in near]
    )
    steps = LONG * np.sqrt(np.maximum(variances[:, -1:], 0.0)) * directions[:, :, -1]
    return np.vstack([draws + steps, draws - steps])


def exchanges(x: np.ndarray, most: int) -> np.ndarray:
    """Return at most so many points (k, d) that differ from x (d,) by an exchange of two groups.

    The coordinates, or all but the first or last few of them, are divided into two or three groups
    of equal size: (a1, b1, a2, b2) or (a1, a2, b1, b2). Beside two groups, one coordinate is a
    weight on the logit scale, perhaps, and changes its sign in half of the points.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernel_hmc.batch import exchanges
    >>> exchanges(np.array([1.0, 2.0, 3.0, 4.0]), 2)
    array([[2., 1., 4., 3.],
           [3., 4., 1., 2.]])
    """
    found = np.array(list(_exchanged(x))).reshape(-1, len(x))
    different = found[np.any(found != x, axis=1)]
    _, first = np.unique(different, axis=0, return_index=True)
    return different[np.sort(first)[:most]]


def _exchanged(x: np.ndarray) -> Iterator[np.ndarray]:
    for count in _KINDS:
        rest = len(x) % count
        if len(x) < count:
            return
        for start in {0, rest}:
            inside = slice(start, start + len(x) - rest)
            for shape, axis in (((-1, count), 1), ((count, -1), 0)):
                order = np.arange(count)
                order[:2] = 1, 0
                point = x.copy()
                point[inside] = np.take(x[inside].reshape(shape), order, axis).ravel()
                yield point
                if rest == 1 and count == 2:
                    outside = np.ones(len(x), bool)
                    outside[inside] = False
                    yield np.where(outside, -point, point)
