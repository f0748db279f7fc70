"""What the surrogate of a run without draws says of the posterior, with the surrogate's own error.

The run's evaluations are regressed as in learning, and functions are drawn from the regression's
posterior: each is a log-density that the evaluations allow, and what differs between them is not
known yet. They are compared at draws of one density, by weights.
"""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import sha256

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import logsumexp

from kmc.control_variates.replicate import bennett
from kmc.convergence import squared_error
from kmc.interrupts import uninterrupted
from kmc.kernel_hmc.learning import LONG, SETTINGS, Learning
from kmc.kernel_hmc.stopping import MOST, unseen
from kmc.posterior.results import Result
from kmc.samplers.local_mixture import draw_from, local_mixture, log_densities
from kmc.surrogate.emulator.structure import candidates

LEARNED = (
    "predictions by a surrogate of the evaluations, with the errors of its regression; "
    "too few draws for more"
)
"""What results say of themselves."""

LARGEST_SE = 0.5
"""Nats: a log-evidence or a log-density whose stated error is larger is not known.

Its true error may be several times that.
"""

MOST_UNSEEN = 0.1
"""Share of a posterior: if more may be beyond all evaluations, errors are rough."""

MOVES = 336
"""Further moves of each chain where more draws are worth it: 4,000 in blocks of two moves."""

# nobody evaluates where the regression knows nothing, so no draws are there
_SETTINGS = replace(SETTINGS, slope=10.0)
_SEARCHES = 3  # fits: coordinates follow draws, which follow coordinates
_LEFT_OUT = 5  # every so many values
_BLOCKS = 42  # of the chains, for a thousand draws: their covariance matrix has a factor in 30 ms
_INDEPENDENT = 0.25  # share of draws that count, below which blocks are longer
_FUNCTIONS = 100
_BATCHES = 10  # of draws, for the error of a mass
_DEEPEST = -1e3  # nats


@dataclass(frozen=True)
class _Evaluations:
    """Hold what a regression is made of; equal if the evaluations and the seed are."""

    key: bytes
    run: Result = field(compare=False)
    seed: np.random.SeedSequence = field(compare=False)

    @classmethod
    def of(cls, run: Result, seed: np.random.SeedSequence) -> _Evaluations:
        known = (
            () if run.known is None else (type(run.known.transport).__name__, *run.known.splines)
        )
        arrays = [
            np.asarray(one) for one in (*run.evaluations, run.outputs, *known) if one is not None
        ]
        kinds = run.noisy, run.structure is None, run.approximation is None
        key = sha256(
            repr((kinds, seed.entropy, seed.spawn_key, [array.shape for array in arrays])).encode()
        )
        for array in arrays:
            key.update(array.tobytes())
        # whose draws need not stay in memory
        return cls(key.digest(), replace(run, idata=None), seed)


