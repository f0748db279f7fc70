"""Moves that can be added to kernel HMC: built-in ones, and the interface of a user's own.

A move proposes a point from the state of a chain and an archive of past states, and says by how
much the proposal is asymmetric. It is accepted by the true density with the Metropolis–Hastings
ratio, so that each move, and any mixture of moves whose probabilities are fixed, leaves the target
invariant. The default sampler makes archive moves on its own: differential evolution and the
snooker.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.special import logsumexp

from kmc.checks import check_count, check_number, is_number
from kmc.samplers.base import MOVES
from kmc.samplers.metropolis import Proposal
from kmc.samplers.walkers import BEST_SCALE

__all__ = ["DifferentialEvolution", "Independence", "Move", "RandomWalk", "Snooker"]

_ITERATIONS = 50  # of expectation-maximization, at most
_FLOOR = 1e-6  # added to the variances of a component, relative to those of the archive
_LEAST = 10  # states per parameter of a component

# As in the paper of ter Braak and Vrugt (2008), except for the spread of the steps, which was set
# by hand.
SNOOKER_PROBABILITY = 0.15  # probability of a snooker update
_SPREAD = 0.7, 1.3  # range of the factor on the step, uniform
_UNIT_PROBABILITY = 0.1  # probability of a step with γ = 1
_NOISE = 1e-3  # sd of the noise added to a step, in sds of the archive
_SNOOKER = 1.2, 2.2  # range of the factor on a snooker step, uniform

_DE = MOVES.index("differential-evolution")
_SNOOKER_MOVE = MOVES.index("snooker")


@runtime_checkable
class Move(Protocol):
    """A move for ``kmc.KernelHMC(moves=[(move, probability), ...])``."""

    def propose(
        self, rng: np.random.Generator, position: np.ndarray, archive: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Propose a point; return it and log(q(position | proposal) / q(proposal | position)).

        All randomness is from ``rng``; ``position`` and ``archive`` must not be changed. The
        proposal must not depend on earlier calls: after warm-up, chains are not called in turn.

        Parameters
        ----------
        rng : Generator
            The chain's random stream.
        position : ndarray, shape (d,)
            The chain's state.
        archive : ndarray, shape (n, d)
            Past states, n >= 3. They are fixed after warm-up.

        Returns
        -------
        proposal : ndarray, shape (d,)
            A proposal equal to ``position`` costs no evaluation.
        log_ratio : float
            0 for a symmetric move. For a move x -> x' by an invertible map drawn independently of x
            it is log |det dx'/dx|. :func:`kmc.testing.check_move` tests it.
        """


