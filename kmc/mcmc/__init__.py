"""Samplers: options that start processes, moves, integrators and adaptation. See :mod:`kmc.mcmc.base`."""

from kmc.mcmc.base import Problem, Process, Sampler, Sweep
from kmc.mcmc.kernel_hmc import KernelHMC
from kmc.mcmc.random_walk import AdaptiveMetropolis, RandomWalkMetropolis

SAMPLERS: dict[str, type] = {s.name: s for s in (KernelHMC, AdaptiveMetropolis, RandomWalkMetropolis)}
"""Samplers by the name that :func:`kmc.sample` takes."""

__all__ = [
    "SAMPLERS",
    "AdaptiveMetropolis",
    "KernelHMC",
    "Problem",
    "Process",
    "RandomWalkMetropolis",
    "Sampler",
    "Sweep",
]
