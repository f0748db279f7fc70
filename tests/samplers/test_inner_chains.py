"""Inner chains leave the surrogate invariant; many, side by side, are to the bit those of one after
the other.
"""

import numba
import numpy as np
import pytest

from kmc.samplers.inner_chains import InnerChainOptions, inner_chain, inner_chains
from kmc.samplers.local_mixture import LocalMixture, local_mixture
from kmc.surrogate.coordinates.walls import WallState
from tests.grids import slow_except
from tests.oracles.mcmc import (
    assert_standard,
    assert_uniform,
    draw_line,
    draw_surrogate,
    jit_state,
    log_surrogate,
    paired,
)

N = 4000
POWERS = pytest.mark.parametrize("power", slow_except({"one": 1.0, "less": 0.4}, {"less"}))
LINES = {
    "gaussian": jit_state(1, seed=4),
    "bounded": jit_state(1, height=6.0, ceiling=2.0, reach=1.0, fall=0.6, seed=4),
}

# Steps so large that a good part is rejected, so that errors show.
COARSE = InnerChainOptions(
    step_size=1.3, trajectory_length=2.5, independence_probability=0.3, small_step_probability=0.4
)
JUMPS = COARSE._replace(independence_probability=1.0)
TRAJECTORIES = COARSE._replace(independence_probability=0.0)
KINDS = pytest.mark.parametrize(
    "options", slow_except({"both": COARSE, "jumps": JUMPS, "trajectories": TRAJECTORIES}, {"both"})
)

CHAINS, D = 40, 3
INNER = InnerChainOptions(
    step_size=0.4, trajectory_length=2.0, independence_probability=0.2, small_step_probability=0.4
)
WALL = WallState(
    np.eye(D), np.zeros(D), np.array([0.5]), np.array([[2.0, 1.0, 0.0]]), np.zeros((0, D, D))
)


def mixture(dim, n=9):
    return local_mixture(1.5 * np.random.default_rng(7).standard_normal((n, dim)))


def ends(state, power, starts, options, rng, n_moves=3):
    """The ends of inner chains from all starts, and their reports."""
    results = [
        inner_chain(state, power, rng, z, n_moves, options, mixture(starts.shape[1]))
        for z in starts
    ]
    return np.array([r.position for r in results]), results


def antisymmetric(before, after):
    """Functions of (z_0, z_K) whose expectations vanish for exchangeable pairs, shape (n,
    functions).
    """
    a, b = before, after
    first = np.hstack([a**2 * b, (a > 0.5) * b, np.sin(a) * np.cos(2 * b)])
    second = np.hstack([b**2 * a, (b > 0.5) * a, np.sin(b) * np.cos(2 * a)])
    if a.shape[1] > 1:
        first = np.hstack([first, a[:, :1] * b[:, 1:]])
        second = np.hstack([second, b[:, :1] * a[:, 1:]])
    return first, second


def moments(z):
    return np.hstack([z, z**2, np.abs(z) > 1.0])


@pytest.mark.slow
@POWERS
@pytest.mark.parametrize(
    ("name", "options"),
    slow_except(
        {
            "gaussian-both": ("gaussian", COARSE),
            "gaussian-jumps": ("gaussian", JUMPS),
            "gaussian-trajectories": ("gaussian", TRAJECTORIES),
            "bounded-both": ("bounded", COARSE),
        },
        {"gaussian-both", "bounded-both"},
    ),
)
def test_a_power_of_the_surrogate_is_invariant_on_a_line(name, options, power):
    rng, state = np.random.default_rng(1), LINES[name]
    before, distribution = draw_line(state, power, rng, N)
    after, results = ends(state, power, before, options, rng)
    assert_uniform(distribution(before[:, 0]))
    assert_uniform(distribution(after[:, 0]))
    assert_standard(paired(np.tanh(moments(before)), np.tanh(moments(after))))
    assert np.mean([r.acceptance_rate for r in results]) < 0.97 or options is JUMPS
    assert np.mean(before != after) > 0.5


@pytest.mark.slow
@POWERS
@KINDS
def test_a_power_of_the_surrogate_is_invariant_in_space(power, options):
    rng, state = np.random.default_rng(2), jit_state(3, seed=3)
    before = draw_surrogate(state, power, rng, N)
    after, _ = ends(state, power, before, options, rng)
    values_before, values_after = (np.sort(log_surrogate(state, z)) for z in (before, after))
    assert_uniform(np.searchsorted(values_before, values_after) / N / (1 + 1e-9))
    assert_standard(paired(moments(before), moments(after)))


@POWERS
@KINDS
def test_an_inner_chain_is_reversible(power, options):
    rng = np.random.default_rng(3)
    state = jit_state(2, seed=8)
    before = draw_surrogate(state, power, rng, N)
    after, _ = ends(state, power, before, options, rng)
    assert_standard(paired(*antisymmetric(before, after)))


