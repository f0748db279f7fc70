"""Inner chains of many walkers, side by side: to the bit those of one walker after the other."""

import numba
import numpy as np
import pytest

from kmc.mcmc.inner_chains import inner_chains
from kmc.mcmc.local_mixture import local_mixture
from kmc.mcmc.surrogate_transition import InnerChainOptions, inner_chain
from kmc.surrogate.wall_jit_state import WallState
from tests.oracles.mcmc import jit_state

N, D = 40, 3
INNER = InnerChainOptions(
    step_size=0.4, trajectory_length=2.0, independence_probability=0.2, small_step_probability=0.4
)
WALL = WallState(np.eye(D), np.zeros(D), np.array([0.5]), np.array([[2.0, 1.0, 0.0]]), np.zeros((0, D, D)))


def rngs():
    return [np.random.default_rng(seed) for seed in np.random.SeedSequence(3).spawn(N)]


def starts():
    return np.random.default_rng(2).standard_normal((N, D))


@pytest.mark.parametrize("walled", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_gives_the_chains_of_one_after_the_other(monkeypatch, threads, walled):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
    state = jit_state(D, seed=1, **({"wall": WALL} if walled else {}))
    powers = np.array([1.0 if i % 2 else 0.5 for i in range(N)])
    lengths, mixture = [1 + i % 5 for i in range(N)], local_mixture(starts())
    together, alone = rngs(), rngs()
    found = inner_chains(state, starts(), lengths, powers=powers, rngs=together, options=INNER, mixture=mixture)
    for i, (rng, start) in enumerate(zip(alone, starts(), strict=True)):
        one = inner_chain(state, powers[i], rng, start, lengths[i], INNER, mixture)
        np.testing.assert_array_equal(found.position[i], one.position)
        for name in ("n_steps", "moved", "diverging", "energy", "acceptance_rate", "poor"):
            assert getattr(found, name)[i] == getattr(one, name)
        log_ratio = powers[i] * (one.start_value - one.value) + (one.start_wall - one.wall)
        assert found.log_ratio[i] == pytest.approx(log_ratio, rel=1e-12, abs=1e-12)
        assert together[i].random() == rng.random()  # the generators are left where they would be
    assert found.moved.mean() > 0.5 and np.any(found.log_ratio)
