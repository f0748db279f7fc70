"""Samplers: options, their states, moves, integrators and adaptation. See :mod:`kmc.mcmc.base`."""

from kmc.deprecation import renamed_attributes
from kmc.mcmc import moves as moves
from kmc.mcmc.adaptive_langevin import AdaptiveLangevin
from kmc.mcmc.adaptive_metropolis import AdaptiveMetropolis
from kmc.mcmc.alternation import Cycle, Mixture
from kmc.mcmc.ask_tell import AskTell
from kmc.mcmc.base import Sampler, SamplerSetup, SamplerState, Step
from kmc.mcmc.delayed_acceptance import DelayedAcceptance
from kmc.mcmc.hmc import HMC
from kmc.mcmc.kameleon import Kameleon
from kmc.mcmc.kernel_hmc import KernelHMC
from kmc.mcmc.nuts import NUTS
from kmc.mcmc.old_kernel_hmc import kernel_or_score_hmc
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

:class:`ScoreHMC` is not among them, as it needs an estimator; nor are :class:`HMC` and :class:`NUTS`, which need a
gradient.
"""

__all__ = [
    "HMC",
    "NUTS",
    "SAMPLERS",
    "AdaptiveLangevin",
    "AdaptiveMetropolis",
    "AskTell",
    "Cycle",
    "DelayedAcceptance",
    "Kameleon",
    "KernelHMC",
    "Mixture",
    "RandomWalkMetropolis",
    "Sampler",
    "SamplerSetup",
    "SamplerState",
    "ScoreHMC",
    "Step",
    "Tempered",
]

KernelHMC.moved(kernel_or_score_hmc, "surrogate", "values")  # for one release

__getattr__ = renamed_attributes(__name__, {"Problem": "SamplerSetup", "Process": "SamplerState", "Sweep": "Step"})
