"""Kernel Hamiltonian Monte Carlo by rounds of learning: its options. It is to replace kmc.KernelHMC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from kmc.kernel_hmc.state import KernelHMCState, PhaseOptions
from kmc.mcmc.ask_tell import Startable
from kmc.mcmc.base import SamplerSetup
from kmc.mcmc.moves import Move
from kmc.mcmc.surrogate_transition import InnerChainOptions


@dataclass(frozen=True)
class LearnedHMC(Startable):
    """Hamiltonian dynamics on a learned surrogate, corrected by one true evaluation per draw.

    Parameters are those of :class:`kmc.KernelHMC` with the same names.

    Parameters
    ----------
    learning_share : float
        Largest share of the evaluations for learning.
    """

    learning_share: float = 0.6
    burn_in: int = 5
    archive_probability: float = 0.03
    tempered_probability: float = 0.05
    single_move_probability: float = 0.05
    mode_jump_probability: float = 0.05
    jump_probability: float = 0.15
    small_step_probability: float = 0.4
    trajectory_length: float = 2.5
    max_archive: int = 1000
    moves: Sequence[tuple[Move, float]] = ()

    name: ClassVar[str] = "kernel-hmc"
    _takes_history: ClassVar[bool] = True
    _keeps_proposals: ClassVar[bool] = True

    def _start(self, setup: SamplerSetup) -> KernelHMCState:
        inner = InnerChainOptions(0.3, self.trajectory_length, self.jump_probability, self.small_step_probability)
        return KernelHMCState(
            PhaseOptions(
                self.learning_share,
                self.burn_in,
                self.max_archive,
                inner,
                self.archive_probability,
                self.single_move_probability,
                self.tempered_probability,
                self.mode_jump_probability,
                self.moves,
            ),
            setup,
        )
