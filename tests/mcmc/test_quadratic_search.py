"""The local search by quadratic models finds the bulk with few evaluations, and says what surrounds it."""

import numpy as np
import pytest

from kmc.mcmc.quadratic_search import QuadraticSearch, StartSearch
from kmc.run.store import plain

MIXING = np.array([[1.0, 0.6, 0.0, 0.3], [0.0, 1.0, 0.8, 0.0], [0.0, 0.0, 1.0, 0.5], [0.0, 0.0, 0.0, 1.0]])
CENTER = np.array([1.0, -2.0, 0.5, 1.5])


def gaussian(x):
    return -0.5 * float(np.sum((MIXING @ (x - CENTER)) ** 2))


def banana(x):
    return -0.5 * float(x[0] ** 2 / 4 + (x[1] - 0.5 * x[0] ** 2 + 2) ** 2 + np.sum(x[2:] ** 2))


def searched(log_density, start, most=200):
    search = QuadraticSearch(start, log_density(start))
    while not search.ended and search.n_evaluations < most:
        points = search.ask()
        search.tell(np.array([log_density(x) for x in points]))
    return search


def test_a_gaussian_is_found_and_known():
    start = CENTER + np.array([3.0, 2.0, -3.0, 2.0])
    search = searched(gaussian, start)
    assert search.value > -0.5 and search.n_evaluations <= 40
    assert gaussian(search.position) == search.value > gaussian(start) + 5


def test_the_curvature_of_as_many_values_as_a_quadratic_has_terms():
    rng = np.random.default_rng(0)
    search = QuadraticSearch(CENTER + 0.5, gaussian(CENTER + 0.5))
    for _ in range(40):
        search.tell(np.array([gaussian(x) for x in search.ask()]))
    z = rng.standard_normal((20, 4))
    exact = np.linalg.inv(MIXING.T @ MIXING)
    ratio = np.einsum("ij,jk,ik->i", z, search.covariance(), z) / np.einsum("ij,jk,ik->i", z, exact, z)
    assert ratio.min() > 0.2 and ratio.max() < 5


@pytest.mark.parametrize("seed", range(3))
def test_along_a_bent_ridge(seed):
    start = np.random.default_rng(seed).standard_normal(6) * 3
    search = searched(banana, start)
    assert search.value > -4.0 and search.n_evaluations < 80


def test_zero_density_is_left():
    def bounded(x):
        return gaussian(x) if x[0] > 0.5 else -np.inf

    search = searched(bounded, CENTER + np.array([0.2, 2.0, -2.0, 1.0]))
    assert search.value > -3.0


def test_the_limit_and_the_cloud_around_the_end():
    rng = np.random.default_rng(1)
    scales = np.array([1e-3, 1.0, 1e4, 10.0])
    initial = scales * (CENTER + 2 * rng.standard_normal((4, 4)))
    values = np.array([gaussian(x / scales) for x in initial])
    search = StartSearch(initial, values, 30)
    n = 0
    while not search.ended:
        points = search.points
        n += len(points)
        search.tell(np.array([gaussian(x / scales) for x in points]))
    assert n <= 30
    end, value = search.end()
    assert value == pytest.approx(gaussian(end / scales)) and value > values.max()
    cloud = search.cloud(400, rng)
    np.testing.assert_allclose(cloud.mean(axis=0), end, atol=0.5 * cloud.std(axis=0).max())
    depth = np.median([value - gaussian(x / scales) for x in cloud])
    assert 0.2 < depth < 20


def test_a_flat_density_ends_it():
    search = searched(lambda x: 0.0, np.array([1.0, 2.0]))
    assert search.n_evaluations < 20 and search.value == 0.0
    np.testing.assert_allclose(search.covariance(), np.eye(2))


def test_a_search_is_stored_and_goes_on_as_before():
    initial = CENTER + np.arange(16.0).reshape(4, 4) / 4
    search = StartSearch(initial, np.array([gaussian(x) for x in initial]), 40)
    for _ in range(4):
        search.tell(np.array([gaussian(x) for x in search.points]))
    again = plain.restore(plain.flatten(search))
    for one in (search, again):
        one.tell(np.array([gaussian(x) for x in one.points]))
    np.testing.assert_array_equal(search.points, again.points)
    assert search.end()[1] == again.end()[1]
