import numpy as np
import pytest

from kmc.spectral.clustering import kmeans, nearest
from tests.oracles import sketches as oracle

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_best_of_all_partitions(k):
    points = RNG.standard_normal((8, 2))
    inertia, labels = oracle.kmeans_partition(points, k)
    found = kmeans(points, k, np.random.default_rng(1), n_init=30)
    assert found.inertia == pytest.approx(inertia)
    assert oracle.rand_index(found.labels, labels) == 1.0
    means = [points[found.labels == j].mean(axis=0) for j in range(k)]
    np.testing.assert_allclose(found.centers, means)


def test_a_large_offset_costs_no_digits():
    points = RNG.standard_normal((50, 2))
    one = kmeans(points, 4, np.random.default_rng(3))
    two = kmeans(points + 1e6, 4, np.random.default_rng(3))
    np.testing.assert_array_equal(one.labels, two.labels)
    assert two.inertia == pytest.approx(one.inertia, rel=1e-6)


def test_as_many_clusters_as_places():
    points = np.repeat(np.arange(5.0)[:, None], 4, axis=0)
    found = kmeans(points, 5, np.random.default_rng(4))
    assert found.inertia == pytest.approx(0.0, abs=1e-20)
    assert len(np.unique(found.labels)) == 5
    with pytest.raises(ValueError, match="n_clusters=6: only 5 of the points are distinct"):
        kmeans(points, 6, np.random.default_rng(4))


def test_a_cluster_that_loses_its_points_gets_another():
    """From these three centers the first step leaves one without points."""
    from kmc.spectral.clustering import _lloyd

    points = np.array([[0.0], [0.1], [10.0], [10.1], [30.0]])
    found = _lloyd(points, np.array([[0.0], [10.0], [-50.0]]))
    assert len(np.unique(found.labels)) == 3
    assert found.inertia == pytest.approx(0.01)


def test_nearest_centers():
    points, centers = RNG.standard_normal((40, 3)), RNG.standard_normal((6, 3))
    squared = ((points[:, None] - centers) ** 2).sum(axis=2)
    labels, distances = nearest(points, centers)
    np.testing.assert_array_equal(labels, squared.argmin(axis=1))
    np.testing.assert_allclose(distances, squared.min(axis=1))