@dataclass(frozen=True)
class DifferentialEvolution:
    """x + γ (a - b) for two archived states, with a little noise; one step in ten has γ = 1.

    Parameters
    ----------
    scale : float
        Factor of γ = 2.38 / sqrt(2 d).

    References
    ----------
    .. [1] ter Braak and Vrugt (2008), "Differential evolution Markov chain with snooker updater and
       fewer chains", Statistics and Computing 18.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> move, rng = kmc.moves.DifferentialEvolution(), np.random.default_rng(0)
    >>> proposal, log_ratio = move.propose(rng, np.zeros(2), rng.normal(size=(50, 2)))
    >>> proposal.shape, log_ratio
    ((2,), 0.0)
    """

    scale: float = 1.0

    def __post_init__(self):
        check_number(self, "scale", 0)

    def propose(
        self, rng: np.random.Generator, position: np.ndarray, archive: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Propose a point; see :class:`Move`."""
        made = differential_evolution(rng, position, archive, scale=self.scale)
        return made.position, made.log_ratio


@dataclass(frozen=True)
class Snooker:
    """Along the line through the state and an archived one, by two others' projected difference.

    References
    ----------
    .. [1] ter Braak and Vrugt (2008), "Differential evolution Markov chain with snooker updater and
       fewer chains", Statistics and Computing 18.
    """

    def propose(
        self, rng: np.random.Generator, position: np.ndarray, archive: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Propose a point; see :class:`Move`."""
        made = snooker(rng, position, archive)
        return made.position, made.log_ratio


@dataclass(frozen=True)
class RandomWalk:
    """A Gaussian step with the covariance of the archive.

    Parameters
    ----------
    scale : float
        Factor of the step 2.38 / sqrt(d).
    """

    scale: float = 1.0

    def __post_init__(self):
        check_number(self, "scale", 0)

    def propose(
        self, rng: np.random.Generator, position: np.ndarray, archive: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Propose a point; see :class:`Move`."""
        d = len(position)
        root = _fitted(archive, 1).roots[0]
        return position + self.scale * 2.38 / math.sqrt(d) * (root @ rng.standard_normal(d)), 0.0


@dataclass(frozen=True)
class Independence:
    """A point from a Student-t mixture that is fitted to the archive, wherever the chain is.

    Parameters
    ----------
    n_components : int
        Largest number of components; fewer if that has a better Bayesian information criterion.
    dof : float
        Degrees of freedom: small ones have heavy tails, so that chains do not stay long in tails
        that the mixture underestimates.

    References
    ----------
    .. [1] Giordani and Kohn (2010), "Adaptive independent Metropolis–Hastings by fast estimation of
       mixtures of normals", Journal of Computational and Graphical Statistics 19.
    """

    n_components: int = 5
    dof: float = 5.0

    def __post_init__(self):
        check_count(self, "n_components", 1)
        check_number(self, "dof", 0)

    def propose(
        self, rng: np.random.Generator, position: np.ndarray, archive: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Propose a point; see :class:`Move`."""
        mixture = _fitted(archive, self.n_components)
        u = rng.random()
        k = min(int(np.searchsorted(np.cumsum(mixture.weights), u)), len(mixture.weights) - 1)
        chi = rng.chisquare(self.dof) / self.dof
        proposal = mixture.means[k] + mixture.roots[k] @ rng.standard_normal(
            len(position)
        ) / math.sqrt(chi)
        before, after = mixture.log_density(np.stack([position, proposal]), self.dof)
        return proposal, float(before - after)


def as_moves(moves: Any) -> tuple[tuple[Move, float], ...]:
    """Check pairs of a move and its probability, and return them as tuples."""
    expected = "expected pairs (move, probability), such as [(kmc.moves.Snooker(), 0.1)]"
    if isinstance(moves, (str, bytes)) or not isinstance(moves, Sequence):
        raise TypeError(f"moves={moves!r}: {expected}")
    for pair in moves:
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise TypeError(f"moves={moves!r}: {expected}, and one of them is {pair!r}")
        move, probability = pair
        if isinstance(move, type) or not isinstance(move, Move):
            raise TypeError(
                f"moves: {move!r} has no method propose(rng, position, archive) -> (position, "
                "log_ratio): see kmc.moves.Move"
            )
        if not is_number(probability):
            raise TypeError(
                f"moves: the probability of {move!r} is {probability!r}: expected a number in (0, "
                f"1)"
            )
        if not 0 < probability < 1:
            raise ValueError(
                f"moves: the probability of {move!r} is {probability!r}: expected a number in (0, "
                f"1)"
            )
    total = sum(probability for _, probability in moves)
    if not total < 1:
        raise ValueError(
            f"moves: the probabilities add up to {total:g}: expected less than 1, for the "
            f"sampler's own"
        )
    return tuple((move, float(probability)) for move, probability in moves)


def names_of(moves: Sequence[tuple[Move, float]]) -> tuple[str, ...]:
    """Return names without spaces of the kinds of move, those of kmc first.

    A draw's ``move`` is an index into them.
    """
    return MOVES + tuple(type(move).__name__ for move, _ in moves)


def propose_one_of(
    moves: Sequence[tuple[Move, float]],
    rng: np.random.Generator,
    x: np.ndarray,
    *,
    archive: np.ndarray,
) -> Proposal | None:
    """Propose a point from x (d,) by one of the moves.

    Return None if it is the turn of the sampler's own moves.
    """
    left = rng.random()
    for i, (move, probability) in enumerate(moves):
        if left < probability:
            return _checked(move, move.propose(rng, x.copy(), archive), x)._replace(
                move=len(MOVES) + i
            )
        left -= probability
    return None


def _checked(move: Move, returned: Any, x: np.ndarray) -> Proposal:
    expected = f"expected (position, log_ratio), an array of shape ({len(x)},) and a number"
    name = type(move).__name__
    try:
        position, log_ratio = returned
        position = np.array(position, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"moves: {name}.propose returned {returned!r}: {expected}") from None
    if position.shape != x.shape or not is_number(log_ratio):
        raise TypeError(f"moves: {name}.propose returned {returned!r}: {expected}")
    if not np.all(np.isfinite(position)) or math.isnan(log_ratio):
        return Proposal(x, 0.0, 0, moved=False)  # it overflowed: the chain stays
    return Proposal(position, float(log_ratio), 0, moved=bool(np.any(position != x)))


# A mixture fitted to an archive


class Mixture(NamedTuple):
    """Weights, locations and Cholesky factors of the scale matrices of k components."""

    weights: np.ndarray  # (k,)
    means: np.ndarray  # (k, d)
    roots: np.ndarray  # (k, d, d)
    inverses: np.ndarray  # (k, d, d), of the roots
    log_scales: np.ndarray  # (k,): log of weight / determinant of the root

    def log_densities(self, x: np.ndarray, dof: float) -> np.ndarray:
        """Return the weighted log-density of each component at points (n, d), shape (k, n).

        With ``dof=inf``, components are Gaussians.
        """
        d = x.shape[1]
        white = np.matmul(x - self.means[:, None], self.inverses.transpose(0, 2, 1))
        square = np.einsum("kni,kni->kn", white, white)
        if math.isinf(dof):
            shape = -0.5 * (square + d * math.log(2 * math.pi))
        else:
            constant = (
                math.lgamma(0.5 * (dof + d))
                - math.lgamma(0.5 * dof)
                - 0.5 * d * math.log(dof * math.pi)
            )
            shape = constant - 0.5 * (dof + d) * np.log1p(square / dof)
        return self.log_scales[:, None] + shape

    def log_density(self, x: np.ndarray, dof: float) -> np.ndarray:
        """Return the log-density at points (n, d), shape (n,)."""
        return np.logaddexp.reduce(self.log_densities(x, dof), axis=0)


_FITS: dict[tuple[int, int], tuple[weakref.ref[np.ndarray], Mixture]] = {}
"""Fits by the identity of the archive and the number of components; archives are never modified."""


def _fitted(archive: np.ndarray, most: int) -> Mixture:
    key = id(archive), most
    known = _FITS.get(key)
    if known is not None and known[0]() is archive:
        return known[1]
    mixture = fit_mixture(archive, most)
    for old in [old for old, (reference, _) in _FITS.items() if reference() is None]:
        del _FITS[old]
    _FITS[key] = weakref.ref(archive), mixture
    return mixture


def fit_mixture(x: np.ndarray, most: int) -> Mixture:
    """Fit a mixture of up to ``most`` Gaussians to points (n, d), by expectation-maximization.

    The number of components has the best Bayesian information criterion. The same points give the
    same mixture.
    """
    n, d = x.shape
    size = 1 + d + d * (d + 1) // 2
    best: tuple[float, Mixture] | None = None
    for k in range(1, max(1, min(most, n // (_LEAST * size))) + 1):
        mixture = _maximized(x, k)
        loss = k * size * math.log(n) - 2 * float(np.sum(mixture.log_density(x, math.inf)))
        if best is not None and not loss < best[0]:
            break
        best = loss, mixture
    assert best is not None
    return best[1]


def _maximized(x: np.ndarray, k: int) -> Mixture:
    _, labels = kmeans2(x / _spread(x), k, minit="++", seed=np.random.default_rng(k))
    shares = np.eye(k)[labels].T  # (k, n)
    last = -math.inf
    for _ in range(_ITERATIONS):
        mixture = _of_shares(x, shares)
        logs = mixture.log_densities(x, math.inf)
        total = logsumexp(logs, axis=0)
        shares = np.exp(logs - total)
        now = float(np.mean(total))
        if now - last < 1e-4:
            break
        last = now
    return mixture


def _of_shares(x: np.ndarray, shares: np.ndarray) -> Mixture:
    floor = np.diag(_FLOOR * _spread(x) ** 2)
    mass = shares.sum(axis=1) + 1e-9
    means = (shares @ x) / mass[:, None]
    roots = []
    for share, total, mean in zip(shares, mass, means, strict=True):
        deviations = x - mean
        roots.append(
            np.linalg.cholesky((share[:, None] * deviations).T @ deviations / total + floor)
        )
    weights, stacked = mass / mass.sum(), np.array(roots)
    log_scales = np.log(weights) - np.sum(np.log(np.diagonal(stacked, axis1=1, axis2=2)), axis=1)
    return Mixture(weights, means, stacked, np.linalg.inv(stacked), log_scales)


def _spread(x: np.ndarray) -> np.ndarray:
    spread = x.std(axis=0)
    return np.where(spread > 0, spread, 1.0)


def archive_move(rng: np.random.Generator, x: np.ndarray, archive: np.ndarray) -> Proposal:
    """Propose a snooker update or differential evolution from x (d,).

    The archive (n, d) has n >= 3 distinct points.
    """
    if rng.random() < SNOOKER_PROBABILITY:
        return snooker(rng, x, archive)
    return differential_evolution(rng, x, archive, scale=1.0)


def differential_evolution(
    rng: np.random.Generator,
    x: np.ndarray,
    archive: np.ndarray,
    *,
    scale: float,
    sd: np.ndarray | None = None,
) -> Proposal:
    """Propose x + γ (a - b) + small noise, which is symmetric.

    γ is 1 with probability 0.1, for jumps between modes. The noise is relative to ``sd`` (d,), by
    default the archive's standard deviations.
    """
    a, b = archive[rng.choice(len(archive), 2, replace=False)]
    unit = rng.random() < _UNIT_PROBABILITY
    gamma = 1.0 if unit else scale * BEST_SCALE / np.sqrt(2 * len(x)) * rng.uniform(*_SPREAD)
    noise = _NOISE * (archive.std(axis=0) if sd is None else sd) * rng.standard_normal(len(x))
    return Proposal(x + gamma * (a - b) + noise, 0.0, _DE)


def snooker(rng: np.random.Generator, x: np.ndarray, archive: np.ndarray) -> Proposal:
    """Propose a point on the line through x and an archived z.

    The step is γ times the difference of two other archived points, projected on the line, with γ ~
    U(1.2, 2.2).

    The step is symmetric in the distance r along the line, while volume around z grows as r^(d-1):
    the Metropolis–Hastings ratio is p(x') |x' - z|^(d-1) / (p(x) |x - z|^(d-1)).
    """
    z, a, b = archive[rng.choice(len(archive), 3, replace=False)]
    direction = x - z
    distance = np.linalg.norm(direction)
    if not distance > 0:
        return Proposal(x, 0.0, _SNOOKER_MOVE, moved=False)
    direction = direction / distance
    proposed = x + rng.uniform(*_SNOOKER) * ((a - b) @ direction) * direction
    new_distance = np.linalg.norm(proposed - z)
    if not new_distance > 0:
        return Proposal(x, 0.0, _SNOOKER_MOVE, moved=False)
    return Proposal(proposed, (len(x) - 1) * float(np.log(new_distance / distance)), _SNOOKER_MOVE)
