import numpy as np
import pytest

from kmc.kernels import Exponential, Gaussian, Metric
from tests.kernels.cases import DIAGONAL, TALL


def test_map():
    x = np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_allclose(Metric(Gaussian(), TALL).map(x), x @ TALL.T, rtol=1e-13)
    np.testing.assert_allclose(Metric(Gaussian(), DIAGONAL).map(x), x * DIAGONAL, rtol=1e-15)


@pytest.mark.parametrize("dim", [2, 7, 33])
def test_equal_points_stay_equal(dim):
    """To the last bit, wherever they stand: the exponential kernel's q' is infinite next to
    coincidence.
    """
    rng = np.random.default_rng(dim)
    x = np.tile(rng.standard_normal(dim), (37, 1))
    image = Metric(Exponential(), rng.standard_normal((dim, dim))).map(x)
    np.testing.assert_array_equal(image, np.tile(image[:1], (37, 1)))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([1.0, -1.0], "expected positive numbers on the diagonal; the least is -1"),
        ([1.0, 0.0], "expected positive numbers on the diagonal"),
        ([[1.0, np.nan]], "expected finite numbers"),
        ([np.inf], "expected finite numbers"),
        (2.0, r"shape \(\): expected \(d,\)"),
        (np.ones((1, 2, 2)), r"shape \(1, 2, 2\): expected"),
        (np.empty((0, 2)), r"shape \(0, 2\): expected"),
        (np.zeros((2, 2)), "expected a number other than zero"),
        ("identity", "expected numbers of shape"),
    ],
    ids=str,
)
def test_bad_matrices(matrix, message):
    with pytest.raises(ValueError, match=f"(?s)matrix.*{message}"):
        Metric(Gaussian(), matrix)


def test_points_must_fit():
    with pytest.raises(ValueError, match="matrix has 3 columns, but the points have 2 coordinates"):
        Metric(Gaussian(), TALL).map(np.ones((4, 2)))


def test_the_matrix_is_a_copy():
    matrix = np.eye(2)
    kernel = Metric(Gaussian(), matrix)
    matrix[0, 0] = 5.0
    assert kernel == Metric(Gaussian(), np.eye(2))
    with pytest.raises(ValueError, match="read-only"):
        kernel.matrix[0, 0] = 5.0


def test_equality():
    kernel = Metric(Gaussian(), TALL)
    assert kernel == Metric(Gaussian(), TALL.tolist())
    for other in (Metric(Gaussian(), TALL[:2]), Metric(Gaussian(2.0), TALL), Gaussian(), 1):
        assert kernel != other
