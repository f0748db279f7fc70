import numpy as np
import pytest
from scipy.spatial.distance import pdist

from kmc.kernels import median_distance


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
