"""The interface of a sampler: options, and the state of a run, which requests evaluations.

A sampler's *options* are a frozen dataclass (:class:`kmc.KernelHMC`, ...). ``start`` turns them
into a *state* (:class:`SamplerState`), which alone holds the positions of the chains. One sweep
moves every chain once: ``propose`` returns the points whose true log-density is needed, ``advance``
takes the values and returns the step. The state never calls the target, so that the caller decides
where evaluations run, counts them and can stop between any two sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from kmc.checks import as_count, as_number
from kmc.surrogate.density import Density
from kmc.surrogate.emulator.structure import Approximation, Structure
from kmc.surrogate.known import KnownPart

MOVES = (
    "random-walk",
    "differential-evolution",
    "snooker",
    "surrogate",
    "tempered-surrogate",
    "independence",
    "kameleon",
    "langevin",
    "mode-jump",
)
"""Names of the kinds of move; a draw's ``move`` statistic is an index into this tuple."""


class SamplerSetup(NamedTuple):
    """What a sampler gets to know about the run at its start."""

    dim: int
    chains: int
    initial: np.ndarray  # (k, d), k >= chains: start points, over-dispersed if possible
    initial_log_density: np.ndarray  # (k,): finite at least once
    draws: int | None  # per chain, after warm-up; None: as many as the evaluations allow
    warmup: int | None  # sweeps of warm-up; None: the sampler decides
    max_evaluations: int | None
    seed: np.random.SeedSequence
    noisy: bool = False  # the log-densities are those of unbiased estimates: a state keeps its own
    # Points (n, d) and values (n,) that were evaluated elsewhere, presumably of the same function:
    # a surrogate may be fitted to them, but no state may use their values. With them, outputs (n,
    # k) of a simulator, or None.
    history: tuple[np.ndarray, np.ndarray, np.ndarray | None] | None = None
    # Of a model with a simulator, for samplers that learn its outputs: what is known, and outputs
    # (k, n) at the starts.
    structure: Structure | None = None
    initial_outputs: np.ndarray | None = None
    # a cheap simulator, which may be called at any point
    approximation: Approximation | None = None
    known: KnownPart | None = None  # what is added to the user's function
    # (k,): of the start points, Jacobians included, for :class:`kmc.Tempered`, if the model has it
    # apart.
    initial_log_prior: np.ndarray | None = None


class Proposed(NamedTuple):
    """The points that a sweep evaluated for each chain; an unmoved proposal is the state itself."""

    position: np.ndarray  # (chains, d)
    log_density: np.ndarray  # (chains,)


class Step(NamedTuple):
    """One draw of every chain."""

    warmup: bool
    position: np.ndarray  # (chains, d)
    log_density: np.ndarray  # (chains,)
    # (chains,) each; those of STATS, and any of FURTHER_STATS, (chains, ...)
    stats: dict[str, np.ndarray]
    proposed: Proposed | None = None  # None if the sampler does not report it
    # states (m, d), (m,) that are no draws, but that chains may return to
    others: Proposed | None = None


STATS: dict[str, type] = {
    "acceptance_rate": np.float64,  # acceptance probability of the proposal
    "accepted": np.bool_,
    "diverging": np.bool_,
    "n_steps": np.int32,  # leapfrog steps on the surrogate
    "step_size": np.float64,
    # Hamiltonian on the surrogate after the last trajectory; -log density for other moves
    "energy": np.float64,
    "n_evaluations": np.int32,  # true evaluations that this draw cost
    "move": np.int8,  # index into MOVES, or into the sampler's own ``moves``
}

FURTHER_STATS: dict[str, type] = {
    # of parallel tempering: mean acceptance probability of the swaps offered in a sweep
    "swap_rate": np.float64,
    # "lp" of named parameters: without the log-Jacobian, which "lp" includes
    "constrained_lp": np.float64,
    # (chains, temperatures): what is tempered, log p - log π, at each temperature
    "tempered_log_density": np.float64,
}
"""Statistics that only some samplers or models have."""


class SamplerState(Protocol):
    """A sampler in a run: ``propose`` requests evaluations, ``advance`` receives their values."""

    warming_up: bool

    def propose(self) -> np.ndarray:
        """Return the points (k, d), k >= 0, whose log-density is needed to finish the sweep."""

    def advance(self, values: np.ndarray) -> Step | None:
        """Take log p at those points, shape (k,), and return the step.

        None if no draw was made: around the start, or if a move takes several sweeps. The state of
        :class:`kmc.Tempered` also gets ``log_prior=``, an array (k,), if the model has its prior
        apart.
        """

    def end_warmup(self) -> None:
        """Be ready to draw as soon as possible: the time for warm-up is over.

        It is called in warm-up only. Repeated calls change nothing.
        """

    def report(self) -> dict[str, Any]:
        """Return facts for the results' attributes (number of fits, surrogate's error, ...)."""


@runtime_checkable
class SurrogateState(Protocol):
    """What a sampler's state may have besides: a surrogate, learned from evaluations."""

    @property
    def density(self) -> Density | None:
        """The frozen surrogate's density, from which proposals come; None before the freeze."""

    @property
    def evaluated(self) -> tuple[np.ndarray, np.ndarray]:
        """Points (n, d) and values (n,) to which the surrogate was fitted."""

    @property
    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Points (n, d) and values (n,) that were evaluated, too, and not learned from."""

    @property
    def learned_outputs(self) -> np.ndarray | None:
        """Outputs (n, k) of a simulator where the fit is; None without one.

        Rows are NaN where outputs are not known.
        """


@runtime_checkable
class Sampler(Protocol):
    """Options of a sampling algorithm.

    Any object with these two members can be passed to :func:`kmc.sample`; see also
    :class:`NamedMoves`.
    """

    @property
    def name(self) -> str:
        """As in ``kmc.sample(sampler=name)``."""

    def start(self, setup: SamplerSetup) -> SamplerState:
        """Check the options against the setup, and make the state."""


@runtime_checkable
class NamedMoves(Protocol):
    """What a sampler's options from outside the package may have besides: names of its moves.

    The names have no spaces. ``move`` in a step's ``stats`` is then an index into them.
    """

    moves: tuple[str, ...]


class Traits(NamedTuple):
    """What a sampler can use or gives besides log-densities."""

    history: bool = False  # existing evaluations help
    outputs: bool = False  # its state's ``advance`` takes ``outputs=`` (k, n) of a simulator
    # its state's ``advance`` takes ``log_prior=`` (k,), which is not tempered
    log_prior: bool = False
    # a run keeps the proposals of its draws, for the groups of a frozen surrogate
    proposals: bool = False
    moves: tuple[str, ...] | None = None  # names of its moves, if they are not MOVES


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of a run that its sampler gets, with checked numbers; see :func:`kmc.sample`.

    Attributes
    ----------
    sampler : Sampler
        Options of an algorithm.
    initial : ndarray, shape (k, d), or None
        Unconstrained start points, k >= chains.
    draws, warmup, max_evaluations : int or None
    chains : int
    seed : SeedSequence
    """

    sampler: Sampler
    initial: np.ndarray | None
    draws: int | None
    warmup: int | None
    chains: int
    max_evaluations: int | None
    seed: np.random.SeedSequence

    def __post_init__(self) -> None:
        __tracebackhide__ = True
        object.__setattr__(self, "chains", as_number("chains", self.chains, 1))
        object.__setattr__(self, "draws", as_count("draws", self.draws, 1))
        object.__setattr__(self, "warmup", as_count("warmup", self.warmup, 0))
        object.__setattr__(
            self, "max_evaluations", as_count("max_evaluations", self.max_evaluations, 1)
        )
