"""How the tests of single samplers start them."""

import numpy as np

from kmc.samplers.base import SamplerSetup


def setup_from(initial, target, *, warmup, chains=None, seed=1, **fields):
    """Chains from points (k, d) of a target, for as many draws as a test likes."""
    return SamplerSetup(
        dim=initial.shape[1],
        chains=chains or len(initial),
        initial=initial,
        initial_log_density=np.array([target(x) for x in initial]),
        draws=None,
        warmup=warmup,
        max_evaluations=None,
        seed=np.random.SeedSequence(seed),
        **fields,
    )


def started(sampler, target, *, chains, warmup, seed=1, **fields):
    """The sampler's state, from exact draws of a target."""
    initial = target.sample(np.random.default_rng(0), chains)
    return sampler.start(setup_from(initial, target, warmup=warmup, seed=seed, **fields))
