from itertools import product

import numpy as np
import pytest

from kmc.kernels import (
    Exponential,
    Gaussian,
    InverseMultiquadric,
    Matern52,
    Matern72,
    Metric,
    Polynomial,
    axes_of,
    derivative,
    kernel_derivative,
)
from kmc.kernels.derivatives import ORDERS
from tests.kernels import cases
from tests.kernels.cases import DIAGONAL, DIM, WIDE
from tests.oracles import kernels as oracle

SHAPES = {"x": (3,), "y": (3,), "xy": (3, 3), "xxy": (3,), "xyy": (3,)}
names = pytest.mark.parametrize("name", ORDERS)

X = np.random.default_rng(0).standard_normal((4, DIM))
Y = np.random.default_rng(1).standard_normal((3, DIM))
KERNELS = {
    "gaussian": Gaussian(1.3),
    "metric": Metric(Gaussian(1.3), WIDE),
    "matern72": Matern72(2.0),
    "polynomial": Metric(Polynomial(4, bandwidth=2.0), WIDE),
    "mixed": Metric(0.5 * (Gaussian(1.5) * Polynomial(2, bandwidth=2.0)) + Gaussian(), DIAGONAL),
}
UP_TO_4 = [index for index in product(range(4), repeat=DIM) if 1 <= sum(index) <= 4]


@pytest.fixture(scope="module")
def points():
    """Two and two, no pair closer than about one."""
    return np.array([[0.3, -0.8, 0.5], [1.1, 0.4, -0.9]]), np.array(
        [[-0.7, 0.6, 0.2], [0.2, 0.9, 1.3]]
    )


def differences(kernel, name, x, y):
    return np.array([[oracle.partial(kernel, name, a, b) for b in y] for a in x])


def error_of_differences(name, values):
    """Error of the oracle's steps, relative to the largest value."""
    return (5e-8 if name == "xxyy" else 2e-9) * max(1, np.abs(values).max())


@names
@pytest.mark.parametrize("kernel", cases.ALL.values(), ids=cases.ALL)
def test_against_differences(kernel, name, points):
    x, y = points
    ours = kernel_derivative(kernel, name, x, y)
    assert ours.shape == (2, 2, *SHAPES.get(name, ()))
    expected = differences(kernel, name, x, y)
    np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=error_of_differences(name, ours))


@names
@pytest.mark.parametrize("kernel", cases.SMOOTH.values(), ids=cases.SMOOTH)
def test_smooth_kernels_at_coincident_points(kernel, name, points):
    x, _ = points
    ours = kernel_derivative(kernel, name, x[:1], x[:1])
    expected = differences(kernel, name, x[:1], x[:1])
    np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=error_of_differences(name, ours))


@names
@pytest.mark.parametrize("kernel", cases.ROUGH_COMPOSITES.values(), ids=cases.ROUGH_COMPOSITES)
def test_matern_kernels_continue_to_coincident_points(kernel, name, points):
    """All nine exist there (four derivatives in all), and are the limit of those at close points,
    both finite.
    """
    x, _ = points
    at = kernel_derivative(kernel, name, x, x)[0, 0]
    near = kernel_derivative(kernel, name, x, x + 1e-7 / np.sqrt(3))[0, 0]
    np.testing.assert_allclose(at, near, atol=2e-5 * max(1, np.abs(at).max()))


@pytest.mark.parametrize("kernel", [Matern52(2.0), Matern72(2.0)], ids=repr)
def test_matern_kernels_at_coincident_points(kernel):
    """Of the nine, k = 1, xy = -2q', xx = 2dq', xxyy = (8d + 4d²) q'' are left."""
    x = np.random.default_rng(3).standard_normal((4, 3))
    _, q1, q2 = (float(row) for row in kernel.derivatives(0.0))
    expected = dict.fromkeys(ORDERS, 0.0) | {
        "k": 1.0, "xy": -2 * q1 * np.eye(3), "xx": 6 * q1, "yy": 6 * q1, "xxyy": 60 * q2
    }  # fmt: skip
    for name, limit in expected.items():
        diagonal = np.array([row[a] for a, row in enumerate(kernel_derivative(kernel, name, x, x))])
        np.testing.assert_allclose(
            diagonal, np.broadcast_to(limit, diagonal.shape), rtol=1e-14, atol=1e-14
        )


@pytest.mark.parametrize(
    "kernel", [Exponential(2.0), Metric(Exponential(2.0), cases.TALL)], ids=["plain", "metric"]
)
def test_the_exponential_kernel_at_coincident_points_is_flat_by_convention(kernel):
    x = np.random.default_rng(4).standard_normal((40, 3))
    for name in ORDERS:
        diagonal = np.array([row[a] for a, row in enumerate(kernel_derivative(kernel, name, x, x))])
        np.testing.assert_array_equal(diagonal, np.full_like(diagonal, name == "k"))


@names
@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(1.5),
        Matern52(1.5),
        Metric(InverseMultiquadric(2.121, 1.0), cases.TALL),
        Gaussian() + Exponential(),
    ],
)
def test_digits_far_from_the_origin(kernel, name):
    """Points on a grid of 2^-20, so that adding the offset is exact."""
    rng = np.random.default_rng(5)
    x, y = (np.rint(rng.standard_normal((6, 3)) * 2**20) / 2**20 for _ in range(2))
    y[:2] = x[:2]
    near, far = (
        kernel_derivative(kernel, name, x, y),
        kernel_derivative(kernel, name, x + 1e6, y + 1e6),
    )
    np.testing.assert_allclose(far, near, rtol=1e-12, atol=1e-12 * np.abs(near).max())


