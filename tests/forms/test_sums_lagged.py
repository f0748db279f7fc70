import numpy as np
import pytest

from kmc.bases import KernelSections
from kmc.forms import accumulate, accumulate_folds
from kmc.kernels import Gaussian
from tests.forms.common import assert_same
from tests.oracles import forms as oracle

LENGTHS = 30, 4, 0, 1, 25, 5, 12


@pytest.fixture
def basis():
    return KernelSections(Gaussian(1.5), np.random.default_rng(5).standard_normal((4, 2)))


@pytest.fixture
def trajectories():
    """Walks that often stay where they are."""
    rng = np.random.default_rng(6)
    steps = [rng.standard_normal((n, 2)) * rng.integers(0, 2, (n, 1)) for n in LENGTHS]
    return [np.cumsum(step, axis=0) for step in steps]


@pytest.fixture
def weights():
    rng = np.random.default_rng(7)
    return [rng.random(n) for n in LENGTHS]


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("block", [1, 3, 17, 1000])
@pytest.mark.parametrize("lagtime", [1, 4, 20])
def test_moments_are_those_of_all_pairs(basis, trajectories, weights, lagtime, block, weighted):
    if not weighted:
        weights = [np.ones(n) for n in LENGTHS]
    got = accumulate(
        basis,
        trajectories,
        ("lagged",),
        weights=weights if weighted else None,
        lagtime=lagtime,
        block=block,
    )
    got = got.get("lagged")
    found = oracle.pairs([basis.values(x) for x in trajectories], weights, lagtime)
    first, second, w = (np.array(column) for column in zip(*found))
    assert got.weight == pytest.approx(sum(w))
    np.testing.assert_allclose(got.cross, oracle.lagged(found), rtol=1e-12)
    np.testing.assert_allclose(got.first_sum, w @ first, rtol=1e-12)
    np.testing.assert_allclose(got.second_sum, w @ second, rtol=1e-12)
    for mine, (a, b) in zip(got.covariances(), [(first, first), (first, second), (second, second)]):
        np.testing.assert_allclose(mine, oracle.covariance(a, b, w), rtol=0, atol=1e-15)
    both = accumulate(
        basis,
        trajectories,
        ("reversible",),
        weights=weights if weighted else None,
        lagtime=lagtime,
        block=block,
    ).get("lagged")
    np.testing.assert_allclose(both.first_sum, 0.5 * w @ (first + second), rtol=1e-12)
    np.testing.assert_array_equal(both.second_sum, both.first_sum)
    for moments in (got, both):
        for mine, literal in zip(moments.reversible(), oracle.reversible(found)):
            np.testing.assert_allclose(mine, literal, rtol=0, atol=1e-15)


def test_against_numpy(basis, trajectories):
    """One trajectory, no weights: NumPy's covariance of the joined samples, and a Cτ that is below
    C0.
    """
    phi = basis.values(trajectories[0])
    got = accumulate(basis, trajectories[0], ("lagged",), lagtime=5).get("lagged")
    joint = np.cov(np.hstack([phi[:-5], phi[5:]]).T, ddof=0)
    for mine, part in zip(got.covariances(), (joint[:4, :4], joint[:4, 4:], joint[4:, 4:])):
        np.testing.assert_allclose(mine, part, rtol=0, atol=1e-15)
    mass, lagged = got.reversible()
    assert np.linalg.eigvalsh(mass - lagged).min() > -1e-15
    assert np.linalg.eigvalsh(mass + lagged).min() > -1e-15


@pytest.mark.parametrize("form", ["lagged", "reversible"])
def test_folds_have_the_pairs_that_begin_in_them(basis, trajectories, weights, form):
    labels = [np.random.default_rng(k).integers(0, 3, n) for k, n in enumerate(LENGTHS)]
    folds = accumulate_folds(
        basis, trajectories, (form, "mass"), labels, weights=weights, lagtime=3, block=10
    )
    whole = accumulate(basis, trajectories, (form, "mass"), weights=weights, lagtime=3)
    for fold, part in enumerate(folds):
        mine = [w * (label == fold) for w, label in zip(weights, labels)]
        assert_same(part, accumulate(basis, trajectories, (form, "mass"), weights=mine, lagtime=3))
    assert_same(folds[0] + folds[1] + folds[2], whole)
    assert_same(whole - folds[0], folds[1] + folds[2])


@pytest.mark.parametrize("form", ["lagged", "reversible"])
def test_a_fold_in_which_nothing_changes_has_no_variance(basis, form):
    x = np.repeat([[0.3, -0.7], [0.9, 0.1]], 50, axis=0)
    one, two = accumulate_folds(basis, x, (form,), np.repeat([0, 1], 50), lagtime=2)
    assert two.lagged.weight == 48 and one.lagged.weight == 50
    assert np.abs(two.lagged.first_scatter).max() < 1e-28
    assert np.abs(two.lagged.second_scatter).max() < 1e-28


def test_a_fold_may_be_without_pairs(basis, trajectories):
    labels = np.repeat([0, 1], [sum(LENGTHS) - 3, 3])  # the end of the last trajectory
    one, none = accumulate_folds(basis, trajectories, ("lagged",), labels, lagtime=5)
    assert none.weight == 3 and none.lagged.weight == 0
    np.testing.assert_array_equal(none.lagged.cross, 0.0)
    assert_same(one.lagged, accumulate(basis, trajectories, ("lagged",), lagtime=5).lagged)
    assert_same((one + none).lagged, one.lagged)
    with pytest.raises(ValueError, match="no pair of samples"):
        none.lagged.reversible()
