import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from kmc.kernels import median_distance, squared_distances


@pytest.mark.parametrize("dim", [1, 3, 30])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_they_keep_their_digits_far_from_the_origin(dim, offset):
    rng = np.random.default_rng(1)
    x, y = offset + rng.standard_normal((40, dim)), offset + rng.standard_normal((20, dim))
    s = squared_distances(x, y)
    # cdist subtracts first, so the offset costs it nothing; three sums of d squares round to a few
    # eps of their size.
    np.testing.assert_allclose(
        s, cdist(x, y, "sqeuclidean"), rtol=0, atol=1e-15 * (10 + dim) * s.max()
    )


@pytest.mark.parametrize("separation", [1e-1, 1e-3, 1e-6])
def test_close_pairs_keep_their_digits(separation):
    """The distance of a pair is off by the rounding of its centered coordinates, however close the
    pair.
    """
    rng = np.random.default_rng(3)
    x = rng.standard_normal((50, 4))
    y = x + separation * rng.standard_normal((50, 4))
    distances = np.sqrt(squared_distances(x, y))
    np.testing.assert_allclose(distances, cdist(x, y), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_at_coincidence_it_is_zero_and_elsewhere_positive(offset):
    rng = np.random.default_rng(2)
    x = offset + rng.standard_normal((100, 5))
    s = squared_distances(x, x)
    np.testing.assert_array_equal(s == 0, np.eye(100, dtype=bool))
    assert s.min() == 0.0
    np.testing.assert_array_equal(squared_distances(x[:, :1], x[:, :1]).diagonal(), 0.0)


def test_any_arrays():
    """Integers, float32, Fortran order, read-only: the same numbers."""
    x, y = np.arange(12.0).reshape(4, 3) ** 2, np.arange(6.0).reshape(2, 3)
    expected = cdist(x, y, "sqeuclidean")
    frozen = x.copy()
    frozen.flags.writeable = False
    for other in (x.astype(int), x.astype(np.float32), np.asfortranarray(x), frozen, x.tolist()):
        np.testing.assert_allclose(squared_distances(other, y), expected, rtol=1e-13)


def test_no_points():
    assert squared_distances(np.empty((0, 2)), np.ones((3, 2))).shape == (0, 3)
    assert squared_distances(np.ones((3, 2)), np.empty((0, 2))).shape == (3, 0)


def test_nan_is_not_hidden():
    x = np.array([[0.0], [np.nan]])
    np.testing.assert_array_equal(
        np.isnan(squared_distances(x, np.ones((2, 1)))), [[False, False], [True, True]]
    )


def test_median_distance():
    points = np.random.default_rng(16).standard_normal((31, 3))
    assert median_distance(points) == pytest.approx(np.median(pdist(points)))


def test_a_large_sample_is_thinned_evenly():
    points = np.linspace(0.0, 1.0, 20_001)[:, None]  # |x - y| of uniforms has median 1 - 1/sqrt(2)
    assert median_distance(points) == pytest.approx(1 - np.sqrt(0.5), rel=2e-3)


def test_duplicates_do_not_make_it_zero():
    points = np.repeat([[0.0], [2.0]], [30, 1], axis=0)
    assert median_distance(points) == 2.0


def test_equal_points_have_no_distance():
    with pytest.raises(ValueError, match="all 3 points are equal"):
        median_distance(np.ones((3, 2)))
