"""What a sampler is: options that start a process, and a process that asks for evaluations.

A sampler's *options* are a frozen dataclass (:class:`kmc.KernelHMC`, ...). ``start`` turns them into a *process*,
which owns the chains' states and nothing else owns them. One sweep moves every chain once: ``propose`` names the
points whose true log-density is needed, ``advance`` takes the values and says what happened. The process never calls
the target, so that the caller decides where evaluations run, counts them and can stop between any two sweeps.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

MOVES = ("random-walk", "differential-evolution", "snooker", "surrogate", "tempered-surrogate")
"""Names of the kinds of move; a draw's ``move`` statistic is an index into this tuple."""


class Problem(NamedTuple):
    """What a process is told about the run when it starts."""

    dim: int
    chains: int
    initial: np.ndarray  # (k, d), k >= chains: where to start, over-dispersed if possible
    initial_log_density: np.ndarray  # (k,): finite at least once
    draws: int | None  # per chain, after warm-up; None: as many as the evaluations allow
    warmup: int | None  # sweeps of warm-up; None: the sampler decides
    max_evaluations: int | None
    seed: np.random.SeedSequence
    noisy: bool = False  # the log-densities are those of unbiased estimates: a state keeps its own
    # Points (n, d) and values (n,) that were evaluated elsewhere, as far as anyone knows: a surrogate may be fitted to
    # them, and no state may have its value from them.
    history: tuple[np.ndarray, np.ndarray] | None = None


class Sweep(NamedTuple):
    """One draw of every chain."""

    warmup: bool
    position: np.ndarray  # (chains, d)
    log_density: np.ndarray  # (chains,)
    stats: dict[str, np.ndarray]  # (chains,) each; see STATS


STATS: dict[str, type] = {
    "acceptance_rate": np.float64,  # the probability with which the proposal was to be accepted
    "accepted": np.bool_,
    "diverging": np.bool_,
    "n_steps": np.int32,  # leapfrog steps on the surrogate
    "step_size": np.float64,
    "energy": np.float64,  # Hamiltonian on the surrogate after the last trajectory; -log density for other moves
    "n_evaluations": np.int8,  # true evaluations that this draw cost
    "move": np.int8,  # index into MOVES
    "inverse_temperature": np.float64,  # 1 except for tempered chains in warm-up
}


class Process(Protocol):
    """A sampler at work."""

    warming_up: bool

    def propose(self) -> np.ndarray:
        """Points (k, d), k >= 0, whose log-density is needed to finish the sweep."""

    def advance(self, values: np.ndarray) -> Sweep | None:
        """Take log p at those points, shape (k,). None while the process is still looking around its start."""

    def end_warmup(self) -> None:
        """Be ready to draw as soon as possible: the time for warm-up is over. More calls change nothing."""

    def report(self) -> dict[str, Any]:
        """Plain facts for the results' attributes (number of refits, what the probes found, ...)."""


class Sampler(Protocol):
    """Options of a sampling algorithm."""

    @property
    def name(self) -> str:
        """As in ``kmc.sample(sampler=name)``."""

    def start(self, problem: Problem) -> Process:
        """Check the options against the problem and make the process."""
