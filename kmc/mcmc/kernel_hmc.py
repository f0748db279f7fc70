"""Kernel Hamiltonian Monte Carlo, the default sampler: its options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from kmc.checks import check_choice, check_count, check_number, check_unused
from kmc.mcmc.ask_tell import Startable
from kmc.mcmc.base import SamplerSetup
from kmc.mcmc.kernel_hmc_state import KernelHMCState, PhaseOptions, cloud_size
from kmc.mcmc.learner import LearnerOptions
from kmc.mcmc.mixture_tuner import MoveProbabilities
from kmc.mcmc.moves import Move, as_moves
from kmc.mcmc.schedule import default_budget
from kmc.mcmc.surrogate_transition import InnerChainOptions
from kmc.mcmc.user_gradient import OccasionalGradient
from kmc.surrogates import FitOptions, values_needed


@dataclass(frozen=True)
class KernelHMC(Startable):
    """Hamiltonian dynamics on a kernel surrogate of the log-density, corrected by one true evaluation per draw.

    A proposal is the end of an inner chain: many Hamiltonian trajectories on the surrogate, which cost no evaluation.
    Warm-up learns the surrogate from the evaluations of walkers at several temperatures. Then it is frozen, and one
    walker per chain makes the draws. The defaults suit most posteriors.

    Parameters
    ----------
    adaptation : {"freeze", "vanishing"}
        Adaptation after warm-up. "freeze": none, so that the main phase is a Markov chain with the target as its
        stationary distribution. "vanishing": the surrogate is refitted after n, 1.25 n, 1.25² n, ... sweeps of the
        main phase, where n is ``first_refit``. The times are fixed in advance and the gaps grow: this is the setting of
        "Air Markov chain Monte Carlo" (Chimisov, Łatuszyński and Roberts 2018), whose laws of large numbers require a
        drift condition common to all the kernels; it is not checked.
    archive_probability : float
        Probability of a move that does not use the surrogate (differential evolution or snooker) in the main phase.
    tempered_probability : float
        Probability that an inner chain runs on a flattened surrogate s^b, b uniform on [1 / (1 + 2/sqrt(d)), 1].
    single_move_probability : float
        Probability that an inner chain has a single move.
    jump_probability, small_step_probability, trajectory_length : float
        For the moves of an inner chain: probability of an archive jump; probability that a trajectory has smaller
        steps; the longest integration time, in whitened coordinates.
    n_temperatures : int
        Number of temperatures in warm-up, and the smallest number of walkers there.
    probe_rate, main_probe_rate : float
        Probes beyond the edge of the data per walker and sweep, in warm-up and (with vanishing adaptation) after it.
    refit_growth : float
        Factor of the number of evaluations between refits in warm-up.
    min_warmup_evaluations : int
        Warm-up does not end before this many evaluations, unless the budget is less than three times as many.
    post_freeze_burn_in : int
        Sweeps between the freeze and the first kept draw, with up to 16 chains; more chains make as many evaluations,
        but at least five sweeps.
    first_refit : int
        Sweeps before the first refit of the main phase, with vanishing adaptation.
    max_archive : int
        States kept for the archive moves.
    search_share : float
        Part of the budget for local searches for further modes before the freeze; 0: no search. There is no search
        with noisy values, with vanishing adaptation, or if the user fixes the length of warm-up.
    min_search_budget : int
        Smallest budget of evaluations for such a search: smaller ones do not suffice to learn several modes.
    fit : FitOptions
        The options of the surrogate.
    moves : sequence of (move, probability)
        Further moves in all phases, each with the probability of a proposal being its own; the other proposals are the
        sampler's. See :class:`kmc.moves.Move` for writing one, and :func:`kmc.testing.check_move` for testing it.
    gradients : callable, optional
        For a model whose gradient is available at some points: a function of the unconstrained vector x (d,) that
        returns the gradient of the log-density that is sampled, an array (d,), or None or NaN where there is none. The
        surrogate is then fitted to gradients, too. See the notes.

    Raises
    ------
    TypeError, ValueError
        An invalid option.

    Warns
    -----
    KmcWarning
        ``gradients`` differs from differences of the log-density at the start points, two evaluations each.

    See Also
    --------
    kmc.ScoreHMC : the published algorithm, with trajectories along the gradient of a score estimator of your choice.

    Notes
    -----
    ``gradients`` is called in warm-up only, at points that were evaluated, and in this process, whatever the executor:
    at each point that is not deep below the highest value, until there are as many gradients as a fit uses,
    ``fit.max_values`` components (200 gradients in ten dimensions). A gradient counts as d values for the first fit,
    which so comes earlier. Draws are right for any gradient, since each is accepted by the log-density alone; a wrong
    one makes the surrogate useless. The attributes ``n_gradients``, ``n_gradients_missing`` and ``gradient_error`` of
    the result have the numbers of calls that returned a gradient and that did not, and the error at the start.

    Examples
    --------
    >>> import kmc
    >>> kmc.KernelHMC(archive_probability=0.1).adaptation
    'freeze'
    >>> sampler = kmc.KernelHMC(moves=[(kmc.moves.Independence(), 0.1), (kmc.moves.Snooker(), 0.05)])

    A gradient that is available at some points:

    >>> sampler = kmc.KernelHMC(gradients=lambda x: -x if x[0] > 0 else None)
    >>> idata = kmc.sample(lambda x: -0.5 * x @ x, dim=4, sampler=sampler, max_evaluations=500, seed=1, progress=False)
    >>> bool(0 < idata.attrs["n_gradients"] < idata.attrs["n_evaluations"])
    True
    """

    adaptation: str = "freeze"
    archive_probability: float = 0.06
    tempered_probability: float = 0.1
    single_move_probability: float = 0.1
    jump_probability: float = 0.15
    small_step_probability: float = 0.4
    trajectory_length: float = 2.5
    n_temperatures: int = 4
    probe_rate: float = 0.12
    main_probe_rate: float = 0.03
    refit_growth: float = 1.2
    min_warmup_evaluations: int = 1500
    post_freeze_burn_in: int = 15
    first_refit: int = 100
    max_archive: int = 1000
    search_share: float = 0.1
    min_search_budget: int = 4000
    fit: FitOptions = field(default_factory=FitOptions)
    moves: Sequence[tuple[Move, float]] = ()
    gradients: Callable[[np.ndarray], Any] | None = None

    name: ClassVar[str] = "kernel-hmc"
    _takes_history: ClassVar[bool] = True
    _keeps_proposals: ClassVar[bool] = True

    def __post_init__(self):
        check_choice(self, "adaptation", ("freeze", "vanishing"))
        check_number(self, "archive_probability", 0, 1, "(]")  # never 0: a wrong surrogate could trap a chain
        for share in (
            "tempered_probability",
            "single_move_probability",
            "jump_probability",
            "small_step_probability",
            "probe_rate",
            "main_probe_rate",
            "search_share",
        ):
            check_number(self, share, 0, 1, "[]")
        check_number(self, "trajectory_length", 0)
        check_number(self, "refit_growth", 1)
        for count in ("n_temperatures", "min_warmup_evaluations", "first_refit", "min_search_budget"):
            check_count(self, count, 1)
        check_count(self, "post_freeze_burn_in", 0)
        check_count(self, "max_archive", 10)
        if self.adaptation == "freeze":
            check_unused(self, ("first_refit", "main_probe_rate"), "with adaptation='freeze'")
        if not isinstance(self.fit, FitOptions):
            raise TypeError(f"fit={self.fit!r}: expected kmc.surrogates.FitOptions(...)")
        object.__setattr__(self, "moves", as_moves(self.moves))
        if self.gradients is not None and not callable(self.gradients):
            raise TypeError(
                f"gradients={self.gradients!r}: expected None, or a function of x (d,) that returns the gradient of "
                "the log-density, (d,), or None where it is not available"
            )

    def _start(self, setup: SamplerSetup) -> KernelHMCState:
        if self.gradients is not None and setup.noisy:
            raise ValueError("noisy=True: gradients are for exact log-densities; leave gradients out")
        return KernelHMCState(
            PhaseOptions(**{name: getattr(self, name) for name in PhaseOptions._fields}),
            LearnerOptions(
                self.fit,
                self.max_archive,
                InnerChainOptions(0.0, self.trajectory_length, self.jump_probability, self.small_step_probability),
                MoveProbabilities(self.archive_probability, self.single_move_probability, self.tempered_probability),
            ),
            setup,
            gradient=None if self.gradients is None else OccasionalGradient(self.gradients),
        )

    def _longest_warmup(self, dim: int, chains: int, draws: int, warmup: int | None) -> int:
        """Approximate evaluations of the longest warm-up, if nothing limits them."""
        walkers = max(chains, self.n_temperatures)
        if warmup is not None:
            return int(warmup * walkers * (1 + self.probe_rate)) + cloud_size(walkers, dim)
        budget = default_budget(
            first_fit=values_needed(dim), earliest=self.min_warmup_evaluations, draws=draws, chains=chains
        )
        explore = budget // 2
        return explore + self.post_freeze_burn_in * chains
