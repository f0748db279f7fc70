"""Bijections, compared with Stan's definitions, differences, scipy's distributions and closed
forms.
"""

import numpy as np
import pytest
from scipy import stats

from kmc.model.transforms import (
    Above,
    Below,
    Between,
    CholeskySquare,
    Identity,
    Increasing,
    IsometricLogRatio,
    LogOdds,
    PartialCorrelations,
    Vector,
)
from tests.oracles import transforms as oracles

# transform, the oracle, and the components that its density is with respect to
CASES = {
    "identity": (Identity(), lambda x: x, np.ravel),
    "positive": (Above(0.0), lambda x: oracles.lower_bound(x, 0.0), np.ravel),
    "above": (Above(-2.5), lambda x: oracles.lower_bound(x, -2.5), np.ravel),
    "below": (Below(1.5), lambda x: oracles.upper_bound(x, 1.5), np.ravel),
    "unit interval": (
        Between(0.0, 1.0),
        lambda x: oracles.straight_interval(x, 0.0, 1.0),
        np.ravel,
    ),
    "interval": (Between(-3.0, 0.5), lambda x: oracles.straight_interval(x, -3.0, 0.5), np.ravel),
    "log-odds": (LogOdds(-3.0, 0.5), lambda x: oracles.interval(x, -3.0, 0.5), np.ravel),
    "simplex 2": (IsometricLogRatio(2), oracles.simplex, lambda y: y[:-1]),
    "simplex 5": (IsometricLogRatio(5), oracles.simplex, lambda y: y[:-1]),
    "ordered": (Increasing(4), oracles.ordered, np.ravel),
    "correlation 2": (
        PartialCorrelations(2),
        lambda x: oracles.cholesky_correlation(x, 2),
        lambda y: y[1, :1],
    ),
    "correlation 4": (
        PartialCorrelations(4),
        lambda x: oracles.cholesky_correlation(x, 4),
        lambda y: y[np.tril_indices(4, -1)],
    ),
    "vector": (Vector(3), lambda x: x, np.ravel),
    "positive definite 1": (CholeskySquare(1), lambda x: oracles.positive_definite(x, 1), np.ravel),
    "positive definite 3": (
        CholeskySquare(3),
        lambda x: oracles.positive_definite(x, 3),
        lambda y: y[np.tril_indices(3)],
    ),
}
EACH = pytest.mark.parametrize(("transform", "oracle", "free"), CASES.values(), ids=CASES)
# not squared
NUMBERS = [case[0] for case in CASES.values() if not isinstance(case[0], CholeskySquare)]
ALONE = pytest.mark.parametrize("transform", [case[0] for case in CASES.values()], ids=CASES)


@pytest.fixture
def rng():
    return np.random.default_rng(31)


def points(transform, rng, shape=(20,), scale=1.0):
    return scale * rng.standard_normal((*shape, *transform.unconstrained_shape))


def everywhere(transform, value):
    return np.full((1, *transform.unconstrained_shape), value)


@EACH
def test_the_definition_is_stans(transform, oracle, free, rng):
    x = points(transform, rng)
    np.testing.assert_allclose(
        transform.constrain(x), [oracle(each) for each in x], rtol=1e-12, atol=1e-14
    )


@EACH
def test_the_jacobian_is_the_determinant_of_differences(transform, oracle, free, rng):
    x = points(transform, rng)
    expected = [
        oracles.log_jacobian(
            lambda at: free(oracle(at if transform.unconstrained_shape else at[0])),
            np.atleast_1d(each),
        )
        for each in x
    ]
    np.testing.assert_allclose(transform.log_jacobian(x), expected, atol=1e-8)


@ALONE
def test_leading_axes_are_for_many_values(transform, rng):
    x = points(transform, rng, (3, 2))
    y, jacobian = transform.constrain(x), transform.log_jacobian(x)
    assert y.shape == (3, 2, *transform.shape) and jacobian.shape == (3, 2)
    assert transform.contains(y).all() and transform.contains(y).shape == (3, 2)
    np.testing.assert_array_equal(y[2, 1], transform.constrain(x[2:, 1:])[0, 0])
    np.testing.assert_array_equal(jacobian[2, 1], transform.log_jacobian(x[2:, 1:])[0, 0])
    assert transform.constrain(x[:0]).shape == (0, 2, *transform.shape)


@ALONE
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_there_and_back(transform, rng, scale):
    # where float64 still resolves values near an end
    most = 3 if isinstance(transform, CholeskySquare) else 9
    x = np.clip(points(transform, rng, (200,), scale), -most, most)
    np.testing.assert_allclose(
        transform.unconstrain(transform.constrain(x)), x, atol=1e-6, rtol=1e-6
    )


