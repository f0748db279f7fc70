"""Kernel HMC's proposal mixture and its adaptation; no other object replaces the mixture."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kmc.mcmc.proposal_mixture import ProposalMixture
from kmc.mcmc.schedule import Round
from kmc.mcmc.surrogate_trainer import SurrogateTrainer
from kmc.mcmc.surrogate_transition import InnerChainOptions

# Tuned after each round of warm-up. Set by hand.
_FIRST_STEP = 0.1  # step size of leapfrog, until it is chosen with a surrogate
_FIRST_LENGTH = 4  # trajectories of the longest inner chain
_LONGER, _SHORTER = 1.6, 0.6  # factors on that length ...
_HIGH, _LOW = 0.5, 0.3  # ... if acceptance is above or below this
_LENGTHS = 1.0, 50.0  # its range
_ARCHIVE = 0.1  # probability of an archive move in warm-up ...
_ARCHIVE_IF_LOW = 0.5  # ... and if acceptance is low
_ARCHIVE_ACCEPTANCE = 0.25  # target acceptance of archive moves, for their scale
_SCALE_FACTORS = 0.6, 1.5  # range of the factor on the scale in one round
_SCALES = 0.05, 2.0  # its range


class MoveProbabilities(NamedTuple):
    """The kinds of moves of the main phase; see :class:`kmc.KernelHMC`."""

    archive: float
    single_move: float
    tempered: float


class MixtureTuner:
    """The mixture of the walkers' moves and its adaptation.

    Parameters
    ----------
    trainer : SurrogateTrainer
        Fits the surrogates.
    inner : InnerChainOptions
        Options of inner chains; the step size is chosen at each fit.
    main_phase : MoveProbabilities

    Attributes
    ----------
    mixture : ProposalMixture
        At first only archive moves.
    """

    def __init__(self, trainer: SurrogateTrainer, inner: InnerChainOptions, main_phase: MoveProbabilities):
        self._trainer, self._main_phase = trainer, main_phase
        self._longest = float(_FIRST_LENGTH)
        self.mixture = ProposalMixture(
            surrogate=None,
            archive=np.empty((0, trainer.dim)),
            archive_z=np.empty((0, trainer.dim)),
            archive_probability=1.0,
            archive_scale=1.0,
            inner=inner._replace(step_size=_FIRST_STEP),
            shortest_chain=1,
            longest_chain=_FIRST_LENGTH,
            single_move_probability=0.0,
            tempered_probability=0.0,
        )

    def begin(self, archive: np.ndarray) -> None:
        """Use the first points (n, d) for archive moves."""
        self._change(archive=archive)

    def refit(self) -> None:
        """Fit the surrogate to all evaluations, if that is possible, and tune the moves on it."""
        fit = self._trainer.fit(self.mixture)
        if fit is not None:
            self._change(**fit._asdict())

    def renew_archive(self, last: Round) -> None:
        """Use recent states for archive moves while there is no surrogate."""
        self._change(archive=self._trainer.states())
        self._tune_scale(last)

    def tune(self, last: Round) -> None:
        """Set lengths and probabilities by the acceptance of a round of warm-up."""
        acceptance = last.acceptance()
        if acceptance > _HIGH:
            self._longest = min(_LONGER * self._longest, _LENGTHS[1])
        elif acceptance < _LOW:
            self._longest = max(_SHORTER * self._longest, _LENGTHS[0])
        self._tune_scale(last)
        probability = _ARCHIVE_IF_LOW if acceptance < _LOW else _ARCHIVE
        self._change(archive_probability=probability, longest_chain=int(self._longest))

    def tune_length(self) -> None:
        """Make inner chains long enough to forget their start."""
        longest = self._trainer.inner_chain_length(self.mixture)
        if longest is not None:
            self._change(shortest_chain=longest // 2, longest_chain=longest)

    def finish(self) -> None:
        """Set the mixture of the main phase."""
        self.tune_length()
        archive, single_move, tempered = self._main_phase
        self._change(archive_probability=archive, single_move_probability=single_move, tempered_probability=tempered)

    def _tune_scale(self, last: Round) -> None:
        if last.archive:
            factor = np.clip(last.served(last.archive) / _ARCHIVE_ACCEPTANCE, *_SCALE_FACTORS)
            self._change(archive_scale=float(np.clip(self.mixture.archive_scale * factor, *_SCALES)))

    def _change(self, **fields: Any) -> None:
        self.mixture = self.mixture._replace(**fields)
