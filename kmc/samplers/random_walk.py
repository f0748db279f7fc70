"""Random-walk Metropolis: the baseline that needs only evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kmc.arrays import as_array
from kmc.checks import check_number, check_unused
from kmc.samplers.adapting import AdaptingState, Moved, RobbinsMonro, walkers_of, warmup_sweeps
from kmc.samplers.ask_tell import Startable
from kmc.samplers.base import MOVES, SamplerSetup
from kmc.samplers.metropolis import Proposal
from kmc.samplers.walkers import BEST_SCALE, start_spread

_MOVE = MOVES.index("random-walk")
_WARMUP_SHARE = 3  # warm-up has one in so many evaluations of the budget


@dataclass(frozen=True)
class RandomWalkMetropolis(Startable):
    """Gaussian random-walk Metropolis.

    Parameters
    ----------
    scale : float or ndarray of shape (d,), optional
        Standard deviations of the proposal. By default they are proportional to the spread of the
        start points, and one common factor is tuned in warm-up.
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
        check_unused(self, ("target_acceptance",), "with a given scale, which is not tuned")
        try:
            scale = as_array("scale", self.scale)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"scale={self.scale!r}: expected positive standard deviations"
            ) from error
        if not (np.all(np.isfinite(scale)) and np.all(scale > 0)):
            raise ValueError(f"scale={self.scale!r}: expected positive standard deviations")

    def _start(self, setup: SamplerSetup) -> AdaptingState:
        walkers, warmup = walkers_of(setup), warmup_sweeps(setup, _WARMUP_SHARE)
        if self.scale is None:
            proposer = GaussianSteps(start_spread(setup.initial), self.target_acceptance)
        else:
            scale = np.asarray(self.scale, float)
            if scale.shape not in ((), (setup.dim,)):
                raise ValueError(
                    f"scale has shape {scale.shape}: expected a number or shape ({setup.dim},)"
                )
            proposer = GaussianSteps(np.broadcast_to(scale, setup.dim), None)
        return AdaptingState(setup, walkers, [proposer], freeze=True, warmup=warmup)


class GaussianSteps:
    """x' = x + factor · sd · noise; see :class:`kmc.samplers.adapting.Proposer`.

    Parameters
    ----------
    sd : ndarray, shape (d,)
    target_acceptance : float or None
        To which the factor is tuned; None: it is 1.
    """

    def __init__(self, sd: np.ndarray, target_acceptance: float | None):
        self._root = np.diag(sd)
        self._tuning = None if target_acceptance is None else RobbinsMonro(target_acceptance)
        if self._tuning is not None:
            self._tuning.log_value = float(np.log(BEST_SCALE / np.sqrt(len(sd))))

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """Propose a step from x (d,)."""
        factor = self._factor
        return Proposal(
            x + (factor * self._root) @ rng.standard_normal(len(x)), 0.0, _MOVE, step_size=factor
        )

    def learn(self, moved: Moved, sweep: int) -> None:
        """Tune the factor."""
        if self._tuning is not None:
            self._tuning.learn(float(moved.stats["acceptance_rate"].mean()), sweep)

    def facts(self) -> dict[str, Any]:
        """Return facts for the results' attributes."""
        return {"proposal_factor": self._factor}

    @property
    def _factor(self) -> float:
        return 1.0 if self._tuning is None else float(np.exp(self._tuning.log_value))
