"""Trajectories along a gradient field, for any field."""

import numpy as np
import pytest

from kmc import jitted as loops
from kmc.samplers.score_field import Field, plain_path
from kmc.surrogate.coordinates.whitening import Whitening
from tests.oracles.kmc_paper import leapfrog
from tests.oracles.mcmc import jit_state

ROTATION = np.array([[0.6, 1.1, 0.0], [-1.3, 0.9, 0.2], [0.3, -0.4, 0.5]])
SHIFT = np.array([0.4, -1.0, 2.0])
SHEAR = np.array([[2.0, 0.0, 0.0], [0.7, 0.5, 0.0], [-0.3, 0.2, 1.5]])
WHITENING = Whitening.of(SHIFT, SHEAR)


class Swirl:
    """A field that is not a gradient."""

    def fit(self, X):
        raise AssertionError("not to be fitted")

    def gradient(self, X):
        return -X @ ROTATION.T + np.sin(2.0 * X[:, [1, 2, 0]])


class Jitted:
    """The built-in surrogate's function as an estimator."""

    def __init__(self):
        self.state = jit_state(3, seed=5)
        self.jit_state = lambda: self.state

    def fit(self, X):
        raise AssertionError("not to be fitted")

    def gradient(self, X):
        out = np.empty(X.shape)
        work = loops.workspace(self.state)
        for x, row in zip(X, out, strict=True):
            loops.value_and_gradient(self.state, x, row, work)
        return out


FIELDS = {
    "plain": Field.of(Swirl(), WHITENING, in_z=True),
    "plain in x": Field.of(Swirl(), WHITENING, in_z=False),
    "jitted": Field.of(Jitted(), WHITENING, in_z=True),
    "jitted in x": Field.of(Jitted(), WHITENING, in_z=False),
}
EACH = pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)


def starts(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, 3)), rng.standard_normal((count, 3))


@EACH
def test_a_path_is_that_of_the_literal_scheme(field):
    """In x with a mass matrix, and in z without."""

    def gradient(x):
        seen = WHITENING(x[None]) if field.in_z else x[None]
        g = field.estimator.gradient(np.ascontiguousarray(seen))[0]
        return SHEAR.T @ g if field.in_z else g

    inverse_mass = np.linalg.inv(SHEAR.T @ SHEAR)
    for z, momentum in zip(*starts(10), strict=True):
        path = field.path(z, momentum, step_size=0.1, n_steps=9)
        x, p = leapfrog(
            gradient, inverse_mass, WHITENING.back(z[None])[0], SHEAR.T @ momentum, 0.1, 9
        )
        np.testing.assert_allclose(WHITENING.back(path.z[None])[0], x, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(SHEAR.T @ path.momentum, p, rtol=1e-9, atol=1e-9)


def test_the_energy_is_that_on_the_surrogate():
    state = jit_state(3, seed=5)
    gradient, work = np.empty(3), loops.workspace(state)
    for z, momentum in zip(*starts(5), strict=True):
        path = FIELDS["jitted in x"].path(z, momentum, step_size=0.1, n_steps=7)
        value = loops.value_and_gradient(state, WHITENING.back(path.z[None])[0], gradient, work)
        np.testing.assert_allclose(
            path.energy, 0.5 * path.momentum @ path.momentum - value, rtol=1e-10
        )


# Where there is nothing to follow


@pytest.mark.parametrize("value", [1e200, np.nan, np.inf])
def test_a_hopeless_path_diverges_at_a_finite_place(value):
    seen = []

    def gradient(z):
        seen.append(z)
        return np.full(3, value if z[0] > 1.0 else 5.0)

    path = plain_path(gradient, np.zeros(3), np.ones(3), step_size=0.3, n_steps=20)
    assert path.diverging and np.all(np.isfinite(seen))
    assert not plain_path(
        gradient, np.zeros(3), -50 * np.ones(3), step_size=0.3, n_steps=20
    ).diverging


def test_a_path_and_its_reverse_diverge_together():
    """One of them fails at its end only, the other at its start."""

    def gradient(z):
        return np.full(3, -2e4 if z[0] > 1.0 else 0.0)

    there = plain_path(gradient, np.zeros(3), np.ones(3), step_size=1.5, n_steps=1)
    back = plain_path(gradient, there.z, -there.momentum, step_size=1.5, n_steps=1)
    np.testing.assert_allclose(back.z, 0.0, atol=1e-9)
    assert there.diverging and back.diverging


@pytest.mark.parametrize("in_z", [True, False])
def test_a_hopeless_jitted_path_diverges(in_z):
    path = Field.of(Jitted(), WHITENING, in_z).path(
        np.ones(3), np.ones(3), step_size=1e3, n_steps=10
    )
    assert path.diverging and np.isnan(path.energy)


# A function in other coordinates


# What an estimator may offer


class Slope(Jitted):
    def __init__(self, state):
        self.jit_state = lambda: state

    def gradient(self, X):
        return np.broadcast_to([1.0, 2.0, 3.0], X.shape)


@pytest.mark.parametrize("state", [(1.0, 2.0), 3.0])
def test_an_unknown_state_is_refused(state):
    with pytest.raises(TypeError, match=r"Slope.jit_state\(\) returned a (tuple|float)"):
        Field.of(Slope(state), WHITENING, in_z=True)
