"""Samplers: options, and states that request evaluations but never call the target.

A map of the modules:

- What a sampler is: base, ask_tell (a loop of the user's own), metropolis (one decision), walkers, lanes (chains that
  nothing couples any more).
- The default sampler: kernel_hmc (options), kernel_hmc_state (phases). Warm-up: schedule, small_budget,
  quadratic_search, tempering, learner (what it learns), user_gradient, history, surrogate_trainer, mixture_tuner,
  probes. Proposals: proposal_mixture, archive_moves, moves (a user's own). Inner chains on the surrogate:
  surrogate_transition, inner_chains, integrators, tuning.
- Several modes: modes (the search), explorer (a mode's warm-up), mode_shapes, two_gaussians, local_searches,
  unvisited; the main phase, mode_mixture.
- Adaptive samplers: adapting (their common state), adaptive_metropolis, kameleon, adaptive_langevin,
  delayed_acceptance, learned_density. The baseline: random_walk.
- With a score estimator: score_hmc, score_fitter, score_field, affine.
- At several temperatures: parallel_tempering.
"""

from kmc.mcmc import moves as moves
from kmc.mcmc.adaptive_langevin import AdaptiveLangevin
from kmc.mcmc.adaptive_metropolis import AdaptiveMetropolis
from kmc.mcmc.ask_tell import AskTell
from kmc.mcmc.base import Sampler, SamplerSetup, SamplerState, Step
from kmc.mcmc.delayed_acceptance import DelayedAcceptance
from kmc.mcmc.kameleon import Kameleon
from kmc.mcmc.kernel_hmc import KernelHMC
from kmc.mcmc.parallel_tempering import Tempered
from kmc.mcmc.random_walk import RandomWalkMetropolis
from kmc.mcmc.score_hmc import ScoreHMC

SAMPLERS: dict[str, type] = {
    sampler.name: sampler
    for sampler in (
        KernelHMC,
        AdaptiveMetropolis,
        AdaptiveLangevin,
        DelayedAcceptance,
        Kameleon,
        RandomWalkMetropolis,
        Tempered,
    )
}
"""Samplers by the name that :func:`kmc.sample` takes.

:class:`ScoreHMC` is not among them, as it needs an estimator.
"""

__all__ = [
    "SAMPLERS",
    "AdaptiveLangevin",
    "AdaptiveMetropolis",
    "AskTell",
    "DelayedAcceptance",
    "Kameleon",
    "KernelHMC",
    "RandomWalkMetropolis",
    "Sampler",
    "SamplerSetup",
    "SamplerState",
    "ScoreHMC",
    "Step",
    "Tempered",
]
