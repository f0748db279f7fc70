import numpy as np
import pytest

from kmc.landmarks import spread


@pytest.fixture
def points():
    return np.random.default_rng(9).standard_normal((500, 3))


@pytest.mark.parametrize("seed", range(5))
def test_extremes_are_covered(points, seed):
    """Five far points among 500: a random choice of 40 would miss most of them, the farthest points
    are they.
    """
    far = np.arange(0, 500, 100)
    points[far] *= 20.0 / np.linalg.norm(points[far], axis=1, keepdims=True)
    assert np.isin(far, spread(points, 40, np.random.default_rng(seed))).all()


def test_the_bulk_is_covered_too(points):
    """At least half of the landmarks are a random sample, of which half lie inside the median
    radius.
    """
    radius = np.linalg.norm(points, axis=1)
    inside = radius[spread(points, 100, np.random.default_rng(2))] < np.median(radius)
    assert inside.sum() >= 15  # at least 25 ± 5 expected; hardly any if all were farthest points


def test_weights_draw_the_random_part(points):
    heavy = points[:, 0] > 0
    chosen = spread(points, 100, np.random.default_rng(2), np.where(heavy, 1.0, 1e-6), rim=0.0)
    assert heavy[chosen].all()


def test_same_seed_same_landmarks(points):
    first, same, other = (spread(points, 60, np.random.default_rng(seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, same)
    assert set(first) != set(other)