def test_what_an_inner_chain_reports():
    rng = np.random.default_rng(4)
    state = jit_state(3, seed=9)
    starts = draw_surrogate(state, 1.0, rng, 300)
    after, results = ends(state, 1.0, starts, COARSE, rng, n_moves=2)
    np.testing.assert_allclose(
        [r.start_value for r in results], log_surrogate(state, starts), atol=1e-10
    )
    np.testing.assert_allclose([r.value for r in results], log_surrogate(state, after), atol=1e-10)
    np.testing.assert_array_equal([r.moved for r in results], np.any(after != starts, axis=1))
    assert (
        all(0 <= r.acceptance_rate <= 1 and not r.diverging for r in results)
        and max(r.n_steps for r in results) > 0
    )
    assert 0 < np.mean([r.moved for r in results]) < 1


def test_a_start_is_left_alone_and_a_seed_gives_the_same_chain():
    state, start = jit_state(3, seed=9), np.ones(3)
    results = [
        inner_chain(state, 1.0, np.random.default_rng(5), start, 10, COARSE, mixture(3))
        for _ in range(2)
    ]
    np.testing.assert_array_equal(start, np.ones(3))
    np.testing.assert_array_equal(results[0].position, results[1].position)
    assert results[0][1:] == results[1][1:]


def test_without_a_mixture_there_are_only_trajectories():
    state = jit_state(2, seed=8)
    result = inner_chain(state, 1.0, np.random.default_rng(6), np.zeros(2), 5, JUMPS, mixture(2, 6))
    assert result.n_steps >= 5 and result.moved


@pytest.mark.parametrize("step_size", [50.0, 1e160])
def test_a_divergent_trajectory_does_not_move(step_size):
    state, start = jit_state(3, seed=9), np.ones(3)
    options = InnerChainOptions(step_size, 20 * step_size, 0.0, 0.0)
    result = inner_chain(state, 1.0, np.random.default_rng(7), start, 4, options, mixture(3))
    assert (
        result.diverging and not result.moved and result.poor == 4 and result.acceptance_rate == 0
    )
    np.testing.assert_array_equal(result.position, start)
    assert np.isfinite(result.value) and np.isfinite(result.energy)


def test_the_energy_is_that_of_the_power():
    """With the smallest steps the energy stays what it was: kinetic, so above the potential at the
    end.
    """
    state, power = jit_state(2, seed=8), 0.4
    options = InnerChainOptions(0.01, 1.0, 0.0, 0.0)
    energies, potentials = [], []
    for z in draw_surrogate(state, power, np.random.default_rng(8), 200):
        result = inner_chain(state, power, np.random.default_rng(9), z, 1, options, mixture(2))
        energies.append(result.energy)
        potentials.append(-power * log_surrogate(state, z[None])[0])
    kinetic = np.array(energies) - potentials  # the same momentum each time, as the seed is
    assert kinetic.min() > 0 and np.ptp(kinetic) < 0.02


def test_a_jump_to_where_the_surrogate_overflows_is_rejected():
    """In numba, min(0.0, nan) is 0.0."""
    state, roots, ends = (
        jit_state(2),
        np.array(2 * [np.eye(2)]),
        np.array([[1e308, -1e308], [-1e308, 1e308]]),
    )
    far = LocalMixture(ends, roots, np.ascontiguousarray(roots.T), ends.T.copy(), np.zeros(2))
    assert np.isnan(log_surrogate(state, np.array([[np.inf, -np.inf]]))).all()
    seeds = map(np.random.default_rng, range(20))
    results = [inner_chain(state, 1.0, rng, np.zeros(2), 9, JUMPS, far) for rng in seeds]
    assert all(np.isfinite(one.value) for one in results)


def rngs():
    return [np.random.default_rng(seed) for seed in np.random.SeedSequence(3).spawn(CHAINS)]


def starts():
    return np.random.default_rng(2).standard_normal((CHAINS, D))


@pytest.mark.parametrize("walled", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_gives_the_chains_of_one_after_the_other(
    monkeypatch, threads, walled
):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
    state = jit_state(D, seed=1, **({"wall": WALL} if walled else {}))
    powers = np.array([1.0 if i % 2 else 0.5 for i in range(CHAINS)])
    lengths, mixture = [1 + i % 5 for i in range(CHAINS)], local_mixture(starts())
    together, alone = rngs(), rngs()
    found = inner_chains(
        state, starts(), lengths, powers=powers, rngs=together, options=INNER, mixture=mixture
    )
    for i, (rng, start) in enumerate(zip(alone, starts(), strict=True)):
        one = inner_chain(state, powers[i], rng, start, lengths[i], INNER, mixture)
        np.testing.assert_array_equal(found.position[i], one.position)
        for name in ("n_steps", "moved", "diverging", "energy", "acceptance_rate", "poor"):
            assert getattr(found, name)[i] == getattr(one, name)
        log_ratio = powers[i] * (one.start_value - one.value) + (one.start_wall - one.wall)
        assert found.log_ratio[i] == pytest.approx(log_ratio, rel=1e-12, abs=1e-12)
        assert together[i].random() == rng.random()  # the generators are left where they would be
    assert found.moved.mean() > 0.5 and np.any(found.log_ratio)
