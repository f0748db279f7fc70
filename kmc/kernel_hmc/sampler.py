"""Kernel Hamiltonian Monte Carlo, the default sampler: its options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kmc.checks import check_count, check_number
from kmc.kernel_hmc.state import KernelHMCState, PhaseOptions, longest_learning
from kmc.kernel_hmc.user_gradient import OccasionalGradient
from kmc.samplers.ask_tell import Startable
from kmc.samplers.base import SamplerSetup, Traits
from kmc.samplers.moves import Move, as_moves, names_of


@dataclass(frozen=True)
class KernelHMC(Startable):
    """Hamiltonian dynamics on a learned surrogate of the log-density.

    It is corrected by one true evaluation per draw. Learning is rounds of one loop: a
    Gaussian-process regression is fitted to all evaluations, many chains sample it at several
    powers, and a batch of points is evaluated where it is uncertain and the density is not small.
    When the predictions are so good that more of them would not pay, the surrogate is frozen. Then
    a proposal is the end of an inner chain: many Hamiltonian trajectories on the surrogate, which
    cost no evaluation. The defaults suit most posteriors.

    Parameters
    ----------
    learning_share : float
        Largest share of the evaluations for learning, if the length of warm-up is not given. A run
        that leaves fewer than a hundred for draws may use all of them, for :func:`kmc.expectations`
        then answers from the surrogate.
    burn_in : int
        Sweeps between the freeze and the first kept draw.
    archive_probability : float
        Probability of a move that does not use the surrogate (differential evolution or snooker).
    tempered_probability : float
        Probability that an inner chain runs on a flattened surrogate s^b, b uniform on [1 / (1 +
        2/sqrt(d)), 1].
    mode_jump_probability : float
        Probability of a jump between modes, if the surrogate has several.
    moves : sequence of (move, probability)
        Further moves of the main phase, each with the probability of a proposal being its own; the
        other proposals are the sampler's. See :class:`kmc.moves.Move` for writing one, and
        :func:`kmc.testing.check_move` for testing it.
    gradients : callable, optional
        For a model whose gradient is available at some points: a function of the unconstrained
        vector x (d,) that returns the gradient of the log-density that is sampled, an array (d,),
        or None or NaN where there is none. The surrogate is then fitted to gradients, too. See the
        notes.

    Raises
    ------
    TypeError, ValueError
        An invalid option.

    Warns
    -----
    KmcWarning
        ``gradients`` differs from differences of the log-density at the start points, two
        evaluations each.

    See Also
    --------
    kmc.ScoreHMC : the published algorithm, with trajectories along the gradient of a score
        estimator of your choice.

    Notes
    -----
    ``gradients`` is called while the surrogate is learned, at points that were evaluated, and in
    this process, whatever the executor: at each point that is not deep below the highest value.
    Draws are right for any gradient, since each is accepted by the log-density alone; a wrong one
    makes the surrogate useless. The attributes ``n_gradients``, ``n_gradients_missing`` and
    ``gradient_error`` of the result have the numbers of calls that returned a gradient and that did
    not, and the error at the start.

    Examples
    --------
    >>> import kmc
    >>> kmc.KernelHMC(archive_probability=0.1).learning_share
    0.6
    >>> moves = [(kmc.moves.Independence(), 0.1), (kmc.moves.Snooker(), 0.05)]
    >>> sampler = kmc.KernelHMC(moves=moves)

    A gradient that is available at some points:

    >>> sampler = kmc.KernelHMC(gradients=lambda x: -x if x[0] > 0 else None)
    >>> idata = kmc.sample(
    ...     lambda x: -0.5 * x @ x,
    ...     dim=4,
    ...     sampler=sampler,
    ...     max_evaluations=500,
    ...     seed=1,
    ...     progress=False,
    ... )
    >>> bool(0 < idata.attrs["n_gradients"] < idata.attrs["n_evaluations"])
    True
    """

    learning_share: float = 0.6
    burn_in: int = 5
    archive_probability: float = 0.03
    tempered_probability: float = 0.05
    mode_jump_probability: float = 0.05
    moves: Sequence[tuple[Move, float]] = ()
    gradients: Callable[[np.ndarray], Any] | None = None

    name: ClassVar[str] = "kernel-hmc"

    def __post_init__(self):
        # never 0: a wrong surrogate could trap a chain
        check_number(self, "archive_probability", 0, 1, "(]")
        for share in ("learning_share", "tempered_probability", "mode_jump_probability"):
            check_number(self, share, 0, 1, "[]")
        check_count(self, "burn_in", 0)
        object.__setattr__(self, "moves", as_moves(self.moves))
        if self.gradients is not None and not callable(self.gradients):
            raise TypeError(
                f"gradients={self.gradients!r}: expected None, or a function of x (d,) that "
                "returns the gradient of the log-density, (d,), or None where it is not available"
            )

    @property
    def _traits(self) -> Traits:
        return Traits(
            history=True,
            outputs=True,
            proposals=True,
            moves=names_of(self.moves) if self.moves else None,
        )

    def _start(self, setup: SamplerSetup) -> KernelHMCState:
        if self.gradients is not None and setup.noisy:
            raise ValueError(
                "noisy=True: gradients are for exact log-densities; leave gradients out"
            )
        gradient = None if self.gradients is None else OccasionalGradient(self.gradients)
        if gradient is not None:  # of the log-density, which is then learned itself
            setup = setup._replace(structure=None, initial_outputs=None, approximation=None)
        options = PhaseOptions(*(getattr(self, name) for name in PhaseOptions._fields))
        return KernelHMCState(options, setup, gradient)

    def _longest_warmup(self, dim: int, chains: int, draws: int, warmup: int | None) -> int:
        """Return about how many evaluations the longest warm-up takes, if nothing limits them."""
        learning = longest_learning(self.learning_share, draws, chains=chains, warmup=warmup)
        return learning + self.burn_in * chains
