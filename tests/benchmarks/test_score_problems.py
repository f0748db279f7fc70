"""The densities of the score benchmarks: scores compared with differences, draws with scores."""

import numpy as np
import pytest
from score_problems import NOISE, RADII, Bumps, Grid, Ring, fisher_divergence

PROBLEMS = [Ring(2), Ring(4), Grid(2, seed=1), Grid(5, seed=2), Bumps()]


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_score_is_the_gradient_of_the_log_density(problem):
    x = problem.sample(np.random.default_rng(0), 20)
    h = 1e-5
    shifts = h * np.eye(problem.dim)
    differences = [(problem.log_density(x + e) - problem.log_density(x - e)) / (2 * h) for e in shifts]
    # second-order differences: h² times third derivatives of up to 1/noise³, and rounding of 1e-15 · 100 / h
    assert np.allclose(np.stack(differences, axis=1), problem.score(x), atol=1e-4)


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_draws_agree_with_the_score(problem):
    """Stein: E[s] = 0 and E[x_i s_j] = -δ_ij; a wrong weight of a component or a missing -1/r would show."""
    n = 40_000
    x = problem.sample(np.random.default_rng(1), n)
    s = problem.score(x)
    moments = np.concatenate([s, (x[:, :, None] * s[:, None, :] + np.eye(problem.dim)).reshape(n, -1)], axis=1)
    z = moments.mean(0) / (moments.std(0) / np.sqrt(n))
    assert np.abs(z).max() < 4.5  # the largest of at most 30 standard normals


def test_vertices_are_distinct_corners():
    vertices = Grid(6, seed=3).vertices
    assert set(np.unique(vertices)) == {0.0, 1.0}
    assert len(np.unique(vertices, axis=0)) == 6
    assert not np.array_equal(vertices, Grid(6, seed=4).vertices)


def test_rings_hold_draws_in_proportion_to_their_length():
    x = Ring(3).sample(np.random.default_rng(2), 20_000)
    radius = np.linalg.norm(x[:, :2], axis=1)
    nearest = np.argmin(np.abs(radius[:, None] - RADII), axis=1)
    assert np.allclose(np.bincount(nearest) / len(x), RADII / RADII.sum(), atol=0.015)
    assert np.std(radius - RADII[nearest]) == pytest.approx(NOISE, rel=0.03)


def test_fisher_divergence_of_a_shifted_normal():
    """The scores of N(0, 1) and N(m, 1) differ by m everywhere: J = m²/2 in each coordinate."""
    x = np.random.default_rng(3).standard_normal((10, 2))
    assert fisher_divergence(-(x - 0.6), -x) == pytest.approx(0.36)
