from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmarks.targets import StudentT
from kmc.surrogate.coordinates.search import find_transports
from kmc.surrogate.coordinates.tails import HeavyTails, heavy_tails
from tests.correctness.invariance import case, runs
from tests.grids import slow_except

MATRIX = np.array([[1.0, 0.2, 0.0], [-0.3, 0.8, 0.1], [0.0, 0.4, 2.0]])
ORIGIN = np.array([0.5, -1.0, 30.0])
RADIAL = HeavyTails(ORIGIN, MATRIX, np.linalg.inv(MATRIX), np.array([2.0]), radial=True)
SEPARATE = HeavyTails(
    ORIGIN, np.diag([1.0, 3.0, 0.1]), np.diag([1.0, 1 / 3, 10.0]), np.array([1.0, 2.5, 9.0]), False
)
BOTH = pytest.mark.parametrize("tails", [RADIAL, SEPARATE], ids=["radial", "separate"])


def points(n=300):
    """From very near to very far."""
    rng = np.random.default_rng(1)
    return ORIGIN + rng.standard_normal((n, 3)) * np.exp(rng.uniform(-14, 14, (n, 1)))


@BOTH
def test_there_and_back(tails):
    x = points()
    length = np.linalg.norm(x - ORIGIN, axis=1, keepdims=True)
    np.testing.assert_allclose((tails.back(tails(x)) - x) / length, 0.0, atol=1e-8)
    np.testing.assert_array_equal(tails(ORIGIN[None]), np.zeros((1, 3)))
    np.testing.assert_allclose(tails.back(np.zeros((1, 3)))[0], ORIGIN)


@BOTH
def test_the_jacobian_is_that_of_differences(tails):
    x = points(100)
    for row in x:
        step = 1e-5 * np.linalg.norm(row - ORIGIN)
        columns = [
            (tails((row + e)[None])[0] - tails((row - e)[None])[0]) / (2 * step)
            for e in step * np.eye(3)
        ]
        expected = np.linalg.slogdet(columns)[1]
        np.testing.assert_allclose(tails.log_jacobian(row[None])[0], expected, atol=1e-3)


def test_student_draws_become_normal():
    target = StudentT(4, 2.0)
    draws = target.sample(np.random.default_rng(3), 5000)
    tails = HeavyTails(np.zeros(4), np.eye(4), np.eye(4), np.array([2.0]), radial=True)
    u = tails(draws)
    assert stats.kstest(np.sum(u**2, axis=1), stats.chi2(4).cdf).pvalue > 1e-4
    assert stats.kstest(u[:, 2], "norm").pvalue > 1e-4
    density = (
        np.array([target(x) for x in draws])
        - tails.log_jacobian(draws)
        + 0.5 * np.sum(u**2, axis=1)
    )
    assert np.ptp(density) < 1e-8


def found(target, sample):
    rng = np.random.default_rng(21)
    x, states = (sample(size=(n, 3), random_state=rng) for n in (600, 80))
    return find_transports(x, np.array([target(row) for row in x]), states)[-1]


def test_correlated_heavy_tails_are_found():
    target = StudentT(6, 2.0)
    tails = found(target, lambda size, random_state: target.sample(random_state, size[0]))
    assert isinstance(tails, HeavyTails) and tails.radial
    np.testing.assert_allclose(tails.dofs, 2.0, atol=0.01)  # the values have no noise


def test_tails_of_their_own_are_found():
    dofs = np.array([1.0, 3.0, 8.0])
    tails = found(lambda x: stats.t.logpdf(x, dofs).sum(), stats.t(dofs).rvs)
    assert isinstance(tails, HeavyTails) and not tails.radial
    np.testing.assert_allclose(tails.dofs, dofs, atol=0.01)


def misfit(tails, x, values):
    """The standard deviation of values from the Student-t density whose tails these are."""
    return np.std(values - tails.log_jacobian(x) + 0.5 * np.sum(tails(x) ** 2, axis=1))


def test_no_other_tails_nearby_fit_values_of_another_density_better():
    """Where no tails are exact, a wrong derivative would end elsewhere."""
    rng = np.random.default_rng(22)
    x = stats.logistic.rvs(size=(400, 3), random_state=rng) + np.array([0.0, 1.0, 2.0])
    values = stats.logistic.logpdf(x - np.array([0.0, 1.0, 2.0])).sum(axis=1) + 0.3 * np.cos(
        2 * x[:, 0]
    )
    for tails in heavy_tails(x, values, np.ones(len(x)), states=x):
        best = misfit(tails, x, values)
        scales = np.exp(0.02 * np.eye(3))
        others = [replace(tails, dofs=tails.dofs * factor) for factor in (0.9, 1.1)]
        others += [
            replace(tails, origin=tails.origin + shift)
            for shift in 0.05 * np.vstack([np.eye(3), -np.eye(3)])
        ]
        others += [
            replace(tails, matrix=matrix)
            for scale in scales
            for matrix in (tails.matrix * scale, tails.matrix / scale)
        ]
        assert all(misfit(other, x, values) > best for other in others)


@pytest.mark.parametrize("name", slow_except(["student-t", "banana"], {"banana"}))
@pytest.mark.parametrize("radial", [True, False])
def test_runs_in_such_coordinates_leave_a_target_invariant(name, radial):
    """With tails that are not the target's."""
    one = case(name)
    dofs = np.array([1.5]) if radial else np.linspace(1.0, 8.0, one.dim)
    tails = HeavyTails(
        one._center + 0.3 * one.scale, np.diag(1 / one.scale), np.diag(one.scale), dofs, radial
    )
    one.check(runs(one, one._fitted(one.values, tails), archive_probability=0.0))
