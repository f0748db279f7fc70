"""Warm-up of many chains: more walkers, and searches that never wait for a few."""

from types import SimpleNamespace

import numpy as np
import pytest

import kmc
from kmc.mcmc import SamplerSetup
from kmc.mcmc.modes import ModeSearch
from kmc.mcmc.schedule import walkers_of
from kmc.targets.toys import Banana
from tests.mcmc.modes import plan_for
from tests.mcmc.setups import setup_from


def setup(chains, warmup=None):
    return SamplerSetup(
        2, chains, np.zeros((chains, 2)), np.zeros(chains), None, warmup, None, np.random.SeedSequence(0)
    )


def test_chains_beyond_sixteen_have_three_walkers_each():
    assert [walkers_of(setup(n), least=4, earliest=10**6) for n in (1, 4, 16, 17, 64)] == [4, 4, 16, 19, 160]
    assert [walkers_of(setup(n), least=4, earliest=1000) for n in (16, 17, 64, 256)] == [16, 19, 125, 256]
    assert walkers_of(setup(64, warmup=30), least=4, earliest=10**6) == 64


def rounds_to_the_freeze(chains):
    target = Banana(2)
    initial = target.sample(np.random.default_rng(1), chains)
    state = kmc.KernelHMC(search_share=0.0).start(
        setup_from(initial, target, warmup=None)._replace(max_evaluations=10_000)
    )
    rounds = 0
    while not state.frozen:
        state.advance(np.array([target(x) for x in state.propose()]))
        rounds += 1
    return rounds


@pytest.mark.slow
def test_rounds_fall_with_the_chains():
    """With four chains there are 339; with one walker for each of 64 chains there were 22."""
    assert rounds_to_the_freeze(64) < 15


def rows_of_a_search(chains):
    """Sizes of the batches of a search that finds no mode in a density that no surrogate explains: high spikes."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 2))
    plan = plan_for(lambda z: -0.5 * float(z @ z), x, rng)
    history = SimpleNamespace(x=x, log_density=-0.5 * np.sum(x**2, axis=1), evaluated=np.ones(len(x), bool))
    trainer = SimpleNamespace(history=history, states=lambda: x[:100])
    main = SimpleNamespace(mixture=plan._replace(archive_z=plan.archive_z[:100]), trainer=trainer)
    initial = 30.0 * rng.standard_normal((chains, 2))
    given = setup(chains)._replace(initial=initial, initial_log_density=np.full(chains, -10.0))
    search = ModeSearch(given, main, spent=300, budget=20_000, share=0.1, rng=rng)
    sizes = []
    while not search.done:
        points = search.propose()
        sizes.append(len(points))
        # slopes at the starts, which lead nowhere: all searches go on, for different times
        search.advance(-10.0 - 1e-3 * np.sum(np.abs(points), axis=1) * rng.random(len(points)))
    return np.array(sizes)


def test_rounds_of_searches_stay_large():
    """The last few searches are joined by others, as long as there are points to begin at."""
    assert np.median(rows_of_a_search(64)) > 64
