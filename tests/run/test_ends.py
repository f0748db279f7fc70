"""Draws between two bounds that look like an angle cut by the boundary."""

import numpy as np
import pytest
from scipy import stats

from kmc.run.ends import at_both_ends


def told(y):
    return bool(at_both_ends({"y": (0.0, 1.0)}, {"y": np.reshape(y, (4, -1))}))


@pytest.mark.parametrize("center", [-0.1, -0.02, 0.0, 0.02, 0.1])
@pytest.mark.parametrize("sd", [0.005, 0.02, 0.06, 0.12])
def test_a_mode_across_the_boundary_is_reported(center, sd):
    rng = np.random.default_rng(0)
    expected = abs(center) < 2 * sd  # else one side has next to nothing
    for _ in range(5):
        assert told(rng.normal(center, sd, 2000) % 1.0) == expected


@pytest.mark.parametrize(
    "law",
    [
        stats.uniform(),
        stats.beta(2, 2),
        stats.beta(1, 1.5),
        stats.beta(0.5, 30),
        stats.beta(30, 0.5),
        stats.beta(0.7, 0.7),
        stats.expon(scale=0.05),
        stats.beta(40, 40),
    ],
)
def test_mass_at_one_end_or_everywhere_is_not(law):
    rng = np.random.default_rng(1)
    for _ in range(20):
        y = law.rvs(400, random_state=rng)
        assert not told(np.clip(y, 1e-9, 1 - 1e-9))


def test_two_modes_well_inside_are_not():
    rng = np.random.default_rng(2)
    assert not told(rng.normal(np.repeat([0.06, 0.94], 500), 0.01))


def test_few_draws_say_nothing():
    assert not told(np.random.default_rng(3).normal(0, 0.01, 96) % 1.0)


def test_elements_and_bounds_are_named():
    rng = np.random.default_rng(4)
    values = {"phi": rng.uniform(0, 360, (4, 100, 2)), "p": rng.uniform(0, 1, (4, 100))}
    values["phi"][..., 1] = rng.normal(0, 10, (4, 100)) % 360
    (found,) = at_both_ends({"phi": (0.0, 360.0), "p": (0.0, 1.0)}, values)
    assert found == ("phi[1]", 0.0, 360.0, True)
