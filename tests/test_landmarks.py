import numpy as np
import pytest

from kmc.landmarks import spread


@pytest.fixture
def points():
    return np.random.default_rng(9).standard_normal((500, 3))


@pytest.mark.parametrize("count", [1, 2, 51, 499])
def test_landmarks_are_distinct_and_as_many_as_asked(points, count):
    chosen = spread(points, count, np.random.default_rng(1))
    assert len(np.unique(chosen)) == len(chosen) == count
    assert chosen.min() >= 0 and chosen.max() < 500


@pytest.mark.parametrize("count", [500, 700])
def test_few_points_are_all_taken(points, count):
    np.testing.assert_array_equal(np.sort(spread(points, count, np.random.default_rng(1))), np.arange(500))


@pytest.mark.parametrize("seed", range(5))
def test_extremes_are_covered(points, seed):
    """Twelve far points among 500: a uniform choice of 40 would miss most of them, the farthest points are they."""
    far = np.arange(0, 480, 40)
    points[far] *= 20.0 / np.linalg.norm(points[far], axis=1, keepdims=True)
    assert np.isin(far, spread(points, 40, np.random.default_rng(seed))).all()


def test_the_bulk_is_covered_too(points):
    """Half of the landmarks are a uniform choice, so half of them are inside the median radius or nearly so."""
    radius = np.linalg.norm(points, axis=1)
    inside = radius[spread(points, 100, np.random.default_rng(2))] < np.median(radius)
    assert inside.sum() >= 15  # 25 ± 5 expected; none if all were farthest points


def test_same_seed_same_landmarks(points):
    first, same, other = (spread(points, 60, np.random.default_rng(seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, same)
    assert set(first) != set(other)
