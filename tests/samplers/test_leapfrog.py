import numpy as np
import pytest

from kmc.samplers.leapfrog import leapfrog
from kmc.surrogate.jit_state import value_and_gradient, workspace
from tests.oracles.mcmc import jit_state, log_surrogate, slope_of_power

STATES = {
    "gaussian": jit_state(3, seed=1),
    "without gradients": jit_state(3, known=0, seed=2),
    "bounded": jit_state(2, height=6.0, ceiling=2.0, reach=1.0, seed=3),
    "line": jit_state(1, seed=4),
    "quadratic-alone": jit_state(4, sections=0, seed=5),
}
EACH = pytest.mark.parametrize("state", STATES.values(), ids=STATES)
POWERS = pytest.mark.parametrize("power", [1.0, 0.3])


def integrate(state, power, z, momentum, step_size, n_steps):
    """The end (z, p), with the energy and the spread that leapfrog reports; nothing is changed in
    place.
    """
    z, momentum, gradient, work = z.copy(), momentum.copy(), np.empty(z.size), workspace(state)
    value = value_and_gradient(state, z, gradient, work)
    value, energy, spread = leapfrog(
        state, power, z, momentum, gradient, value, step_size, n_steps, np.empty(z.size), work
    )
    np.testing.assert_allclose(value, log_surrogate(state, z[None])[0], rtol=1e-10, atol=1e-10)
    return z, momentum, energy, spread


def starts(state, count, seed=0):
    rng = np.random.default_rng(seed)
    d = state.location.size
    return 1.5 * rng.standard_normal((count, d)), rng.standard_normal((count, d))


def hamiltonian(state, power, z, momentum):
    return 0.5 * momentum @ momentum - power * log_surrogate(state, z[None])[0]


def path(state, power, z, momentum, step_size, n_steps):
    """Half a kick, a drift, half a kick, with gradients by finite differences; yields (z, p) after
    every step.
    """
    yield z, momentum
    for _ in range(n_steps):
        momentum = momentum + 0.5 * step_size * slope_of_power(state, power, z)
        z = z + step_size * momentum
        momentum = momentum + 0.5 * step_size * slope_of_power(state, power, z)
        yield z, momentum


@EACH
@POWERS
def test_a_path_is_that_of_the_literal_scheme(state, power):
    for z, momentum in zip(*starts(state, 5), strict=True):
        literal = list(path(state, power, z, momentum, 0.1, 7))
        energies = [hamiltonian(state, power, *at) for at in literal]
        end, end_momentum, energy, spread = integrate(state, power, z, momentum, 0.1, 7)
        np.testing.assert_allclose(end, literal[-1][0], atol=1e-7)
        np.testing.assert_allclose(end_momentum, literal[-1][1], atol=1e-7)
        np.testing.assert_allclose(energy, energies[-1], atol=1e-7)
        np.testing.assert_allclose(spread, max(energies) - min(energies), atol=1e-7)


@EACH
@POWERS
def test_reversible_with_a_symmetric_spread(state, power):
    for z, momentum in zip(*starts(state, 20), strict=True):
        end, end_momentum, _, spread = integrate(state, power, z, momentum, 0.11, 25)
        back, back_momentum, energy, spread_back = integrate(
            state, power, end, -end_momentum, 0.11, 25
        )
        np.testing.assert_allclose(back, z, atol=1e-10)
        np.testing.assert_allclose(-back_momentum, momentum, atol=1e-10)
        np.testing.assert_allclose(energy, hamiltonian(state, power, z, momentum), atol=1e-10)
        np.testing.assert_allclose(spread_back, spread, atol=1e-10)
        assert np.linalg.norm(end - z) > 1e-3


@pytest.mark.parametrize("step_size", [1e3, 1e160])  # huge energies, and beyond the largest float
def test_a_hopeless_path_has_an_infinite_spread(step_size):
    state = STATES["gaussian"]
    z, momentum, gradient, work = np.ones(3), np.ones(3), np.empty(3), workspace(state)
    value = value_and_gradient(state, z, gradient, work)
    *_, spread = leapfrog(
        state, 1.0, z, momentum, gradient, value, step_size, 10, np.empty(z.size), work
    )
    assert spread == np.inf