@lru_cache(maxsize=1)
def _fitted(known: _Evaluations) -> tuple[Learning, np.random.Generator]:
    """Return the regression, and the generator after it.

    The last one is kept, as expectations, evidence and draws are often asked for in turn.
    """
    run, (x, values) = known.run, known.run.evaluations
    rng = np.random.default_rng(known.seed)
    # Values that are left out at first tell how far errors can be believed.
    order = rng.permutation(np.flatnonzero(np.isfinite(values)))
    later = np.zeros(len(values), bool)
    later[order[: len(order) // _LEFT_OUT]] = True
    outputs = (None, None) if run.outputs is None else (run.outputs[~later], run.outputs[later])
    learning = Learning(
        x[~later],
        values[~later],
        rng=rng,
        noisy=run.noisy,
        outputs=outputs[0],
        structures=()
        if run.structure is None or run.outputs is None
        else candidates(run.structure, x, run.outputs),
        approximation=run.approximation,
        known=run.known,
        settings=_SETTINGS,
    )
    for _ in range(_SEARCHES):
        learning.fit(search=True)
    learning.passes(x[later], values[later], 0, drawn=int(later.sum()), outputs=outputs[1])
    for _ in range(_SEARCHES):
        learning.fit(search=True)
    return learning, rng


@dataclass(frozen=True, eq=False)
class Table:
    """Hold draws of a density s, and functions there of log-density log s plus ``log_weights``.

    At the draws after the first n only the density without these differences, log s plus
    ``log_base``, is known.
    """

    points: np.ndarray  # (m, d)
    heights: np.ndarray  # (m,), of log s
    log_base: np.ndarray  # (m,)
    log_weights: np.ndarray  # (k, n)
    errors: np.ndarray  # (n,), of the log-density, in nats
    n_in_front: int  # draws in front of the edges of the support, of the first n
    independent: float  # of the draws
    unseen: float  # share of the posterior that may be beyond all evaluations

    @cached_property
    def weights(self) -> np.ndarray:
        """Return the weights of the first draws for each function, with the sum 1, (k, n)."""
        return _normalized(self.log_weights)

    @cached_property
    def weights_of_all(self) -> np.ndarray:
        """Return weights of all draws for averages, with the sum 1, some of them negative, (k, m).

        The average for the density without the differences is from all draws, what these change
        from the first ones: a control variate.
        """
        weights = np.tile(_normalized(self.log_base), (len(self.weights), 1))
        n = self.weights.shape[1]
        weights[:, :n] += self.weights - _normalized(self.log_base[:n])
        return weights

    @cached_property
    def outskirts(self) -> np.ndarray:
        """Return the weights of the draws where s may be wrong, with the sum ``unseen``, (m,).

        They are those of lowest density.
        """
        weights = _normalized(self.log_base)
        order = np.argsort(self.heights, kind="stable")
        ends = np.minimum(np.cumsum(weights[order]), self.unseen)
        weights[order] = np.diff(ends, prepend=0.0)
        return weights

    @property
    def effective(self) -> float:
        """Return the effective number of independent draws for a function."""
        return self.independent / (
            len(self.points) * float(np.mean(np.sum(self.weights_of_all**2, axis=1)))
        )

    @property
    def error(self) -> float:
        """Return how well the density is known, in nats.

        It is the root mean square of the errors where the functions have their mass, or the
        standard deviation of these masses, which edges may make larger.
        """
        error = float(np.sqrt(np.mean(self.weights @ np.minimum(self.errors, MOST) ** 2)))
        return max(error, float(self.log_masses.std()))

    @property
    def is_rough(self) -> bool:
        """Return whether the density is so uncertain that errors from the functions are rough."""
        return self.error > LARGEST_SE or self.unseen > MOST_UNSEEN

    @property
    def log_masses(self) -> np.ndarray:
        """Return logs (k,) of the functions' integrals relative to that of s in front of edges."""
        return logsumexp(self.log_weights, axis=1) - np.log(self.n_in_front)


class Learned:
    """The regression of a run's evaluations, and the density s that its draws are of.

    Where the regression knows nothing, s is hardly any: the answer is for the region that
    evaluations know.

    Parameters
    ----------
    run : Result
        A run with too few draws.
    name : str
        What a message calls it.
    seed : SeedSequence

    Raises
    ------
    ValueError
        There are too few evaluations.
    """

    def __init__(self, run: Result, name: str, seed: np.random.SeedSequence):
        (x, values), self.n_draws = run.evaluations, run.n_draws
        self.n_values, least = int(np.isfinite(values).sum()), 2 * x.shape[1] + 2
        if self.n_values < least:
            raise ValueError(
                f"{name} has {self.n_draws} draws, and {self.n_values} evaluations where the "
                f"density is positive: expected at least 2 d + 2 = {least} to learn from"
            )
        learning, rng = _fitted(_Evaluations.of(run, seed))
        self._learning, self._rng = copy(learning), deepcopy(rng)
        self._process = self._learning.process
        self._z, self._finite = self._process.coordinates(x), np.isfinite(values)

    def table(self, further: int = 0) -> Table:
        """Draw points from s, and functions from the regression's posterior.

        After these the chains make so many further moves, in blocks as long as the last ones.
        """
        process = self._process
        x = self._drawn()
        covariances = process.covariances(x)
        errors = self._learning.ratio * process.temperature * np.sqrt(np.diag(covariances))
        # variances may be as small as the rounding errors of the prior's
        size, vectors = np.linalg.eigh(covariances)
        normal = self._rng.standard_normal((_FUNCTIONS, len(x)))
        away = (normal * np.sqrt(np.maximum(size, 0.0))) @ vectors.T
        z = process.coordinates(x)
        wall = process.parts(z)[1]
        away *= self._learning.ratio * process.temperature
        log_weights = self._untempered(x, wall)[1] + away + self._edges(z, wall) - wall
        in_front = int(np.sum(~self._is_behind(z)))
        if blocks := further // self._learning.moves:
            x = np.vstack([x, self._learning.sample(blocks, self._rng)])
            z = process.coordinates(x)
            wall = process.parts(z)[1]
        heights, log_base = self._untempered(x, wall)
        if process.wall is None:  # with one, edges at all levels make up for it
            log_base += np.where(self._is_behind(z), _DEEPEST, 0.0)
        # Functions tell nothing of where less is known than at all of the first draws.
        sds = process.standard_deviations(x)
        log_base += np.where(sds > sds[: len(errors)].max(), _DEEPEST, 0.0)
        independent = _independent(x, _BLOCKS + blocks)
        # that of an emulator is known from its outputs
        beyond = 0.0 if process.reaches_far else unseen(self.n_values, x.shape[1])
        return Table(
            *(x, heights, log_base, log_weights),
            *(errors, max(in_front, 1), independent, beyond),
        )

    def _drawn(self):
        """Return draws after blocks that are so long that they count, if that helps."""
        x = self._learning.sample(_BLOCKS, self._rng)
        while _independent(x, _BLOCKS) < _INDEPENDENT * len(x) and self._learning.moves < LONG:
            self._learning.moves *= 2
            x = self._learning.sample(_BLOCKS, self._rng)
        return x

    def _untempered(self, x, wall):
        """Return log s at x (k, d), and the log-density without the wall less that, (k,) each."""
        process, heights = self._process, self._learning.log_density(x)
        tempered = heights - process.transport.log_jacobian(x) - wall - process.kept(x)
        return heights, (process.temperature - 1.0) * tempered

    def _edges(self, z, wall):
        """Return 0 in front of the edge of each function, and far less behind it, (functions, k).

        An edge is where the chance of the wall is uniform in (0, 1); without a wall, where the
        nearest of some of the evaluations is no longer of the same kind.
        """
        behind = np.zeros((_FUNCTIONS, len(z)), bool)
        if self._process.wall is not None:
            level = self._rng.permutation(np.arange(0.5, _FUNCTIONS) / _FUNCTIONS)
            behind = wall < np.log(level)[:, None]
        elif not self._finite.all():  # edges are as uncertain as evaluations are few
            n = len(self._z)
            behind = np.array(
                [self._is_behind(z, np.unique(self._rng.integers(n, size=n))) for _ in behind]
            )
        return np.where(behind, _DEEPEST, 0.0)

    def _is_behind(self, z, rows=slice(None)):
        """Return at which z (k, d) the density is probably zero, as some evaluations say, (k,)."""
        if (wall := self._process.wall) is not None:
            return wall.behind(self._process.whitening.back(z))
        known, finite = self._z[rows], self._finite[rows]
        if finite.all() or not finite.any():
            return np.zeros(len(z), bool)
        return cKDTree(known[~finite]).query(z)[0] < cKDTree(known[finite]).query(z)[0]

    def log_mass(self) -> tuple[float, float]:
        """Return the log of the integral of s, and its standard error.

        It is compared with Gaussians around half of its draws, at the others, in batches.
        """
        blocks = max(_BLOCKS, MOVES // self._learning.moves)
        drawn = self._process.coordinates(self._learning.sample(blocks, self._rng))
        drawn = drawn[~self._is_behind(drawn)]
        around, drawn = np.array_split(drawn, 2)
        mixture = local_mixture(around)
        if not len(mixture.centers) or len(drawn) < _BATCHES:  # nearly all draws are behind edges
            return np.nan, np.nan
        z = np.empty(drawn.shape)
        with uninterrupted():
            for row in z:
                draw_from(mixture, self._rng, row)
        ratios = [np.array_split(self._log_ratios(each, mixture), _BATCHES) for each in (drawn, z)]
        found = [bennett(*batch) for batch in zip(*ratios, strict=True)]
        return float(np.mean(found)), float(np.std(found)) / np.sqrt(_BATCHES - 1)

    def sentences(self, table: Table) -> list[str]:
        """Return what is to be said of such answers."""
        said = [
            f"There are {self.n_draws or 'no'} draws: this is what a surrogate of {self.n_values} "
            "evaluations predicts, with its own errors; sample for longer for exact answers."
        ]
        if not self._finite.all():
            said.append(
                f"The density is zero at {np.sum(~self._finite)} evaluations: errors at the edge "
                "of the support may be larger than the stated ones."
            )
        if table.unseen > MOST_UNSEEN:
            said.append(
                f"With so few evaluations, {table.unseen:.0%} of the posterior may be beyond all "
                "of them: the stated errors are rough."
            )
        elif table.is_rough:
            said.append(
                f"The log-density is known to {table.error:.1f} nats at best where the posterior "
                "is: the stated errors are rough."
            )
        return said

    def _log_ratios(self, z, mixture):
        """Return log s minus the log-density of the mixture at z (n, d), (n,)."""
        process, x = self._process, self._process.back(z)
        normal = -np.log(len(mixture.heights)) - 0.5 * z.shape[1] * np.log(2.0 * np.pi)
        of_mixture = log_densities(mixture, z) + normal
        volume = process.transport.log_jacobian(x) - np.linalg.slogdet(process.whitening.inverse)[1]
        found = np.maximum(self._learning.log_density(x) - of_mixture - volume, _DEEPEST)
        return np.where(self._is_behind(z), _DEEPEST, found)


def _independent(x, blocks):
    """Return as how many independent ones draws (m, d) count, which are in blocks."""
    # Chains exchange their states, so that only what is between blocks is known to move.
    means = x.reshape(blocks, -1, x.shape[1]).mean(axis=1)
    return float(np.clip(np.min(x.var(axis=0) / squared_error(means[None])), 1.0, len(x)))


def _normalized(log_weights):
    """Return weights with the sum 1 along the last axis."""
    return np.exp(log_weights - logsumexp(log_weights, axis=-1, keepdims=True))