@pytest.mark.parametrize("transform", NUMBERS, ids=lambda transform: type(transform).__name__)
@pytest.mark.parametrize("value", [-700.0, -40.0, 40.0, 700.0])
def test_the_tails_are_finite_and_inside(transform, value):
    x = everywhere(transform, value)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        y, jacobian = transform.constrain(x), transform.log_jacobian(x)
    assert np.isfinite(y).all() and np.isfinite(jacobian).all()
    assert transform.contains(y).all()


@pytest.mark.parametrize(
    "transform", [Above(0.0), Above(3.0), Below(-1.0), Between(0.0, 1.0), LogOdds(2.0, 3.0)]
)
@pytest.mark.parametrize("value", [-1e6, -750.0, 750.0, 1e6])
def test_numbers_never_reach_a_bound(transform, value):
    with np.errstate(all="raise", under="ignore"):
        y, jacobian = (
            transform.constrain(np.array([value])),
            transform.log_jacobian(np.array([value])),
        )
    assert transform.contains(y).all()
    assert jacobian[0] == -np.inf or jacobian[0] < 0  # what cannot be represented has no density


@pytest.mark.parametrize("value", [-700.0, -40.0, 40.0, 700.0])
def test_matrices_are_finite_far_out(value):
    with np.errstate(all="raise", under="ignore"):
        y = CholeskySquare(3).constrain(np.full(6, value))
        jacobian = CholeskySquare(3).log_jacobian(np.full(6, value))
    assert np.isfinite(y).all() and (np.isfinite(jacobian) or value == 700.0)
    asymmetric = np.array([[1.0, 0.5], [0.4, 1.0]])
    for wrong in (asymmetric, np.ones((2, 2)), np.full((2, 2), np.nan), -np.eye(2)):
        assert not CholeskySquare(2).contains(wrong)


def test_the_tails_of_the_jacobians():
    """Leading terms at |x| = 700: -|x| for each logistic, -2 |x| for each tanh and half of that for
    what it leaves.
    """
    x = np.array([-700.0, 700.0])
    np.testing.assert_array_equal(LogOdds(0.0, 1.0).log_jacobian(x), [-700, -700])
    np.testing.assert_allclose(
        Between(0.0, 1.0).log_jacobian(x), 2 * (4 - 700) - np.log(8) + np.log1p(-np.exp(-16.0))
    )
    np.testing.assert_allclose(
        PartialCorrelations(2).log_jacobian(x[:, None]), 2 * np.log(2) - 1400
    )
    np.testing.assert_allclose(
        PartialCorrelations(3).log_jacobian(np.full((1, 3), 700.0)), 3.5 * (2 * np.log(2) - 1400)
    )
    # softmax of (a, -a), a = 700 / sqrt(2)
    np.testing.assert_allclose(
        IsometricLogRatio(2).log_jacobian(x[:, None]), -700 * np.sqrt(2) + 0.5 * np.log(2)
    )


def test_factors_are_of_correlation_matrices(rng):
    factor = PartialCorrelations(5).constrain(points(PartialCorrelations(5), rng, (50,), 3.0))
    assert (factor[:, *np.triu_indices(5, 1)] == 0).all()
    matrix = factor @ factor.swapaxes(1, 2)
    np.testing.assert_allclose(np.diagonal(matrix, axis1=1, axis2=2), 1, atol=1e-12)
    assert (np.linalg.eigvalsh(matrix) > -1e-12).all()


@pytest.mark.parametrize(
    ("transform", "outside"),
    [
        (Identity(), [np.nan, np.inf]),
        (Above(1.0), [1.0, 0.5, np.inf, np.nan]),
        (Below(1.0), [1.0, 1.5, -np.inf, np.nan]),
        (Between(0.0, 1.0), [0.0, 1.0, -0.1, 1.1, np.nan]),
        (IsometricLogRatio(2), [[0.5, 0.6], [1.0, 0.0], [1.1, -0.1], [np.nan, 0.5]]),
        (Increasing(2), [[1.0, 1.0], [2.0, 1.0], [0.0, np.inf], [np.nan, 1.0]]),
        (
            PartialCorrelations(2),
            [
                [[1, 0.6], [0, 0.8]],
                [[1, 0], [0.6, 0.9]],
                [[1, 0], [0.6, -0.8]],
                [[-1, 0], [0.6, 0.8]],
                [[1, 0], [np.nan, 0.8]],
            ],
        ),
    ],
)
def test_values_outside_the_support_are_named(transform, outside):
    assert not transform.contains(np.array(outside, float)).any()


