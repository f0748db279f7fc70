"""Kernel adaptive Metropolis–Hastings, "Kameleon".

Sejdinovic, Strathmann, Lomeli Garcia, Andrieu and Gretton (2014), "Kernel adaptive
Metropolis-Hastings", ICML. With a subsample z_1, ..., z_n of the chain's history, a kernel k and
M_y = 2 [∇_x k(x, z_1), ..., ∇_x k(x, z_n)] at x = y, the proposal from y is

    q(x | y) = N(x; y, R_y),    R_y = γ² I + ν² M_y H M_yᵀ,    H = I - 11ᵀ / n

(algorithm 2): random directions in the kernel's feature space, mapped back. R depends on the state,
so that the acceptance has both densities,

    min(1, p(x) q(y | x) / (p(y) q(x | y))).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import pdist

from kmc.checks import check_choice, check_count, check_number, is_number
from kmc.samplers.adapting import (
    AdaptingState,
    Moved,
    Reservoir,
    RobbinsMonro,
    walkers_of,
    warmup_sweeps,
)
from kmc.samplers.ask_tell import Startable
from kmc.samplers.base import MOVES, SamplerSetup
from kmc.samplers.metropolis import Proposal
from kmc.samplers.walkers import BEST_SCALE, start_spread

_MOVE, _WALK = MOVES.index("kameleon"), MOVES.index("random-walk")
_WARMUP_SHARE = 3  # warm-up has one in so many evaluations of the budget
_GROWTH = 1.25  # between successive sweeps at which the subsample is renewed
_FIRST = 20  # the first of them
_LEAST = 10  # states per dimension for a first subsample
_SPREAD_OF_ONE = 1e-8  # relative to its size, for a coordinate in which the states do not differ


@dataclass(frozen=True)
class Kameleon(Startable):
    r"""Kernel adaptive Metropolis–Hastings: a random walk that follows the target's local shape.

    Parameters
    ----------
    adaptation : {"vanishing", "freeze"}
        "vanishing": the subsample of the history is renewed at sweeps that are fixed in advance and
        ever rarer, and the step sizes of the recursion for ν tend to zero. "freeze": the proposal
        does not change after warm-up.
    gamma : float
        γ, the standard deviation of the isotropic part of a step, relative to the spread of the
        states.
    max_states : int
        n, the largest size of the subsample.
    bandwidth : float or "median"
        Of the Gaussian kernel exp(-|x - y|² / (2 bandwidth²)), relative to the spread of the
        states; "median": the median distance of states in the subsample.
    target_acceptance : float
        The acceptance rate to which ν is tuned, by a Robbins–Monro recursion.

    Raises
    ------
    TypeError, ValueError
        An invalid option.

    See Also
    --------
    kmc.AdaptiveMetropolis : one covariance for all states.

    Notes
    -----
    This is algorithm 2 of [1]_ with its Gaussian kernel, for several chains that share one history.
    The paper leaves the units to the user; here a proposal is made in coordinates that are divided
    by the standard deviations of the subsample. ν is reported relative to the value at which R has
    the mean trace 2.38², the best for a Gaussian. Until there are enough states for a subsample,
    the proposal is a random walk whose scale is tuned.

    A step costs O(n d + n d²) operations, and one true evaluation.

    References
    ----------
    .. [1] Sejdinovic, Strathmann, Lomeli Garcia, Andrieu and Gretton (2014), "Kernel adaptive
       Metropolis-Hastings", International Conference on Machine Learning.

    Examples
    --------
    >>> import kmc
    >>> sampler = kmc.Kameleon(max_states=200)
    >>> idata = kmc.sample(
    ...     lambda x: -0.5 * x @ x, dim=2, sampler=sampler, draws=500, seed=1, progress=False
    ... )
    >>> idata.posterior.attrs["sampler"]
    'kameleon'
    """

    adaptation: str = "vanishing"
    gamma: float = 0.2
    max_states: int = 1000
    bandwidth: float | str = "median"
    target_acceptance: float = 0.234

    name: ClassVar[str] = "kameleon"

    def __post_init__(self):
        check_choice(self, "adaptation", ("vanishing", "freeze"))
        check_number(self, "gamma", 0)
        check_count(self, "max_states", 10)
        check_number(self, "target_acceptance", 0, 1)
        if self.bandwidth != "median" and not (
            is_number(self.bandwidth) and 0 < self.bandwidth < math.inf  # type: ignore[operator]
        ):
            kind = (
                ValueError
                if isinstance(self.bandwidth, str) or is_number(self.bandwidth)
                else TypeError
            )
            raise kind(f"bandwidth={self.bandwidth!r}: expected a positive number or 'median'")

    def _start(self, setup: SamplerSetup) -> AdaptingState:
        walkers = walkers_of(setup)
        rng = np.random.default_rng(setup.seed.spawn(1)[0])
        proposer = KameleonProposer(self, start_spread(setup.initial), rng)
        warmup = warmup_sweeps(setup, _WARMUP_SHARE)
        return AdaptingState(
            setup, walkers, [proposer], freeze=self.adaptation == "freeze", warmup=warmup
        )


class Subsample(NamedTuple):
    """What a Kameleon proposal depends on besides the state."""

    z: np.ndarray  # (n, d): states, divided by the scale
    scale: np.ndarray  # (d,)
    bandwidth: float
    unit: float  # ν at which R has the mean trace 2.38² over the subsample

    @classmethod
    def of(cls, x: np.ndarray, bandwidth: float | str) -> Subsample | None:
        """Return the subsample of states (n, d), or None if they do not differ enough."""
        spread = x.std(axis=0)
        scale = np.where(spread > _SPREAD_OF_ONE * np.abs(x).max(axis=0), spread, 1.0)
        z = x / scale
        width = float(np.median(pdist(z))) if bandwidth == "median" else float(bandwidth)
        if not width > 0:
            return None
        traces = [np.sum(gradients(y, z, width) ** 2) for y in z[:: max(len(z) // 100, 1)]]
        mean = float(np.mean(traces))
        return cls(z, scale, width, BEST_SCALE / math.sqrt(mean)) if mean > 0 else None

    def root(self, x: np.ndarray, gamma: float, factor: float) -> np.ndarray:
        """Return the Cholesky factor (d, d) of R at x (d,)."""
        nu = factor * self.unit
        return covariance_root(x / self.scale, self.z, bandwidth=self.bandwidth, gamma=gamma, nu=nu)


def gradients(y: np.ndarray, z: np.ndarray, bandwidth: float) -> np.ndarray:
    """Return (M_y H)ᵀ (n, d): twice the gradients of k(x, z_i) at x = y, minus their mean."""
    differences = z - y
    k = np.exp(-0.5 * np.sum(differences**2, axis=1) / bandwidth**2)
    rows = (2.0 / bandwidth**2) * k[:, None] * differences
    return rows - rows.mean(axis=0)


def covariance_root(
    y: np.ndarray, z: np.ndarray, *, bandwidth: float, gamma: float, nu: float
) -> np.ndarray:
    """Return the Cholesky factor (d, d) of R_y = γ² I + ν² M_y H M_yᵀ.

    H is a projection, so that M H Mᵀ = (M H)(M H)ᵀ.
    """
    rows = gradients(y, z, bandwidth)
    return np.linalg.cholesky(nu**2 * (rows.T @ rows) + gamma**2 * np.eye(len(y)))


def log_normal(step: np.ndarray, root: np.ndarray) -> float:
    """Return the log-density of N(0, root rootᵀ) at a step (d,), up to a constant."""
    white = solve_triangular(root, step, lower=True, check_finite=False)
    return -0.5 * float(white @ white) - float(np.sum(np.log(np.diag(root))))


class KameleonProposer:
    """See :class:`kmc.samplers.adapting.Proposer`."""

    def __init__(self, options: Kameleon, spread: np.ndarray, rng: np.random.Generator):
        dim = len(spread)
        self._options, self._spread, self._rng = options, spread, rng
        self._history = Reservoir(dim, options.max_states, rng)
        self._subsample: Subsample | None = None
        self._factor = RobbinsMonro(options.target_acceptance)
        self._next = float(_FIRST)

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """Propose a step from N(0, R_x), in the coordinates of the subsample.

        Before there is one, it is a random-walk step.
        """
        factor, subsample = self._factor.value, self._subsample
        if subsample is None:
            scale = factor * BEST_SCALE / math.sqrt(len(x))
            return Proposal(
                x + scale * self._spread * rng.standard_normal(len(x)), 0.0, _WALK, step_size=factor
            )
        gamma = self._options.gamma
        root = subsample.root(x, gamma, factor)
        step = root @ rng.standard_normal(len(x))
        position = x + subsample.scale * step
        back = subsample.root(position, gamma, factor)
        log_ratio = log_normal(step, back) - log_normal(step, root)
        return Proposal(position, log_ratio, _MOVE, step_size=factor)

    def learn(self, moved: Moved, sweep: int) -> None:
        """Tune ν; at the sweeps that are due, renew the subsample."""
        self._history.offer(moved.position)
        self._factor.learn(float(moved.stats["acceptance_rate"].mean()), sweep)
        if sweep >= self._next:
            self._next = max(_GROWTH * self._next, sweep + 1.0)
            if len(self._history) >= min(_LEAST * len(self._spread), self._options.max_states):
                self._renew()

    def facts(self) -> dict[str, Any]:
        """Return facts for the results' attributes."""
        subsample = self._subsample
        if subsample is None:
            return {"proposal_factor": self._factor.value}
        return {
            "proposal_factor": self._factor.value,
            "n_subsample": len(subsample.z),
            "bandwidth": subsample.bandwidth,
        }

    def _renew(self) -> None:
        found = Subsample.of(self._history.x.copy(), self._options.bandwidth)
        if found is not None:
            if self._subsample is None:
                self._factor.restart()
            self._subsample = found
