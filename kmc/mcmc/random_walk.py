"""Random-walk Metropolis, plain and adaptive: baselines that need only evaluations."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kmc.checks import as_array, check_choice, check_number
from kmc.mcmc.base import MOVES, SamplerSetup, Step
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.walkers import Walkers, best_starts, requested, start_spread

_MOVE = MOVES.index("random-walk")


@dataclass(frozen=True)
class RandomWalkMetropolis:
    """Gaussian random-walk Metropolis.

    Parameters
    ----------
    scale : float or ndarray of shape (d,), optional
        Standard deviations of the proposal. By default they are proportional to the spread of the start points, and one
        common factor is tuned in warm-up.
    target_acceptance : float
        The acceptance rate to which the factor is tuned.

    Examples
    --------
    >>> import kmc
    >>> kmc.RandomWalkMetropolis(scale=0.5).name
    'random-walk'
    """

    scale: float | np.ndarray | None = None
    target_acceptance: float = 0.234

    name: ClassVar[str] = "random-walk"

    def __post_init__(self):
        check_number(self, "target_acceptance", 0, 1)
        if self.scale is None:
            return
        try:
            scale = as_array("scale", self.scale)
        except (TypeError, ValueError) as error:
            raise TypeError(f"scale={self.scale!r}: expected positive standard deviations") from error
        if not (np.all(np.isfinite(scale)) and np.all(scale > 0)):
            raise ValueError(f"scale={self.scale!r}: expected positive standard deviations")

    def longest_warmup(self, dim: int, chains: int, draws: int, warmup: int | None) -> int:
        """Evaluations of warm-up, if nothing limits them."""
        return chains * (draws if warmup is None else warmup)

    def start(self, setup: SamplerSetup) -> GaussianWalk:
        """Begin a run; see :class:`kmc.mcmc.base.Sampler`."""
        if self.scale is None:
            return GaussianWalk(setup, _root_of_start(setup), tune=True, target_acceptance=self.target_acceptance)
        scale = np.asarray(self.scale, float)
        if scale.shape not in ((), (setup.dim,)):
            raise ValueError(f"scale has shape {scale.shape}: expected a number or shape ({setup.dim},)")
        return GaussianWalk(setup, np.diag(np.broadcast_to(scale, setup.dim)), tune=False)


@dataclass(frozen=True)
class AdaptiveMetropolis:
    """Adaptive Metropolis with a covariance learned from the pooled history of all chains.

    Haario, Saksman and Tamminen (2001), "An adaptive Metropolis algorithm", Bernoulli 7; the factor of the covariance
    follows a Robbins–Monro recursion on the acceptance rate (Andrieu and Thoms 2008, Statistics and Computing 18,
    algorithm 4).

    Parameters
    ----------
    adaptation : {"vanishing", "freeze"}
        "vanishing", the algorithm of the paper: adaptation continues with step sizes that tend to zero. "freeze": the
        proposal does not change after warm-up.
    target_acceptance : float

    Examples
    --------
    >>> import kmc
    >>> kmc.AdaptiveMetropolis().adaptation
    'vanishing'
    """

    adaptation: str = "vanishing"
    target_acceptance: float = 0.234

    name: ClassVar[str] = "adaptive-metropolis"

    def __post_init__(self):
        check_choice(self, "adaptation", ("vanishing", "freeze"))
        check_number(self, "target_acceptance", 0, 1)

    def longest_warmup(self, dim: int, chains: int, draws: int, warmup: int | None) -> int:
        """Evaluations of warm-up, if nothing limits them."""
        return chains * (draws if warmup is None else warmup)

    def start(self, setup: SamplerSetup) -> GaussianWalk:
        """Begin a run; see :class:`kmc.mcmc.base.Sampler`."""
        return GaussianWalk(
            setup,
            _root_of_start(setup),
            tune=True,
            learn_covariance=True,
            freeze=self.adaptation == "freeze",
            target_acceptance=self.target_acceptance,
        )


class GaussianWalk:
    """x' = x + factor · root · noise for every chain; see :class:`kmc.mcmc.base.SamplerState`."""

    def __init__(
        self,
        setup: SamplerSetup,
        root: np.ndarray,
        *,
        tune: bool,
        learn_covariance: bool = False,
        freeze: bool = True,
        target_acceptance: float = 0.234,
    ):
        self.setup = setup
        self.warming_up = True
        self._tune, self._learn_covariance, self._freeze = tune, learn_covariance, freeze
        self._target = target_acceptance
        self._root = root
        self._log_factor = float(np.log(2.38 / np.sqrt(setup.dim))) if tune else 0.0
        best = best_starts(setup.initial, setup.initial_log_density, setup.chains)
        rngs = [np.random.default_rng(seed) for seed in setup.seed.spawn(setup.chains)]
        self._walkers = Walkers(rngs, setup.initial[best], setup.initial_log_density[best])
        self._mean = self._walkers.x.mean(axis=0)
        self._covariance = root @ root.T
        self._warmup = _warmup_sweeps(setup)
        self._sweep = 0
        self._proposals: list[Proposal] = []
        self._end_of_warmup()

    def propose(self) -> np.ndarray:
        """One Gaussian step per chain."""
        root = np.exp(self._log_factor) * self._root
        self._proposals = [
            Proposal(x + root @ rng.standard_normal(len(x)), 0.0, _MOVE, step_size=float(np.exp(self._log_factor)))
            for x, rng in zip(self._walkers.x, self._walkers.rngs, strict=True)
        ]
        return requested(self._proposals, self.setup.dim)

    def advance(self, values: np.ndarray) -> Step:
        """Decide every step, and adapt in warm-up."""
        stats = self._walkers.decide(self._proposals, values)
        record = self._walkers.sweep(self.warming_up, stats, self.setup.chains)
        self._sweep += 1
        if self._tune and (self.warming_up or not self._freeze):
            self._adapt(float(stats["acceptance_rate"].mean()))
        self._end_of_warmup()
        return record

    def end_warmup(self) -> None:
        """End warm-up with the next sweep."""
        self._warmup = 0

    def report(self) -> dict[str, Any]:
        """Facts for the results' attributes."""
        return {
            "noisy": self.setup.noisy,
            "n_refits": 0,
            "proposal_factor": float(np.exp(self._log_factor)),
        }

    def _adapt(self, acceptance: float) -> None:
        # Step sizes of the recursions: t^-.6 for the factor, and for the moments 1/t with the first half of warm-up
        # forgotten in the limit (2/t), so that over-dispersed starts leave no trace.
        self._log_factor += (self._sweep + 1) ** -0.6 * (acceptance - self._target) * 2.0
        if not self._learn_covariance:
            return
        rate = min(2.0 / (self._sweep + 10), 0.5)
        deviations = self._walkers.x - self._mean
        self._mean = self._mean + rate * deviations.mean(axis=0)
        self._covariance = (1 - rate) * self._covariance + rate * (deviations.T @ deviations) / len(deviations)
        if self._sweep % 10 == 0:
            floor = 1e-10 * np.diag(np.diag(self._covariance)) + 1e-300 * np.eye(len(self._mean))
            self._root = np.linalg.cholesky(self._covariance + floor)

    def _end_of_warmup(self):
        if self.warming_up and self._sweep >= self._warmup:
            self.warming_up = False


def _warmup_sweeps(setup: SamplerSetup) -> int:
    """The user's number; by default the number of draws, or a third of the budget."""
    if setup.warmup is not None:
        return setup.warmup
    limits = []
    if setup.draws is not None:
        limits.append(setup.draws)
    if setup.max_evaluations is not None:
        limits.append(setup.max_evaluations // (3 * setup.chains))
    return min(limits, default=sys.maxsize)  # no limit: until the time for warm-up is over


def _root_of_start(setup: SamplerSetup) -> np.ndarray:
    return np.diag(start_spread(setup.initial))