# Independent references: scipy's distributions of transformed variables, and volumes from the
# literature.


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 1.0), (-2.0, 5.0)])
def test_a_uniform_number_is_logistic(lower, upper):
    x = np.linspace(-30, 30, 41)
    between = LogOdds(lower, upper)
    density = stats.uniform(lower, upper - lower).logpdf(
        between.constrain(x)
    ) + between.log_jacobian(x)
    np.testing.assert_allclose(density, stats.logistic.logpdf(x))


def test_an_interval_is_linear_in_its_middle():
    """Its half has the middle half of the coordinates, and a uniform number is uniform there."""
    between = Between(10.0, 18.0)
    y = np.linspace(12.0, 16.0, 41)
    np.testing.assert_allclose(between.unconstrain(y), y - 14.0, atol=0.01)
    np.testing.assert_allclose(between.log_jacobian(between.unconstrain(y)), 0.0, atol=0.02)


def grid(dim, n=81, reach=9.0):
    """Points (n^dim, dim) and the weight of each, for integrals of what is negligible past the
    reach.
    """
    axis = np.linspace(-reach, reach, n)
    return np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim), (
        axis[1] - axis[0]
    ) ** dim


def test_a_dirichlet_distribution():
    """It integrates to one, with its mean and covariance."""
    alpha = np.array([3.0, 2.0, 4.0])
    x, weight = grid(2, 161)
    y = IsometricLogRatio(3).constrain(x)
    y = y / y.sum(axis=1, keepdims=True)
    mass = weight * np.exp(
        stats.dirichlet(alpha).logpdf(y.T) + IsometricLogRatio(3).log_jacobian(x)
    )
    assert mass.sum() == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(mass @ y, stats.dirichlet(alpha).mean(), atol=1e-6)
    np.testing.assert_allclose(
        (mass * y.T) @ y - np.outer(mass @ y, mass @ y), stats.dirichlet(alpha).cov(), atol=1e-6
    )


def test_ordered_normals():
    """The density of the order statistics of three normals is 3! phi phi phi; the median has the
    variance .4487.
    """
    axes = np.linspace(-6, 6, 81), np.linspace(-14, 4, 81), np.linspace(-14, 4, 81)
    x = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    y = Increasing(3).constrain(x)
    density = 6 * np.exp(stats.norm.logpdf(y).sum(axis=1) + Increasing(3).log_jacobian(x))
    mass = density * np.prod([axis[1] - axis[0] for axis in axes])
    assert mass.sum() == pytest.approx(1, abs=1e-4)
    assert mass @ y[:, 1] == pytest.approx(0, abs=1e-4)
    assert mass @ y[:, 1] ** 2 == pytest.approx(0.4487, abs=1e-4)


@pytest.mark.parametrize(("size", "volume"), [(2, 2.0), (3, np.pi**2 / 2), (4, 32 * np.pi**2 / 27)])
def test_the_volume_of_correlation_matrices(size, volume, rng):
    """Rousseeuw and Molenberghs (1994), "The shape of correlation matrices"; the density of R has
    prod L_ii^(K - i).
    """
    transform = PartialCorrelations(size)
    x = stats.logistic(scale=0.5).rvs((200_000, *transform.unconstrained_shape), random_state=rng)
    logs = np.log(np.diagonal(transform.constrain(x), axis1=1, axis2=2)) @ (
        size - np.arange(1.0, size + 1)
    )
    ratios = np.exp(
        logs + transform.log_jacobian(x) - stats.logistic(scale=0.5).logpdf(x).sum(axis=1)
    )
    assert abs(ratios.mean() - volume) < 4 * ratios.std() / np.sqrt(len(x)) + 1e-9


@pytest.mark.arviz
@pytest.mark.parametrize(
    ("transform", "theirs"),
    [
        (Above(0.0), lambda peer: peer.log),
        (LogOdds(-3.0, 0.5), lambda peer: peer.Interval(np.float64(-3.0), np.float64(0.5))),
        (Increasing(4), lambda peer: peer.ordered),
    ],
    ids=["positive", "interval", "ordered"],
)
def test_pymc_agrees(transform, theirs, rng):
    peer = theirs(pytest.importorskip("pymc.distributions.transforms"))
    tensor = pytest.importorskip("pytensor.tensor").as_tensor
    x = points(transform, rng, (5,), 2.0)
    y = transform.constrain(x)
    np.testing.assert_allclose(peer.backward(tensor(x)).eval(), y, rtol=1e-12)
    np.testing.assert_allclose(
        peer.forward(tensor(y)).eval(), transform.unconstrain(y), rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(
        peer.log_jac_det(tensor(x)).eval(), transform.log_jacobian(x), rtol=1e-10, atol=1e-12
    )