def test_metrics_go_to_the_parts(points):
    """Metric(a b + c, A) is Metric(a, A) Metric(b, A) + Metric(c, A), and metrics compose."""
    x, y = points
    a, b, c = Gaussian(2.0), Polynomial(2, bandwidth=2.0), Matern52(2.0)
    outer, inner = np.array([[1.0, 0.3], [0.2, 0.9], [0.1, 0.4]]), cases.WIDE
    together = Metric(Metric(a * b + c, outer), inner)
    apart = Metric(a, outer @ inner) * Metric(b, outer @ inner) + Metric(c, outer @ inner)
    for name in ORDERS:
        np.testing.assert_allclose(
            kernel_derivative(together, name, x, y),
            kernel_derivative(apart, name, x, y),
            rtol=1e-12,
            atol=1e-13,
        )


def test_the_number_of_points_may_be_anything():
    for n, m in ((0, 3), (3, 0), (1, 1)):
        for name in ORDERS:
            for kernel in (Gaussian(), Polynomial(), Gaussian() * Polynomial()):
                shape = kernel_derivative(kernel, name, np.ones((n, 3)), np.zeros((m, 3))).shape
                assert shape == (n, m, *SHAPES.get(name, ()))


def test_results_are_writeable_and_arguments_are_left_alone(points):
    x, y = (p.copy() for p in points)
    for name in ORDERS:
        first = kernel_derivative(Gaussian(), name, x, y)
        kept = first.copy()
        first += 1.0
        np.testing.assert_array_equal(kernel_derivative(Gaussian(), name, x, y), kept)
    np.testing.assert_array_equal(np.array([x, y]), points)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.ones(3), np.ones((2, 3)), r"x has shape \(3,\): expected \(n, d\)"),
        (np.ones((2, 3)), np.ones((2, 2)), "x has 3 columns and y has 2"),
        (np.ones((2, 3)), np.full((2, 3), np.nan), "y contains NaN or infinity in row 0"),
        (np.ones((2, 0)), np.ones((2, 0)), "x has shape"),
    ],
)
def test_bad_points(x, y, message):
    with pytest.raises(ValueError, match=message):
        kernel_derivative(Gaussian(), "k", x, y)


def test_bad_names_and_kernels():
    x = np.ones((2, 3))
    with pytest.raises(ValueError, match="name='yx': expected one of 'k', 'x'"):
        kernel_derivative(Gaussian(), "yx", x, x)
    with pytest.raises(TypeError, match="kernel='gaussian': expected a kernel"):
        kernel_derivative("gaussian", "k", x, x)
    with pytest.raises(ValueError, match="matrix has 2 columns, but the points have 3 coordinates"):
        kernel_derivative(Metric(Gaussian(), [1.0, 2.0]), "k", x, x)
    with pytest.raises(
        ValueError, match="matrix has 3 columns, but the metric around it has 2 rows"
    ):
        kernel_derivative(Metric(Metric(Gaussian(), np.eye(3)), cases.WIDE), "k", x, x)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_each_is_the_derivative_of_the_one_before(kernel):
    """By central differences along the last coordinate that is derived."""
    step = 1e-5
    for index in UP_TO_4:
        last = np.flatnonzero(index)[-1]
        before = np.array(index) - (np.arange(DIM) == last)
        shift = step * (np.arange(DIM) == last)
        numeric = (
            derivative(kernel, before, X + shift, Y) - derivative(kernel, before, X - shift, Y)
        ) / (2 * step)
        np.testing.assert_allclose(
            derivative(kernel, index, X, Y), numeric, rtol=1e-6, atol=1e-7, err_msg=str(index)
        )


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_those_that_have_a_name(kernel):
    eye = np.eye(DIM, dtype=int)
    np.testing.assert_allclose(
        derivative(kernel, 0 * eye[0], X, Y), kernel_derivative(kernel, "k", X, Y)
    )
    gradient = np.stack([derivative(kernel, one, X, Y) for one in eye], axis=2)
    np.testing.assert_allclose(gradient, kernel_derivative(kernel, "x", X, Y), atol=1e-14)
    laplacian = sum(derivative(kernel, 2 * one, X, Y) for one in eye)
    np.testing.assert_allclose(laplacian, kernel_derivative(kernel, "xx", X, Y), atol=1e-13)


def test_hermite_polynomials_are_derivatives_of_the_gaussian():
    z = np.linspace(-2.0, 2.0, 9)[:, None]
    for order in range(5):
        he = np.polynomial.hermite_e.hermeval(z, np.eye(5)[order])
        expected = (-1) ** order * he * np.exp(-0.5 * z**2)
        np.testing.assert_allclose(
            derivative(Gaussian(), (order,), z, np.zeros((1, 1))), expected, atol=1e-14
        )


def test_the_kink_has_slope_zero():
    assert derivative(Exponential(), (1,), np.zeros((1, 1)), np.zeros((1, 1))) == 0.0


@pytest.mark.parametrize("index", [(1, 0), (1, -1, 0), (1.0, 0.0, 0.0), 3])
def test_indices_are_checked(index):
    with pytest.raises(ValueError, match="expected 3 whole numbers"):
        derivative(Gaussian(), index, X, Y)


def test_axes():
    assert axes_of((2, 0, 1), 3) == (0, 0, 2)
    with pytest.raises(ValueError, match="from 0 to 4"):
        derivative(Gaussian(), (3, 2, 0), X, Y)
