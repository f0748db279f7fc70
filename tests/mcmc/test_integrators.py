import numpy as np
import pytest

from kmc.mcmc.integrators import leapfrog
from kmc.mcmc.tempering import COLD, Tempering
from kmc.surrogates.jit_state import value_and_gradient, workspace
from tests.oracles.mcmc import jit_state, log_surrogate, tempered_gradient, tempered_value

STATES = {
    "gaussian": jit_state(3, seed=1),
    "capped": jit_state(3, cap=1.0, seed=2),
    "student": jit_state(2, dof=4.0, seed=3),
    "bounded": jit_state(2, height=6.0, ceiling=2.0, reach=1.0, seed=3),
    "line": jit_state(1, seed=4),
    "trend-alone": jit_state(4, sections=0, seed=5),
}
TEMPERINGS = {"cold": COLD, "hot": Tempering(3.0, 0.3, np.inf), "edge": Tempering(3.0, 0.3, 4.0)}
EACH = pytest.mark.parametrize("state", STATES.values(), ids=STATES)
TEMPERED = pytest.mark.parametrize("tempering", TEMPERINGS.values(), ids=TEMPERINGS)


def integrate(state, tempering, z, momentum, step_size, n_steps):
    """The end (z, p), with the energy and the spread that leapfrog reports; nothing is changed in place."""
    z, momentum, gradient, work = z.copy(), momentum.copy(), np.empty(z.size), workspace(state)
    value = value_and_gradient(state, z, gradient, work)
    value, energy, spread = leapfrog(
        state, tempering, z, momentum, gradient, value, step_size, n_steps, np.empty(z.size), work
    )
    np.testing.assert_allclose(value, log_surrogate(state, z[None])[0], rtol=1e-10, atol=1e-10)
    return z, momentum, energy, spread


def starts(state, count, seed=0):
    rng = np.random.default_rng(seed)
    d = state.location.size
    return 1.5 * rng.standard_normal((count, d)), rng.standard_normal((count, d))


def hamiltonian(state, tempering, z, momentum):
    return 0.5 * momentum @ momentum - tempered_value(tempering, log_surrogate(state, z[None]))[0]


def path(state, tempering, z, momentum, step_size, n_steps):
    """Half a kick, a drift, half a kick, with gradients by finite differences; yields (z, p) after every step."""
    yield z, momentum
    for _ in range(n_steps):
        momentum = momentum + 0.5 * step_size * tempered_gradient(state, tempering, z)
        z = z + step_size * momentum
        momentum = momentum + 0.5 * step_size * tempered_gradient(state, tempering, z)
        yield z, momentum


@EACH
@TEMPERED
def test_a_path_is_that_of_the_literal_scheme(state, tempering):
    for z, momentum in zip(*starts(state, 5), strict=True):
        literal = list(path(state, tempering, z, momentum, 0.1, 7))
        energies = [hamiltonian(state, tempering, *at) for at in literal]
        end, end_momentum, energy, spread = integrate(state, tempering, z, momentum, 0.1, 7)
        np.testing.assert_allclose(end, literal[-1][0], atol=1e-7)
        np.testing.assert_allclose(end_momentum, literal[-1][1], atol=1e-7)
        np.testing.assert_allclose(energy, energies[-1], atol=1e-7)
        np.testing.assert_allclose(spread, max(energies) - min(energies), atol=1e-7)


@EACH
@TEMPERED
def test_reversible_with_a_symmetric_spread(state, tempering):
    for z, momentum in zip(*starts(state, 20), strict=True):
        end, end_momentum, _, spread = integrate(state, tempering, z, momentum, 0.11, 25)
        back, back_momentum, energy, spread_back = integrate(state, tempering, end, -end_momentum, 0.11, 25)
        np.testing.assert_allclose(back, z, atol=1e-10)
        np.testing.assert_allclose(-back_momentum, momentum, atol=1e-10)
        np.testing.assert_allclose(energy, hamiltonian(state, tempering, z, momentum), atol=1e-10)
        np.testing.assert_allclose(spread_back, spread, atol=1e-10)
        assert np.linalg.norm(end - z) > 1e-3


def test_the_edge_is_crossed():
    """So that the tests above say something about paths on both sides of it."""
    for state in STATES.values():
        depths = []
        for z, momentum in zip(*starts(state, 20), strict=True):
            end, *_ = integrate(state, TEMPERINGS["edge"], z, momentum, 0.11, 25)
            depths += list(TEMPERINGS["edge"].top - log_surrogate(state, np.array([z, end])))
        beyond = np.array(depths).reshape(-1, 2) > TEMPERINGS["edge"].edge
        assert np.any(beyond[:, 0] != beyond[:, 1]) and np.any(beyond.all(axis=1))


def test_beyond_the_edge_the_slope_is_one():
    """There the tempered surrogate differs from the surrogate itself by a constant: the paths are the same."""
    state, tempering = STATES["gaussian"], Tempering(0.0, 0.2, 0.0)
    for z, momentum in zip(*starts(state, 5), strict=True):
        tempered, cold = (integrate(state, t, z + 4.0, momentum, 0.05, 10) for t in (tempering, COLD))
        np.testing.assert_array_equal(tempered[0], cold[0])
        np.testing.assert_array_equal(tempered[1], cold[1])


@pytest.mark.parametrize("step_size", [1e3, 1e160])  # huge energies, and beyond the largest float
def test_a_hopeless_path_has_an_infinite_spread(step_size):
    state = STATES["gaussian"]
    z, momentum, gradient, work = np.ones(3), np.ones(3), np.empty(3), workspace(state)
    value = value_and_gradient(state, z, gradient, work)
    *_, spread = leapfrog(state, COLD, z, momentum, gradient, value, step_size, 10, np.empty(z.size), work)
    assert spread == np.inf
