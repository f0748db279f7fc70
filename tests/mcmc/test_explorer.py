"""The mass of a mode by its surrogate, and the values that the surrogate explains."""

from types import SimpleNamespace

import numpy as np
import pytest

from kmc.mcmc.explorer import _past_cap, log_mass, unexplained
from kmc.surrogates import FitOptions, fit_surrogate
from tests.mcmc.modes import plan_for


def test_the_mass_of_a_gaussian():
    rng = np.random.default_rng(0)
    width = 0.3
    plan = plan_for(lambda x: 4.0 - 0.5 * float(x @ x) / width**2, width * rng.standard_normal((400, 4)), rng)
    assert log_mass(plan, rng) == pytest.approx(4.0 + 4 * np.log(width), abs=0.15)  # weights have a sd of about 1


@pytest.mark.parametrize("dof", [0.0, 4.0])
def test_a_trend_without_its_cap(dof):
    """Far from a Gaussian the surrogate less what the cap takes away is the Gaussian; a Student-t trend has no cap."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((200, 3)) * (np.sqrt(dof / rng.chisquare(dof, (200, 1))) if dof else 1.0)
    far_away = np.vstack([x[:5], 12.0 * rng.standard_normal((20, 3)), np.full((1, 3), 40.0)])

    def log_density(x):
        square = np.sum(x**2, axis=1)
        return -0.5 * (dof + 3) * np.log1p(square / dof) if dof else -0.5 * square

    surrogate = fit_surrogate(x, log_density(x), x, rng=rng, options=FitOptions(bandwidths=(7.0,)))
    assert surrogate.trend.dof == dof
    past = _past_cap(surrogate, far_away)
    if dof:
        np.testing.assert_array_equal(past, 0.0)
    else:
        assert np.all(past[:5] == 0.0) and past[-1] > 1000.0
        np.testing.assert_allclose(surrogate.log_density(far_away) - past, log_density(far_away), rtol=1e-4, atol=1e-4)


def test_values_far_above_all_surrogates_are_unexplained():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 2))
    values = -0.5 * np.sum(x**2, axis=1)
    trainer = SimpleNamespace(history=SimpleNamespace(log_density=values))
    explorers = [
        SimpleNamespace(
            mixture=plan_for(lambda x, c=center: -0.5 * float((x - c) @ (x - c)), x + center, rng), trainer=trainer
        )
        for center in (0.0, 8.0)
    ]
    points = np.array([[0.5, 0.0], [8.0, 7.0], [0.0, 6.0], [0.0, 6.0]])
    found = np.array([-0.1, -0.5, -17.5, -5.0])
    assert unexplained(explorers, points, found).tolist() == [False, False, False, True]
    assert unexplained(explorers[:1], points, found).tolist() == [False, True, False, True]
    assert unexplained(explorers, points[:0], found[:0]).shape == (0,)
