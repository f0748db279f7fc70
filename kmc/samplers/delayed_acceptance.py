"""Delayed acceptance: proposals that a learned density rejects are not evaluated.

Christen and Fox (2005), "Markov chain Monte Carlo using an approximation", Journal of Computational
and Graphical Statistics 14. A proposal x' of a sampler with density q is first accepted by the
learned density s with probability

    min(1, s(x') q(x | x') / (s(x) q(x' | x))),

and only then evaluated, and accepted with probability min(1, p(x') s(x) / (p(x) s(x'))): together a
reversible chain for the target p, however wrong s is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from kmc.checks import check_count
from kmc.samplers.adapting import AdaptingState, DensityLearner, Moved, Proposer
from kmc.samplers.adaptive_metropolis import AdaptiveMetropolis
from kmc.samplers.ask_tell import Startable
from kmc.samplers.base import SamplerSetup
from kmc.samplers.kameleon import Kameleon
from kmc.samplers.metropolis import Proposal
from kmc.samplers.score_field import GradientEstimator
from kmc.samplers.score_fitter import check_estimator

# probability that a proposal is not screened: a learned density of zero must not trap a chain
_OPEN = 0.05


@dataclass(frozen=True)
class DelayedAcceptance(Startable):
    """A known sampler with fewer evaluations: a learned density rejects bad proposals beforehand.

    Parameters
    ----------
    sampler : AdaptiveMetropolis or Kameleon
        Makes the proposals. ``kmc.AdaptiveMetropolis(moves=("random-walk",))`` is a random walk.
    estimator : estimator, optional
        An object with ``fit(X)``, ``gradient(X)`` and ``log_density(X)``, such as
        ``kmc.scores.NystromKEF()``, fitted to past states. By default the surrogate of
        :class:`kmc.KernelHMC`, fitted to all evaluated log-densities.
    max_states : int
        Largest number of past states to which an estimator is fitted.

    Raises
    ------
    TypeError, ValueError
        An invalid option.

    See Also
    --------
    kmc.KernelHMC : many steps on a surrogate for each evaluation.

    Notes
    -----
    The algorithm is that of Christen and Fox [1]_, with the adaptation of ``sampler``. A sweep
    makes one proposal per chain, and evaluates those that the learned density accepts: draws are
    more than evaluations, and each is worth as much as a draw of ``sampler``, if the learned
    density is good. One proposal in twenty is evaluated in any case.

    References
    ----------
    .. [1] Christen and Fox (2005), "Markov chain Monte Carlo using an approximation", Journal of
       Computational and Graphical Statistics 14.

    Examples
    --------
    >>> import kmc
    >>> kmc.DelayedAcceptance(kmc.AdaptiveMetropolis(moves=("random-walk",))).sampler.moves
    ('random-walk',)
    """

    sampler: AdaptiveMetropolis | Kameleon = field(default_factory=AdaptiveMetropolis)
    estimator: GradientEstimator | None = None
    max_states: int = 1000

    name: ClassVar[str] = "delayed-acceptance"

    def __post_init__(self):
        sampler: Any = self.sampler
        if not isinstance(sampler, (AdaptiveMetropolis, Kameleon)):
            raise TypeError(
                f"sampler={sampler!r}: expected kmc.AdaptiveMetropolis() or kmc.Kameleon()"
            )
        check_count(self, "max_states", 10)
        if self.estimator is not None:
            check_estimator(self.estimator, False)
            if not callable(getattr(self.estimator, "log_density", None)):
                raise TypeError(
                    f"estimator={self.estimator!r} has no method log_density, by which proposals "
                    f"are rejected"
                )

    def _longest_warmup(self, dim: int, chains: int, draws: int, warmup: int | None) -> int:
        """Return the evaluations of warm-up, if nothing limits them."""
        return self.sampler._longest_warmup(dim, chains, draws, warmup)

    def _start(self, setup: SamplerSetup) -> AdaptingState:
        def screened(proposer: Proposer) -> Proposer:
            learner = DensityLearner(
                self.estimator,
                dim=setup.dim,
                max_states=self.max_states,
                noisy=setup.noisy,
                rng=np.random.default_rng(setup.seed.spawn(1)[0]),
            )
            return ScreenedProposer(proposer, learner)

        state = self.sampler._start(setup)
        state.wrap(screened)
        return state


class ScreenedProposer:
    """See :class:`kmc.samplers.adapting.Proposer`."""

    def __init__(self, proposer: Proposer, learner: DensityLearner):
        self._proposer, self._learner = proposer, learner

    def propose(self, rng: np.random.Generator, x: np.ndarray) -> Proposal:
        """Return a proposal that the learned density accepts; otherwise one that does not move.

        One proposal in twenty is returned without this test, and all of them before the first fit.
        """
        proposal = self._proposer.propose(rng, x)
        learned = self._learner.learned
        if learned is None or not proposal.moved or rng.random() < _OPEN:
            return proposal
        gain = learned.log_density(proposal.position) - learned.log_density(x)
        first = gain + proposal.log_ratio
        uniform = rng.random()
        if not uniform < math.exp(min(first, 0.0)):  # also if it is NaN
            return proposal._replace(position=x, log_ratio=0.0, moved=False)
        return proposal._replace(log_ratio=-gain)

    def learn(self, moved: Moved, sweep: int) -> None:
        """Adapt the proposals to the acceptance of both stages, and refit if it is due."""
        self._proposer.learn(moved, sweep)
        self._learner.learn(moved, sweep)

    def facts(self) -> dict[str, Any]:
        """Return facts for the results' attributes."""
        return {**self._proposer.facts(), **self._learner.facts()}
