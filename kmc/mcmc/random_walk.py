"""Random-walk Metropolis: the baseline that needs only evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kmc.checks import as_array, check_number
from kmc.mcmc.adapting import warmup_sweeps
from kmc.mcmc.ask_tell import Startable
from kmc.mcmc.base import MOVES, SamplerSetup, Step
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.walkers import Walkers, best_starts, requested, start_spread

_MOVE = MOVES.index("random-walk")
_WARMUP_SHARE = 3  # warm-up has one in so many evaluations of the budget


@dataclass(frozen=True)
class RandomWalkMetropolis(Startable):
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

    def _start(self, setup: SamplerSetup) -> GaussianWalk:
        if self.scale is None:
            return GaussianWalk(setup, _root_of_start(setup), tune=True, target_acceptance=self.target_acceptance)
        scale = np.asarray(self.scale, float)
        if scale.shape not in ((), (setup.dim,)):
            raise ValueError(f"scale has shape {scale.shape}: expected a number or shape ({setup.dim},)")
        return GaussianWalk(setup, np.diag(np.broadcast_to(scale, setup.dim)), tune=False)


class GaussianWalk:
    """x' = x + factor · root · noise for every chain; see :class:`kmc.mcmc.base.SamplerState`."""

    def __init__(
        self,
        setup: SamplerSetup,
        root: np.ndarray,
        *,
        tune: bool,
        target_acceptance: float = 0.234,
    ):
        self.setup = setup
        self.warming_up = True
        self._tune, self._target = tune, target_acceptance
        self._root = root
        self._log_factor = float(np.log(2.38 / np.sqrt(setup.dim))) if tune else 0.0
        best = best_starts(setup.initial, setup.initial_log_density, setup.chains)
        rngs = [np.random.default_rng(seed) for seed in setup.seed.spawn(setup.chains)]
        self.walkers = Walkers(rngs, setup.initial[best], setup.initial_log_density[best])
        self._warmup = warmup_sweeps(setup, _WARMUP_SHARE)
        self._sweep = 0
        self._proposals: list[Proposal] = []
        self._end_of_warmup()

    def propose(self) -> np.ndarray:
        """One Gaussian step per chain."""
        root = np.exp(self._log_factor) * self._root
        self._proposals = [
            Proposal(x + root @ rng.standard_normal(len(x)), 0.0, _MOVE, step_size=float(np.exp(self._log_factor)))
            for x, rng in zip(self.walkers.x, self.walkers.rngs, strict=True)
        ]
        return requested(self._proposals, self.setup.dim)

    def advance(self, values: np.ndarray) -> Step:
        """Decide every step, and adapt in warm-up."""
        stats = self.walkers.decide(self._proposals, values)
        record = self.walkers.sweep(self.warming_up, stats, self.setup.chains)
        self._sweep += 1
        if self._tune and self.warming_up:
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
        """A Robbins–Monro recursion with step sizes that decrease as t^-.6."""
        self._log_factor += (self._sweep + 1) ** -0.6 * (acceptance - self._target) * 2.0

    def _end_of_warmup(self):
        if self.warming_up and self._sweep >= self._warmup:
            self.warming_up = False


def _root_of_start(setup: SamplerSetup) -> np.ndarray:
    return np.diag(start_spread(setup.initial))
