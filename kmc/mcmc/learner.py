"""What kernel HMC learns from its evaluations, and the points that it evaluates only in order to learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kmc.mcmc.base import MOVES
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.mixture_tuner import MixtureTuner, MoveProbabilities
from kmc.mcmc.probes import Pairs
from kmc.mcmc.proposal_mixture import SURROGATE_MOVES, ProposalMixture
from kmc.mcmc.schedule import Round
from kmc.mcmc.surrogate_trainer import SurrogateTrainer
from kmc.mcmc.surrogate_transition import InnerChainOptions
from kmc.mcmc.tempering import COLD, Tempering
from kmc.mcmc.user_gradient import GradientCheck, OccasionalGradient
from kmc.mcmc.walkers import start_spread
from kmc.surrogates import FitOptions

_RENEWAL = 40  # archive moves between renewals of the archive, until there is a surrogate; set by hand


class LearnerOptions(NamedTuple):
    """The options of the surrogate and of the moves on it; see :class:`kmc.KernelHMC`."""

    fit: FitOptions
    max_archive: int
    inner: InnerChainOptions  # their step size is chosen at each fit
    main_phase: MoveProbabilities


class Learner:
    """A surrogate and the mixture of moves on it, refitted and tuned round by round.

    Parameters
    ----------
    dim : int
    options : LearnerOptions
    rng : Generator
    noisy : bool
        Whether values are estimates.
    given : tuple of ndarray, optional
        Points (n, d) and values (n,) evaluated elsewhere.
    gradient : OccasionalGradient, optional
        The user's; the warm-ups of all modes share it.
    few_values : bool
        Whether fits have to do with hardly more values than a quadratic has terms.
    keeps_modes : bool
        Whether modes that the walkers have left remain in the archive of the moves.

    Attributes
    ----------
    trainer : SurrogateTrainer
        Has the history, and fits surrogates to it.
    tuner : MixtureTuner
        Tunes the moves on them.
    edge : float
        Depth beyond which hot walkers are pulled back.
    round : Round
        What has happened since the last fit.
    """

    def __init__(
        self,
        dim: int,
        options: LearnerOptions,
        *,
        rng: np.random.Generator,
        noisy: bool = False,
        given: tuple[np.ndarray, np.ndarray] | None = None,
        gradient: OccasionalGradient | None = None,
        few_values: bool = False,
        keeps_modes: bool = False,
    ):
        self.options, self.gradient, self._rng = options, gradient, rng
        self.trainer = SurrogateTrainer(
            dim,
            options.fit,
            max_archive=options.max_archive,
            rng=rng,
            noisy=noisy,
            given=given,
            with_gradients=gradient is not None,
            few_values=few_values,
            keeps_modes=keeps_modes,
        )
        self.tuner = MixtureTuner(self.trainer, options.inner, options.main_phase)
        self.edge = self.trainer.tempering_edge()
        self.round = Round()
        self._n_probes = self._n_surprises = 0
        self._probes = np.empty((0, dim))
        self._pairs: Pairs | None = None  # of close points, evaluated after the probes
        self._check: GradientCheck | None = None
        self._gradient_error = float("nan")

    @property
    def mixture(self) -> ProposalMixture:
        """The current mixture of moves."""
        return self.tuner.mixture

    def tempering(self, beta: float) -> Tempering:
        """What a walker at an inverse temperature moves on."""
        return COLD if beta == 1.0 else Tempering(self.trainer.top, float(beta), self.edge)

    # At the start

    def check_gradient(self, initial: np.ndarray, chains: int, seed: np.random.SeedSequence) -> None:
        """Ask for the points that a check of the gradients at start points (k, d) needs, one per chain at most."""
        gradients = self.trainer.history.gradients
        assert gradients is not None
        at_start = gradients[self.trainer.n_given :]
        known = np.flatnonzero(~np.isnan(at_start[:, 0]))[:chains]
        if len(known):
            rng = np.random.default_rng(seed.spawn(1)[0])
            self._check = GradientCheck(at_start[known], initial[known], spread=start_spread(initial), rng=rng)

    @property
    def check_points(self) -> np.ndarray:
        """Points (k, d) that are evaluated beside the first cloud."""
        return np.empty((0, self.trainer.dim)) if self._check is None else self._check.points

    def begin(self, x: np.ndarray, check_values: np.ndarray) -> None:
        """Use the first points (n, d) as states; the values (k,) are those of :attr:`check_points`."""
        self.trainer.begin(x)
        self.tuner.begin(x)
        if self._check is not None:
            self._gradient_error, self._check = self._check.warn(check_values), None

    # A sweep

    def choose_probes(self, rate: float, walkers: int) -> None:
        """Points beyond the edge of the data that this sweep evaluates, too; ``rate`` is per walker."""
        surrogate = self.mixture.surrogate
        if surrogate is not None:
            count = int(self._rng.binomial(walkers, rate))
            self._probes = self.trainer.probes(surrogate, count, self.edge)

    @property
    def further_points(self) -> np.ndarray:
        """Points (k, d) that a sweep evaluates beside its proposals: probes, and close points that tell roughness."""
        return self._probes if self._pairs is None else np.vstack([self._probes, self._pairs.close])

    def learn(self, proposed: np.ndarray, values: np.ndarray, *, with_gradients: bool) -> None:
        """Store the values (k,) of the proposals' points (n, d) and then of :attr:`further_points`.

        Also record how well the surrogate predicted them. A value of NaN belongs to another mode.
        """
        if self._pairs is not None:
            values = self._compare(self._pairs, values)
        points = np.vstack([proposed, self._probes])
        surrogate = self.mixture.surrogate
        known = ~np.isnan(values)
        n_proposed = int(known[: len(proposed)].sum())
        if not known.all():
            points, values = points[known], values[known]
        if surrogate is not None and len(points):
            predicted = surrogate.log_density(points)
            higher = self.trainer.heights(points, np.maximum(predicted, values))
            matters = self.trainer.top - higher < surrogate.edge
            self._n_surprises += self.round.note(values - predicted, matters, n_proposed)
            self._n_probes += len(values) - n_proposed
        self.record(points, values, with_gradients=with_gradients)

    def record(self, x: np.ndarray, values: np.ndarray, *, with_gradients: bool = True) -> None:
        """Add evaluations (n, d) to the history, with gradients where they help."""
        gradients = None
        if self.gradient is not None and with_gradients:
            gradients, rows = np.full(x.shape, np.nan), self.trainer.needs_gradient(x, values)
            gradients[rows] = self.gradient(x[rows])
        self.trainer.history.extend(x, values, gradients)

    def tally(self, proposals: Sequence[Proposal], betas: np.ndarray, acceptance: np.ndarray) -> None:
        """Record the acceptance (w,) of the walkers' proposals, made at inverse temperatures (w,)."""
        for beta, proposal, rate in zip(betas, proposals, acceptance, strict=True):
            if proposal.move >= len(MOVES):  # a move of the user's
                continue
            chains = self.round.cold if beta == 1.0 else self.round.hot
            (chains if proposal.move in SURROGATE_MOVES else self.round.archive).append(float(rate))

    def _compare(self, pairs: Pairs, values: np.ndarray) -> np.ndarray:
        """Take the values at the close points, and return the others."""
        surrogate, self._pairs = self.mixture.surrogate, None
        assert surrogate is not None
        others, close = np.split(values, [len(values) - len(pairs.close)])
        self.trainer.compare(pairs, close, surrogate)
        known = ~np.isnan(close)
        self.record(pairs.close[known], close[known])
        return others

    # Between sweeps

    def refit(self) -> None:
        """Fit a surrogate to all evaluations, if that is possible, and tune the moves on it."""
        self.tuner.refit()

    def tune_length(self) -> None:
        """Make inner chains long enough to forget their start."""
        self.tuner.tune_length()

    @property
    def archive_is_old(self) -> bool:
        """Whether there is no surrogate, and it is time to renew the archive of the moves without one."""
        return self.mixture.surrogate is None and len(self.round.archive) >= _RENEWAL

    def renew_archive(self) -> None:
        """Use recent states for archive moves, and begin a round."""
        self.tuner.renew_archive(self.round)
        self.round = Round()

    def seek_pairs(self) -> None:
        """Let the next sweep evaluate pairs of close points, if they can tell roughness from misfit."""
        self._pairs = self.trainer.close_pairs(self.mixture.surrogate)

    def next_round(self) -> None:
        """Tune the moves by what happened in this round, and begin another."""
        self.tuner.tune(self.round)
        self.edge = self.trainer.tempering_edge()
        self.round = Round(noise_sd=self.trainer.noise_sd)

    def finish(self) -> None:
        """Set the mixture of the main phase."""
        self._probes, self._pairs = self._probes[:0], None
        self.tuner.finish()

    def facts(self) -> dict[str, Any]:
        """For the results' attributes."""
        facts: dict[str, Any] = {
            "n_refits": self.trainer.n_fits,
            "n_probes": self._n_probes,
            "probe_surprises": self._n_surprises,
            "surrogate_settled_at": self.trainer.settled_at,
        }
        if self.gradient is not None:
            facts |= {
                "n_gradients": self.gradient.n_known,
                "n_gradients_missing": self.gradient.n_unknown,
                "gradient_error": self._gradient_error,
            }
        if self.trainer.n_given:
            facts["n_history"] = self.trainer.n_given
        return facts
