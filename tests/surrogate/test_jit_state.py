"""The compiled surrogate: its formulas term by term, differences, and the regression that it comes
from.
"""

import numpy as np
import pytest

from kmc.surrogate import jit_state
from kmc.surrogate.coordinates.funnels import Funnel
from kmc.surrogate.coordinates.transport import IDENTITY
from kmc.surrogate.coordinates.walls import WallState, log_chances
from kmc.surrogate.coordinates.whitening import Whitening
from kmc.surrogate.covariance import whitened_coordinates
from kmc.surrogate.density import Component, Density
from kmc.surrogate.jit_state import SurrogateJitState, check_jit_state
from kmc.surrogate.known import (
    ABOVE,
    Hierarchy,
    Splines,
    Transforms,
    check_splines,
    log_priors,
)
from kmc.surrogate.known import (
    IDENTITY as UNCHANGED,
)
from kmc.surrogate.mass import without_spurious_mass
from kmc.surrogate.mean import mean_gradients, mean_values
from kmc.surrogate.process import PRIOR, Seen, _jit_state, fit_to_draws
from kmc.surrogate.regression import Hyperparameters, Observations, condition
from tests.jit_states import evaluate
from tests.oracles import differences, mcmc
from tests.oracles import emulator as of_hierarchies
from tests.oracles import point as oracle

pytestmark = pytest.mark.packages

STATES = {
    "kernels": mcmc.jit_state(3, known=0, seed=10),
    "known slopes": mcmc.jit_state(3, known=4, seed=11),
    "a slope": mcmc.jit_state(2, slope=np.array([0.7, -0.4]), seed=19),
    "a scale": mcmc.jit_state(3, known=3, scales=1, seed=16),
    "two scales": mcmc.jit_state(2, known=2, scales=2, seed=17),
    # whole blocks of rows, and a rest
    "five dimensions": mcmc.jit_state(5, sections=90, known=3, height=0.2, seed=12),
    "a line": mcmc.jit_state(1, seed=13),
    "quadratic alone": mcmc.jit_state(4, sections=0, seed=14),
    "known parts": mcmc.jit_state(3, nodes=6, seed=20),
    "bounded": mcmc.jit_state(3, height=5.0, ceiling=1.0, reach=1.0, seed=15),
}
WALL = WallState(
    np.eye(3), np.zeros(3), np.array([0.5]), np.array([[2.0, 1.0, 0.0]]), np.zeros((0, 3, 3))
)


def points(state, n=12, spread=1.5):
    return spread * np.random.default_rng(1).standard_normal((n, state.location.size))


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_value_and_gradient(state):
    for z in points(state):
        value, gradient = evaluate(state, z)
        assert value == pytest.approx(oracle.value(state, z), rel=1e-12, abs=1e-12)
        slope = differences.gradient(lambda z: oracle.value(state, z), z, 1e-4)
        np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-6)


def hierarchy(noncentered, seed=3):
    """A hierarchy of four parameters, of three generations."""
    rng = np.random.default_rng(seed)
    nodes = np.tile([-1.0, 0.5, 2.0], (5, 1))
    return Hierarchy(
        Transforms(
            np.array([UNCHANGED, ABOVE, UNCHANGED, ABOVE, UNCHANGED]),
            np.zeros(5),
            np.zeros(5),
            np.zeros((5, 2)),
        ),
        np.array([-1, -1, 0, 2, 2]),
        np.array([-1, -1, 1, 1, 3]),
        np.tile([0.0, 1.0], (5, 1)),
        Splines(nodes, *rng.standard_normal((2, 5, 3))),
        np.isin(np.arange(5), noncentered),
        rng.standard_normal(5),
        np.eye(5) + 0.3 * rng.standard_normal((5, 5)),
    )


@pytest.mark.parametrize("noncentered", [(), (2, 4), (2, 3, 4)], ids=str)
def test_a_hierarchical_prior_is_one_of_the_coordinates_and_the_rest_of_the_parameters(noncentered):
    prior = hierarchy(noncentered)
    rest = mcmc.jit_state(5, sections=9, height=0.2, nodes=0, seed=12)
    state = rest._replace(hierarchy=prior)
    check_jit_state(state, 5)

    def literal(z):
        u = state.origin + z @ state.back
        x, _, known = of_hierarchies.prior_of(prior, prior.noncentered, u)
        return oracle.value(rest, (x - prior.center) @ prior.whitening) + known

    for z in points(state, spread=0.5):
        value, gradient = evaluate(state, z)
        assert value == pytest.approx(literal(z), rel=1e-10)
        slope = differences.gradient(literal, z, 1e-4)
        np.testing.assert_allclose(gradient, slope, rtol=1e-5, atol=1e-5 * np.abs(slope).max())


