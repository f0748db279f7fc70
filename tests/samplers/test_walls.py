"""Paths and runs on a surrogate with a wall: reversible, of constant volume, and exact for log s +
log c.
"""

import numpy as np
import pytest

import kmc
from kmc.convergence import bulk_ess
from kmc.jitted import value_and_gradient, wall, workspace
from kmc.samplers.inner_chains import InnerChainOptions, inner_chain
from kmc.samplers.leapfrog import leapfrog
from kmc.samplers.local_mixture import local_mixture
from kmc.surrogate.coordinates.walls import DEEP, WallState, log_chances
from tests.oracles.mcmc import assert_standard, jit_state, paired

MAPPED = np.array([[1.2, 0.3], [-0.2, 0.9]]), np.array([0.1, -0.2])
FLAT = WallState(
    *MAPPED, np.array([0.5, 3.0]), np.array([[6.0, 2.0], [-4.0, 3.0]]), np.zeros((0, 2, 2))
)
CURVED = WallState(
    *MAPPED, np.array([1.0]), np.array([[0.5, 5.0]]), np.array([[[-3.0, 0.4], [0.4, 0.2]]])
)
WALLS = pytest.mark.parametrize("learned", [FLAT, CURVED], ids=["flat", "curved"])
SMOOTH = jit_state(2, sections=0, seed=5, ceiling=100.0)  # a normal distribution


def literal(state, z):
    """log c at the rows of z, as its definition has it."""
    v = z @ state.matrix.T - state.shift
    h = state.bias + v @ state.linear.T
    if len(state.quadratic):
        h = h + np.einsum("ni,kij,nj->nk", v, state.quadratic, v)
    chance = np.sum(-np.logaddexp(0.0, -h), axis=1)
    return np.where(chance > DEEP, chance, DEEP * (1 + np.log(np.minimum(chance, DEEP) / DEEP)))


@WALLS
def test_the_chance_and_its_slope(learned):
    z = 2 * np.random.default_rng(0).standard_normal((200, 2))
    np.testing.assert_allclose(log_chances(learned, z), literal(learned, z), rtol=1e-9, atol=1e-12)
    state = SMOOTH._replace(wall=learned)
    work, normal, step = workspace(state), np.empty(2), 1e-6
    count = 0
    for row in z:
        value, behind = wall(state, row, normal, work)
        chance = np.exp(literal(learned, row[None])[0])
        assert behind == (chance < 0.5) or abs(chance - 0.5) < 1e-3
        if behind and value > DEEP + 2:
            count += 1
            shifts = step * np.eye(2)
            slope = (literal(learned, row + shifts) - literal(learned, row - shifts)) / (2 * step)
            cosine = slope @ normal / np.linalg.norm(slope) / np.linalg.norm(normal)
            assert cosine > 1 - 1e-5
    assert count > 5


def integrate(state, power, z, momentum, step_size, n_steps):
    z, momentum, gradient, work = z.copy(), momentum.copy(), np.empty(2), workspace(state)
    value = value_and_gradient(state, z, gradient, work)
    if wall(state, z, np.empty(2), work)[1]:
        gradient[:] = 0.0
    *_, spread = leapfrog(
        state, power, z, momentum, gradient, value, step_size, n_steps, np.empty(2), work
    )
    return np.concatenate([z, momentum]), spread


@WALLS
@pytest.mark.parametrize("power", [1.0, 0.4])
def test_mirrored_paths_are_reversible_and_preserve_volume(learned, power):
    state, rng = SMOOTH._replace(wall=learned), np.random.default_rng(1)
    mirrored = smooth = 0
    for _ in range(40):
        start = rng.standard_normal(4)
        end, spread = integrate(state, power, start[:2], start[2:], 0.3, 9)
        back, spread_back = integrate(state, power, end[:2], -end[2:], 0.3, 9)
        np.testing.assert_allclose(back * [1, 1, -1, -1], start, atol=1e-9)
        np.testing.assert_allclose(spread_back, spread, atol=1e-9)
        free, _ = integrate(SMOOTH, power, start[:2], start[2:], 0.3, 9)
        mirrored += np.abs(free - end).max() > 1e-3
        step, columns = 1e-6, []
        for shift in step * np.eye(4):
            ends = [
                integrate(state, power, *np.split(start + s * shift, 2), 0.3, 4)[0] for s in (1, -1)
            ]
            columns.append((ends[0] - ends[1]) / (2 * step))
        # not where a step ends behind the wall from one side of the start alone
        if np.abs(columns).max() < 30:
            smooth += 1
            assert abs(abs(np.linalg.det(columns)) - 1) < 1e-4
    assert mirrored > 10 and smooth > 20


@WALLS
@pytest.mark.parametrize("power", [1.0, 0.4])
def test_runs_leave_the_walled_surrogate_invariant(learned, power):
    state, rng = SMOOTH._replace(wall=learned), np.random.default_rng(2)
    options = InnerChainOptions(
        step_size=0.8,
        trajectory_length=2.5,
        independence_probability=0.3,
        small_step_probability=0.4,
    )
    mixture = local_mixture(rng.standard_normal((9, 2)))
    spread = np.linalg.cholesky(np.linalg.inv(power * SMOOTH.precision))
    draws = SMOOTH.location + rng.standard_normal((12_000, 2)) @ spread.T
    draws = draws[np.log(rng.random(len(draws))) < literal(learned, draws)][:4000]
    results = [inner_chain(state, power, rng, z, 3, options, mixture) for z in draws]
    ends = np.array([r.position for r in results])
    np.testing.assert_allclose([r.wall for r in results], literal(learned, ends), atol=1e-9)
    np.testing.assert_allclose([r.start_wall for r in results], literal(learned, draws), atol=1e-9)
    target = np.array([power * r.value + r.wall for r in results])
    near = literal(learned, ends) < -0.1
    assert 0.02 < near.mean() < 0.6 and np.mean(np.any(ends != draws, axis=1)) > 0.8
    functions = [
        (z, z**2, z[:, :1] * z[:, 1:], literal(learned, z)[:, None]) for z in (draws, ends)
    ]
    before, after = (np.hstack(f) for f in functions)
    assert_standard(paired(before, after))
    crossed = paired(draws**2 * ends, ends**2 * draws)
    assert_standard(crossed)
    assert np.all(np.isfinite(target))


@pytest.mark.slow
def test_a_half_space_that_the_parameters_do_not_know():
    """On the starting commit a quarter of the proposals was accepted."""

    def log_density(x):
        return -0.5 * float(x @ x) if x.sum() > 0 else -np.inf

    starts = np.abs(np.random.default_rng(0).standard_normal((4, 4)))
    idata = kmc.sample(
        log_density, dim=4, initial=starts, draws=None, max_evaluations=600, seed=1, progress=False
    )
    assert idata.sample_stats["acceptance_rate"].mean() > 0.6
    assert idata.attrs["surrogate_wall"] == "a plane"
    assert idata.attrs["surrogate_wall_share"] > 0.02
    along = idata.posterior["x"].values.sum(-1) / 2
    error = along.std() / np.sqrt(bulk_ess(along[..., None])[0])
    assert error < 0.1 and abs(along.mean() - np.sqrt(2 / np.pi)) < 4 * error
