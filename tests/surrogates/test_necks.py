"""Heights: the log-density without its rise into the neck of a hierarchy."""

import numpy as np
import pytest

from kmc.surrogates import fit_surrogate, jit_state
from kmc.surrogates.necks import Necks
from kmc.surrogates.scale_group import ScaleGroup
from tests.oracles import differences

DIM, MEMBERS = 7, np.arange(2, 7)
GROUPS = (
    ScaleGroup(driver=1, slope=1.0, center=0, members=MEMBERS),  # a log-sd
    ScaleGroup(driver=0, slope=-0.5, center=1, members=MEMBERS[:2]),  # a log-precision
)


def hierarchy(x):
    """x_1 ~ N(0, 2²) is the log-sd of five others around x_0 ~ N(0, 1), each with an observation of sd 2."""
    center, log_sd, each = x[:, 0], x[:, 1], x[:, 2:]
    inside = np.sum((each - center[:, None]) ** 2, axis=1) * np.exp(-2 * log_sd)
    prior = -(center**2) - (log_sd / 2) ** 2 - inside - np.sum((each - [1, -2, 0, 2, 1]) ** 2, axis=1) / 4
    return 0.5 * prior - 5 * log_sd


def drawn(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, DIM))
    x[:, 2:] = x[:, [0]] + np.exp(x[:, [1]]) * x[:, 2:]
    return x


def in_the_neck(n, seed=5):
    """Scales below those of ``drawn``."""
    x = drawn(n, seed)
    scale = -3.0 - 2.0 * np.random.default_rng(seed).random(n)
    x[:, 2:] = x[:, [0]] + (x[:, 2:] - x[:, [0]]) * np.exp(scale - x[:, 1])[:, None]
    x[:, 1] = scale
    return x


@pytest.fixture(scope="module")
def fitted():
    x = drawn(1500)
    surrogate = fit_surrogate(x, hierarchy(x), x[:400], rng=np.random.default_rng(1))
    assert [group.driver for group in surrogate.scale_groups] == [1]
    return surrogate


def test_the_height_is_the_density_of_distances_in_units_of_their_scale():
    """Except for the likelihood, and up to a constant: of a member at a fixed number of sds from the center."""
    necks = Necks.of(GROUPS[:1], np.zeros((1, DIM)))
    x = in_the_neck(20)
    for change in (-1.0, -7.0):
        moved = np.array([GROUPS[0].scaled(row, change)[0] for row in x])
        rise = hierarchy(moved) - hierarchy(x)
        prior = (x[:, 1] ** 2 - moved[:, 1] ** 2) / 8
        np.testing.assert_allclose(rise, -5 * change + prior, atol=0.1)
        heights = rise + necks.correction(moved) - necks.correction(x)
        np.testing.assert_allclose(heights, prior, atol=0.1)


def test_the_surrogate_follows_the_density_into_the_neck(fitted):
    """Five nats per unit of the log-sd, above all that was evaluated; with bounds on values it is cut there."""
    x = in_the_neck(200)
    assert np.median(hierarchy(x)) > hierarchy(drawn(1500)).max()
    error = fitted.log_density(x) - hierarchy(x)
    assert np.median(np.abs(error)) < 1.0
    state = fitted.jit_state
    cut = state._replace(neck_slopes=state.neck_slopes[:0], neck_offsets=state.neck_offsets[:0])
    assert np.median(jit_state.values(cut, fitted.coordinates(x)) - hierarchy(x)) < -2.0


def test_the_bounds_gradient_is_that_of_the_value(fitted):
    """Where no bound is active, where one is, and where values fall like a logarithm."""
    state = fitted.jit_state
    low = state._replace(ceiling=state.ceiling - 12.0)
    z = np.vstack([fitted.coordinates(drawn(30, seed=9)), 6.0 * np.random.default_rng(8).standard_normal((30, DIM))])
    for one in (state, low):
        slopes = [differences.gradient(lambda p, one=one: jit_state.values(one, p[None])[0], p, 1e-5) for p in z]
        np.testing.assert_allclose(jit_state.gradients(one, z), slopes, rtol=1e-3, atol=1e-3)
    x = fitted.back(z)
    assert (jit_state.values(low, z) + fitted.necks.correction(x)).max() <= low.ceiling + 1e-9  # rounding
    assert (jit_state.values(low, z) < jit_state.values(state, z) - 1.0).any()
