"""Bases at one point, inside jitted loops."""

import numpy as np
import pytest
from scipy import stats

from kmc.bases import Contraction, FourierFeatures, KernelSections, UserFunctions, Whitened
from kmc.bases.base_jit_state import BaseJitState
from kmc.bases.fourier import cosines_and_sines
from kmc.kernels import Gaussian, Metric
from tests.jit_states import allocations, evaluate, evaluate_all
from tests.oracles import differences

DIM = 3
LOCATION = np.array([0.5, -1.0, 0.2])
SCALE = np.array([[1.0, 0.3, 0.0], [0.3, 0.8, -0.2], [0.0, -0.2, 1.2]])
PRECISION = np.linalg.inv(SCALE)


def peak(density):
    return float(density.logpdf(LOCATION))


NORMAL, STUDENT = (
    stats.multivariate_normal(LOCATION, SCALE),
    stats.multivariate_t(LOCATION, SCALE, df=3.5),
)
BASES = {
    "none": (None, lambda x: 0.0),
    "gaussian": (BaseJitState(peak(NORMAL), LOCATION, PRECISION, 0.0), NORMAL.logpdf),
    "student": (BaseJitState(peak(STUDENT), LOCATION, PRECISION, 3.5), STUDENT.logpdf),
}
RNG = np.random.default_rng(70)
FUNCTIONS = {
    "fourier": FourierFeatures(
        RNG.standard_normal((12, DIM)), RNG.uniform(0, 6, 12), RNG.uniform(0.5, 2.0, 12)
    ),
    "sections": KernelSections(
        Metric(Gaussian(1.5), [1.0, 0.5, 2.0]), RNG.standard_normal((7, DIM))
    ),
    "combinations": Whitened(
        KernelSections(Gaussian(1.5), RNG.standard_normal((9, DIM))), RNG.standard_normal((9, 4))
    ),
}


@pytest.fixture(params=FUNCTIONS.values(), ids=FUNCTIONS)
def function(request):
    return Contraction(request.param, np.random.default_rng(71).standard_normal(request.param.size))


@pytest.fixture
def x():
    return np.random.default_rng(72).standard_normal((5, DIM))


@pytest.mark.parametrize(("base", "log_density"), BASES.values(), ids=BASES)
def test_a_point_is_the_base_and_the_contraction(function, x, base, log_density):
    origin = np.array([0.1, -0.2, 0.3])
    state = function.jit_state(base, origin)
    for row in x:
        value, gradient = evaluate(state, row)
        assert value == pytest.approx(
            log_density(row) + function.values(row[None] - origin)[0], rel=1e-12, abs=1e-13
        )
        slope = differences.gradient(log_density, row) + function.gradient(row[None] - origin)[0]
        np.testing.assert_allclose(gradient, slope, atol=1e-9 * max(np.abs(slope).max(), 1.0))


def test_inside_a_loop_it_is_the_same_and_allocates_nothing(function, x):
    state = function.jit_state(BASES["student"][0])
    gradients = np.empty((5, DIM))
    assert evaluate_all(state, x, gradients) == pytest.approx(
        sum(evaluate(state, row)[0] for row in x), rel=1e-13
    )
    np.testing.assert_allclose(gradients, [evaluate(state, row)[1] for row in x], rtol=1e-13)
    one, many = allocations(evaluate_all, [(state, x[:1], gradients), (state, x, gradients)])
    assert one == many > 0  # the workspace


def test_a_basis_without_points():
    with pytest.raises(TypeError, match="UserFunctions has no jit_state"):
        Contraction(UserFunctions(np.sin, size=1), np.ones(1)).jit_state()


def test_sines_and_cosines_are_exact_to_rounding():
    quarters = np.arange(-40, 41) * (np.pi / 4)
    angles = np.concatenate(
        [
            np.linspace(-1e3, 1e3, 200_001),
            quarters,
            np.random.default_rng(73).uniform(-1e6, 1e6, 1000),
        ]
    )
    cosines, sines = np.empty((2, len(angles)))
    cosines_and_sines(angles, cosines, sines)
    exact = angles.astype(np.longdouble)
    assert np.abs(cosines - np.cos(exact)).max() < 2e-16
    assert np.abs(sines - np.sin(exact)).max() < 2e-16


@pytest.mark.parametrize("angle", [1e7, -1e300, np.inf, np.nan])
def test_huge_angles_are_left_to_the_library(angle):
    angles = np.array([1.0, angle])
    cosines, sines = np.empty((2, 2))
    cosines_and_sines(angles, cosines, sines)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(cosines, np.cos(angles), rtol=1e-15)
        np.testing.assert_allclose(sines, np.sin(angles), rtol=1e-15)
