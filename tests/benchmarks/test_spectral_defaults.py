import numpy as np
import pytest
from spectral_defaults import (
    OnAGrid,
    Outcome,
    beside_samples,
    counts,
    group_of,
    mixture,
    muller,
    outcome,
    problems,
    quartic,
    read,
    write,
)
from spectral_problems import DoubleWell, Normal

from kmc.spectral import DiffusionMap
from tests.oracles.differences import gradients


def test_finite_volumes():
    np.testing.assert_allclose(quartic(2.0).eigenvalues(2), DoubleWell(2.0).eigenvalues(2), rtol=1e-3)
    plane = OnAGrid("normal", lambda x: 0.5 * np.sum(x**2, axis=1), lambda x: x, ((-6.0, 6.0), (-6.0, 6.0)), 60, 1)
    np.testing.assert_allclose(plane.eigenvalues(4), [1, 1, 1, 2], rtol=0.02)
    assert plane.dim == 3


@pytest.mark.parametrize("problem", [p for p in problems() if not isinstance(p, Normal)], ids=lambda p: p.name)
def test_scores_are_gradients(problem):
    x = np.random.default_rng(0).uniform(-1, 1, (3, len(problem.box)))
    expected = gradients(lambda p: -problem.potential(p), x)
    whole = np.hstack([x, np.ones((3, problem.normal))])
    np.testing.assert_allclose(problem.score(whole)[:, : x.shape[1]], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(problem.score(whole)[:, x.shape[1] :], -1.0)


def test_draws_have_the_density():
    problem = mixture("two", np.array([[-2.0], [2.0]]), 0.5, ((-5.0, 5.0),), 2, 400)
    x = problem.sample(np.random.default_rng(0), 20_000)
    assert x.shape == (20_000, 3)
    np.testing.assert_allclose(x.var(axis=0), [4.25, 1, 1], rtol=0.05)
    assert -150 < muller(40.0).potential(np.array([[-0.558, 1.442]]))[0] * 40 < -140  # the deepest minimum: -146.7


def test_an_outcome_is_silent_if_it_is_wrong_without_a_warning():
    found = outcome(Normal(2), 400, 0, True)
    assert found.true_gap == 1.0 and found.worst < 1.5 and not found.silent
    wrong = Outcome("p", 10, 0, False, 3.0, 1.0, 3.0, 1, False, 0.0)
    assert wrong.silent


@pytest.mark.slow
def test_a_score_that_does_not_confirm_changes_nothing():
    """Here bandwidths that are hardly distinguished by samples differ in residuals."""
    problem = muller(40.0)
    x = problem.sample(np.random.default_rng([202, 2000]), 2000)
    alone, with_score = (DiffusionMap(3, score_function=f, random_state=202).fit(x) for f in (None, problem.score))
    assert not with_score.cv_results_["n_modes"][with_score.cv_results_["pointwise"]].any()
    np.testing.assert_allclose(with_score.eigenvalues_, alone.eigenvalues_, rtol=1e-6)


def test_tables_and_rows(tmp_path):
    rows = [
        Outcome("N(0, I2)", 500, 1, score, gap, 1.0, worst, 3, warned, 0.1)
        for score, gap, worst, warned in ((False, 1.2, 1.2, True), (True, 1.1, 1.6, False))
    ] + [Outcome("two Gaussians x N(0, I9)", 500, 1, False, 0.1, 0.05, 2.0, 3, True, 0.1)]
    write(rows, tmp_path / "rows.csv")
    assert read(tmp_path / "rows.csv") == rows
    assert "| N(0, I_d), d = 1 to 30 | 500 | no | 1 | 1 | 0 | 0 | 1 | 1.2 |" in counts(rows)
    assert "| N(0, I_d), d = 1 to 30 | 500 | yes | 1 | 0 | 1 | 1 | 0 | 1.6 |" in counts(rows)
    assert "| two Gaussians × N(0, I9) | 500 | no | 1 | 1 | 1 | 0 | 0 | 2 |" in counts(rows)
    assert "| N(0, I2) | 0.2 | 0.1 |" in beside_samples(rows)
    assert all(group_of(problem.name) for problem in problems())
