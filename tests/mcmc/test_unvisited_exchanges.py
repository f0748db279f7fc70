"""Points with exchanged groups of coordinates, and runs that lack a mode where labels can be exchanged."""

import numpy as np
import pytest

import kmc
from kmc.mcmc.unvisited import exchanges


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([1, 2], [[2, 1]]),
        ([1, 2, 3, 4], [[2, 1, 4, 3], [3, 4, 1, 2]]),  # (a1, b1, a2, b2) and (a1, a2, b1, b2)
        ([1, 2, 3, 4, 5], [[2, 1, 4, 3, 5], [2, 1, 4, 3, -5], [3, 4, 1, 2, 5], [3, 4, 1, 2, -5]]),
        ([5, 1, 2], [[5, 2, 1], [-5, 2, 1]]),
        ([1, 2, 3, 4, 5, 6], [[2, 1, 3, 5, 4, 6], [3, 4, 1, 2, 5, 6]]),
    ],
)
def test_groups_of_equal_size_change_places(x, expected):
    found = exchanges(np.array(x, float), 100).tolist()
    assert all(list(map(float, row)) in found for row in expected)
    assert len(set(map(tuple, found))) == len(found) and list(map(float, x)) not in found


def test_there_are_at_most_as_many_as_are_asked_for_and_none_without_a_difference():
    assert len(exchanges(np.arange(7.0), 3)) == 3 and not len(exchanges(np.arange(7.0), 0))
    assert not len(exchanges(np.ones(4), 9)) and not len(exchanges(np.ones(1), 9))


def exchangeable(x):
    """Two components with equal priors: each order of them is a mode."""
    order = np.array([[-15.0, 15.0], [15.0, -15.0]])
    return float(np.logaddexp.reduce(-0.5 * np.sum((x - order) ** 2, axis=1)))


def test_a_mode_with_other_labels_is_told():
    initial = np.array([-15.0, 15.0]) + 0.5 * np.random.default_rng(0).standard_normal((4, 2))
    options = {"draws": None, "max_evaluations": 800, "seed": 1, "progress": False}
    with pytest.warns(kmc.KmcWarning, match="possibly another mode"):
        idata = kmc.sample(exchangeable, dim=2, initial=initial, **options)
    assert np.all(idata.posterior["x"].values[..., 0] < 0)
    assert idata.attrs["n_evaluations"] <= 800


def test_a_run_without_other_modes_has_no_such_warning():
    idata = kmc.sample(lambda x: -0.5 * float(x @ x), dim=4, draws=None, max_evaluations=900, seed=1, progress=False)
    assert "unvisited-mode" not in idata.attrs["warning_codes"]
