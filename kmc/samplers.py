"""Samplers by the name that :func:`kmc.sample` takes."""

from __future__ import annotations

from kmc.kernel_hmc.sampler import KernelHMC
from kmc.mcmc.adaptive_langevin import AdaptiveLangevin
from kmc.mcmc.adaptive_metropolis import AdaptiveMetropolis
from kmc.mcmc.delayed_acceptance import DelayedAcceptance
from kmc.mcmc.kameleon import Kameleon
from kmc.mcmc.parallel_tempering import Tempered
from kmc.mcmc.random_walk import RandomWalkMetropolis

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
"""All but :class:`kmc.ScoreHMC`, which needs an estimator."""