def test_prior_densities_of_coordinates_at_points_and_their_gradients():
    prior = hierarchy((2, 4))
    for u in np.random.default_rng(4).standard_normal((8, 5)):
        x, _, known = of_hierarchies.prior_of(prior, prior.noncentered, u)
        values, gradients = log_priors(prior, prior.noncentered, x[None])
        assert values[0] == pytest.approx(known, rel=1e-10)
        slope = differences.gradient(
            lambda x: log_priors(prior, prior.noncentered, x[None])[0][0], x, 1e-4
        )
        np.testing.assert_allclose(gradients[0], slope, rtol=1e-5, atol=1e-5 * np.abs(slope).max())


@pytest.mark.parametrize(
    "wrong",
    [
        {"means": np.array([-1, -1, 0, 2, 5])},
        {"sds": np.array([-1, 1, 1, 1, 3])},
        {"noncentered": np.ones(4, bool)},
        {"center": np.zeros(4)},
        {"whitening": np.eye(4)},
        {"known": Splines(*np.ones((3, 5, 3)))},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_hierarchy_from_a_file_stays_within_its_arrays(wrong):
    state = mcmc.jit_state(5, nodes=0, seed=12)._replace(hierarchy=hierarchy(())._replace(**wrong))
    with pytest.raises(ValueError, match=r"is not an array|between|come before|not increasing"):
        check_jit_state(state, 5)


def test_slopes_of_the_kernel_in_the_transcription():
    """Those of a literal kernel, by differences: what a known gradient adds is the kernel's
    gradient in its center.
    """
    state = STATES["known slopes"]
    for u, c in np.random.default_rng(2).standard_normal((5, 2, 3)):
        slope = differences.gradient(lambda c, u=u: oracle.radial(state, u, c), c, 1e-3)
        np.testing.assert_allclose(oracle.radial_slope(state, u, c), slope, rtol=1e-7, atol=1e-9)


def test_a_scale_beyond_its_limits_is_constant():
    state = mcmc.jit_state(2, known=1, scales=1, seed=18, ceiling=1e9, reach=1e9)
    state = state._replace(rates=np.array([[5.0, 0.0]]))
    for z in np.array([[1.5, 0.3], [-1.5, 0.3], [0.4, 0.3]]):
        value, gradient = evaluate(state, z)
        slope = differences.gradient(lambda z: evaluate(state, z)[0], z, 1e-4)
        np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-6 * abs(value))


def test_at_a_center_nothing_is_divided_by_zero():
    state = STATES["known slopes"]
    for center in (*state.centers.T, *state.ends):
        z = np.linalg.solve(state.metric, center)
        value, gradient = evaluate(state, z)
        assert value == pytest.approx(oracle.value(state, z), rel=1e-9)
        assert np.all(np.isfinite(gradient))


def test_values_and_gradients_at_many_points():
    state = STATES["known slopes"]
    z = points(state, 7)
    one_by_one = [evaluate(state, row) for row in z]
    np.testing.assert_array_equal(jit_state.values(state, z), [value for value, _ in one_by_one])
    np.testing.assert_array_equal(
        jit_state.gradients(state, z), [gradient for _, gradient in one_by_one]
    )


# The bound


@pytest.mark.slow
@pytest.mark.parametrize(("ceiling", "reach"), [(2.0, 5.0), (2.0, 1.0), (10.0, 0.5)])
def test_a_runaway_sum_is_bounded(ceiling, reach):
    """Smoothly: the gradient stays that of the value."""
    free = mcmc.jit_state(3, known=0, height=60.0, ceiling=1e6, seed=10)
    # rises by a hundred nats among the centers
    free = free._replace(coefficients=np.abs(free.coefficients))
    state = free._replace(ceiling=ceiling, reach=reach)
    z = np.vstack([scale * np.linalg.solve(free.metric, free.centers).T for scale in (1.0, 3.0)])
    unbounded, bounded = jit_state.values(free, z), jit_state.values(state, z)
    assert unbounded.max() > 50.0
    assert np.all(bounded <= [oracle.bound(state, row) for row in z])
    assert np.all(bounded <= unbounded)
    slopes = [differences.gradient(lambda z: evaluate(state, z)[0], row, 1e-3) for row in z]
    np.testing.assert_allclose(jit_state.gradients(state, z), slopes, rtol=1e-4, atol=1e-4)


def test_far_away_the_density_falls_with_the_bound_and_is_untouched_below_it():
    state = mcmc.jit_state(3, sections=0, seed=10)
    low = state._replace(precision=0.01 * state.precision)
    far = 50.0 * np.eye(3)
    np.testing.assert_allclose(jit_state.values(low, far), [oracle.bound(low, row) for row in far])
    np.testing.assert_allclose(jit_state.gradients(low, far), -2.0 * low.fall * far)
    high = state._replace(ceiling=state.constant + 100.0)
    exact = [oracle.free_value(high, z) for z in points(high)]
    np.testing.assert_allclose(jit_state.values(high, points(high)), exact, rtol=1e-12)


# A wall


def test_a_wall_adds_its_term_to_the_density_and_not_to_the_paths():
    state = STATES["kernels"]._replace(wall=WALL)
    component = Component(
        IDENTITY, Whitening.of(np.array([0.2, 0.0, -1.0]), np.diag([1.0, 0.5, 2.0])), state
    )
    z = points(state)
    x = component.back(z)
    walled = jit_state.values(STATES["kernels"], component.coordinates(x)) + log_chances(
        WALL, component.coordinates(x)
    )
    np.testing.assert_allclose(component.log_density(x), walled, rtol=1e-12)
    for row in z:
        np.testing.assert_array_equal(evaluate(state, row)[1], evaluate(STATES["kernels"], row)[1])


# The regression


def surface(x):
    """Bent, with a bump, not far from normal."""
    return -0.5 * np.sum(x**2, axis=1) + np.sin(2.0 * x[:, 0]) - 0.2 * x[:, 1] * x[:, 0] ** 2


def surface_slope(x):
    slope = -x.copy()
    slope[:, 0] += 2.0 * np.cos(2.0 * x[:, 0]) - 0.4 * x[:, 1] * x[:, 0]
    slope[:, 1] -= 0.2 * x[:, 0] ** 2
    return slope


def fitted(transport=IDENTITY, known=0, n=60, dim=3):
    """A process, where so many points have a gradient."""
    x = 1.3 * np.random.default_rng(3).standard_normal((n, dim))
    gradients = np.full(x.shape, np.nan)
    gradients[:known] = surface_slope(x[:known])
    seen = Seen(x, surface(x), x[: n // 2], gradients)
    return fit_to_draws(seen, np.random.default_rng(4), transport)


FUNNEL = Funnel(0, 0.1, np.array([0.0, 0.2, 0.0]), np.array([0.0, 0.3, -0.2]))


@pytest.mark.parametrize("transport", [IDENTITY, FUNNEL], ids=["identity", "funnel"])
@pytest.mark.parametrize("known", [0, 20])
def test_the_compiled_process_is_its_regression(transport, known):
    """Below the bound, where nothing had to be bent: the mean of the regression, in x, with the
    prior mean added.
    """
    process = fitted(transport, known)
    assert len(process.jit_state.slopes) == known
    x = 0.7 * np.random.default_rng(5).standard_normal((20, 3))
    u = transport(x)
    z = process.coordinates(x)
    prior = 0.5 * PRIOR * np.eye(3)
    np.testing.assert_allclose(
        process.mean.quadratic[..., 0], process.regression.mean.quadratic[..., 0] - prior
    )
    of_u = process.regression.values(u) - 0.5 * PRIOR * np.sum(z**2, axis=1)
    assert of_u.max() + 3.0 < process.jit_state.ceiling - process.highest
    expected = process.highest + of_u + transport.log_jacobian(x)
    np.testing.assert_allclose(process.log_density(x), expected, rtol=1e-7, atol=1e-7)
    inverse = process.regression.coordinates.inverse
    slopes = process.regression.gradients(u) @ inverse.T - PRIOR * z
    np.testing.assert_allclose(
        jit_state.gradients(process.jit_state, z), slopes, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("transport", [IDENTITY, FUNNEL], ids=["identity", "funnel"])
def test_a_process_has_the_gradients_that_it_was_given(transport):
    """Along x, those of the density of x, and they tell it much better than the values alone."""
    process = fitted(transport, 40, 40)
    x = 1.3 * np.random.default_rng(3).standard_normal((40, 3))
    x = x[surface(x) > surface(x).max() - 5.0]  # deeper values and gradients have some noise
    assert len(x) > 15
    found = differences.gradients(process.log_density, x)
    np.testing.assert_allclose(found, surface_slope(x), atol=1e-3)
    fresh = np.random.default_rng(6).standard_normal((200, 3))
    without = fitted(transport, 0, 40)
    errors = [
        np.median(np.abs(one.log_density(fresh) - surface(fresh))) for one in (process, without)
    ]
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize(
    "scales", [(), ((1, 1.0),), ((0, -1.0), (2, 0.5))], ids=["quartic", "a scale", "two scales"]
)
def test_the_mean_with_known_gradients_and_a_metric_is_compiled_as_it_is(scales):
    """Hyperparameters and a metric that no fit chose, so that each term counts."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((25, 3))
    coordinates = whitened_coordinates(x)
    metric = np.eye(3) + 0.4 * rng.standard_normal((3, 3))
    coordinates = type(coordinates)(coordinates.center, coordinates.whitening, metric, scales)
    theta = Hyperparameters(1.0, -0.5, 0.7, 0.4, -3.0)
    regression = condition(
        Observations(x, surface(x), None, x[:9], surface_slope(x[:9])), coordinates, theta
    )
    mean = without_spurious_mass(regression, PRIOR * np.eye(len(regression.mean.linear)))
    state = _jit_state(mean, 0.0, 1e3, 1e3)
    assert len(state.slopes) == 9 and state.both > 0.05
    fresh = 0.8 * rng.standard_normal((20, 3))
    z = coordinates.map(fresh)
    values = mean_values(mean, coordinates, fresh)[:, 0]
    np.testing.assert_allclose(jit_state.values(state, z), values, rtol=1e-8, atol=1e-8)
    slopes = mean_gradients(mean, coordinates, fresh)[:, :, 0] @ coordinates.inverse.T
    np.testing.assert_allclose(jit_state.gradients(state, z), slopes, rtol=1e-6, atol=1e-6)


def test_a_frozen_process_is_the_process():
    process = fitted(FUNNEL, 10)
    x = np.random.default_rng(8).standard_normal((30, 3))
    density = Density.of([process])
    density.check(3)
    np.testing.assert_array_equal(density.log_density(x), process.log_density(x))
    np.testing.assert_allclose(process.back(process.coordinates(x)), x, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("location", np.zeros(2)),
        ("metric", np.eye(3)[:2]),
        ("centers", np.zeros((3, 5))),
        ("coefficients", np.zeros(6, np.float32)),
        ("slopes", np.zeros((3, 3))),
        ("ends", np.zeros((2, 4))),
        ("bent_centers", np.zeros((2, 6))),
        ("bent_slopes", np.zeros((2, 4))),
        ("back", np.eye(2)),
        ("known", Splines(*np.zeros((3, 2, 4)))),
        ("wall", WALL._replace(linear=np.zeros((2, 3)))),
    ],
)
def test_arrays_that_loops_would_leave_are_refused(name, wrong):
    state = mcmc.jit_state(3)
    check_jit_state(state, 3)
    with pytest.raises(ValueError, match="is not an array of numbers of shape"):
        check_jit_state(state._replace(**{name: wrong}), 3)


@pytest.mark.parametrize("nodes", [[[0.0, 1.0, 1.0]] * 3, [[0.0, np.nan, 1.0]] * 3, [[0.0]] * 3])
def test_splines_of_a_file_are_checked(nodes):
    with pytest.raises(ValueError, match="not increasing"):
        check_splines(Splines(*3 * [np.array(nodes)]), 3)


def test_splines_at_no_number():
    """No index leaves the arrays."""
    splines = mcmc.jit_state(2, nodes=5).known
    values, gradients = splines.values_and_gradients(np.array([[np.nan, 1.0], [np.inf, 1.0]]))
    assert np.isnan(values[0]) and np.isnan(gradients[0, 0]) and np.isinf(values[1])


# Compiled code


def test_fits_of_any_kind_do_not_recompile():
    """A second signature would cost seconds in the middle of a run."""
    compiled = []
    for transport, known, n, dim in [
        (IDENTITY, 0, 40, 3),
        (FUNNEL, 10, 30, 3),
        (IDENTITY, 0, 20, 2),
    ]:
        process = fitted(transport, known, n, dim)
        assert type(process.jit_state) is SurrogateJitState
        z = process.coordinates(np.zeros((1, dim)))
        jit_state.values(process.jit_state, z)
        jit_state.gradients(process.jit_state, z)
        evaluate(process.jit_state, z[0])
        functions = (
            getattr(jit_state, name)
            for name in ("value_and_gradient", "workspace", "values_and_gradients")
        )
        compiled.append([len(f.signatures) for f in functions])
    assert compiled == compiled[:1] * 3
