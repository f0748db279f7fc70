import numpy as np
import pytest
import spectral_sketches as benchmark

from tests.oracles import sketches as oracle


def test_the_rand_index():
    rng = np.random.default_rng(0)
    one, two = rng.integers(0, 3, 40), rng.integers(0, 4, 40)
    assert benchmark.rand_index(one, two) == pytest.approx(oracle.rand_index(one, two))
    assert benchmark.rand_index(one > 0, one == 0) == 1.0


def test_a_plane_between_classes():
    x = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [1.0, 3.0]])
    assert benchmark.plane_accuracy(x + 100.0, np.array([False, False, True, True])) == 1.0
    assert benchmark.plane_accuracy(x, np.array([False, True, True, False])) < 1.0


def test_the_paper_s_bandwidth():
    """K = exp(-|x - y|²/σ²) with σ the lower quartile of the distances."""
    points = np.array([[0.0], [1.0], [3.0], [4.0]])
    distances = [1, 3, 4, 2, 3, 1]
    assert benchmark.quartile_bandwidth(points) == pytest.approx(np.sqrt(np.percentile(np.square(distances), 25) / 2))


@pytest.mark.parametrize("make", benchmark.SHAPES.values(), ids=benchmark.SHAPES)
def test_shapes_are_two_classes_apart(make):
    x, classes = make(np.random.default_rng(0), 400)
    radius = np.linalg.norm(x, axis=1)
    assert radius[~classes].max() < radius[classes].min() and 0.5 <= classes.mean() <= 0.75
