import numpy as np
import pytest

from kmc.kernels import Exponential, Gaussian, Matern52
from kmc.samplers.score_fitter import Fitter
from kmc.scores import FiniteKEF, FullKEF, GaussianScore, LiteKEF, NystromKEF, choice
from kmc.scores.densities import Flat, StudentT

FIXED = dict(choice.FIXED)
RNG = np.random.default_rng(0)
HEAVY = RNG.standard_normal((400, 5)) / np.sqrt(RNG.chisquare(4, 400) / 4)[:, None]
NORMAL = RNG.standard_normal((300, 5))


def banana(n, rng):
    """Samples (n, 2) and their score."""
    x = rng.standard_normal((n, 2)) * [2.0, 1.0]
    rest = x[:, 1].copy()
    x[:, 1] += 0.5 * (x[:, 0] ** 2 - 4)
    return x, np.column_stack([x[:, 0] * (rest - 0.25), -rest])


def error(estimator, x, truth):
    """Mean squared error, relative to that of zero."""
    return np.mean((estimator.gradient(x) - truth) ** 2) / np.mean(truth**2)


@pytest.mark.parametrize("kind", [NystromKEF, LiteKEF, FiniteKEF])
def test_heavy_tails(kind):
    truth = -9 * HEAVY / (4 + np.sum(HEAVY**2, axis=1))[:, None]
    found, fixed = (
        kind(n_basis=30, random_state=0).fit(HEAVY),
        kind(n_basis=30, random_state=0, **FIXED).fit(HEAVY),
    )
    assert isinstance(found.base_density_, StudentT)
    assert error(found, HEAVY, truth) < 0.4 * error(fixed, HEAVY, truth)


@pytest.mark.parametrize("seed", range(3))
def test_never_much_worse_than_a_fixed_choice_or_a_gaussian(seed):
    rng = np.random.default_rng(seed)
    x, _ = banana(400, rng)
    new, truth = banana(2000, rng)
    found, fixed = LiteKEF(random_state=0).fit(x), LiteKEF(random_state=0, **FIXED).fit(x)
    assert error(found, new, truth) < 1.2 * error(fixed, new, truth)
    assert error(found, new, truth) < 0.5 * error(GaussianScore().fit(x), new, truth)
    found = LiteKEF(random_state=0).fit(NORMAL)
    assert error(found, NORMAL, -NORMAL) < 1.1 * error(GaussianScore().fit(NORMAL), NORMAL, -NORMAL)


def test_what_is_given_stays():
    kernel = Matern52(1.5)
    given = LiteKEF(kernel=kernel, base="uniform", n_basis=20, random_state=0).fit(HEAVY)
    assert given.kernel_ == kernel
    assert isinstance(given.base_density_, Flat)
    given = LiteKEF(bandwidth=[1.0, 3.0], n_basis=20, random_state=0).fit(HEAVY)
    assert set(given.cv_results_["bandwidth"]) == {1.0, 3.0}
    assert isinstance(given.base_density_, StudentT)
    given = LiteKEF(base=["gaussian", "uniform"], n_basis=20, random_state=0).fit(HEAVY)
    assert set(given.cv_results_["base"]) == {"gaussian", "uniform"}


@pytest.mark.parametrize("kind", [NystromKEF, LiteKEF, FullKEF])
def test_where_nothing_is_chosen(kind):
    """A few samples, samples with values, a given regularization: the same to the bit as with fixed
    parameters.
    """
    options = {"random_state": 0} if kind is FullKEF else {"random_state": 0, "n_basis": 10}
    x, values = HEAVY[:70], -np.log1p(np.sum(HEAVY[:70] ** 2, axis=1))
    for more, arguments in (
        ({}, (x[:50],)),
        ({}, (x[:60], values[:60])),
        ({"regularization": 0.1}, (x,)),
    ):
        found = kind(**options, **more).fit(*arguments)
        fixed = kind(**options, **more, **FIXED).fit(*arguments)
        np.testing.assert_array_equal(found.gradient(x), fixed.gradient(x))


def test_samplers_choose_nothing():
    fitter = Fitter(LiteKEF(bandwidth=2.0), values=False, refit=True, rng=RNG)
    assert (
        fitter._estimator.get_params() | {"kernel": "gaussian", "base": "gaussian"}
        == fitter._estimator.get_params()
    )
    assert fitter._estimator.bandwidth == 2.0


def test_a_kernel_without_derivatives_is_refused_as_before():
    with pytest.raises(ValueError, match="0 derivatives at coincident points"):
        LiteKEF(kernel=Exponential(), random_state=0).fit(HEAVY)


def test_repetition_and_units():
    a, b = (LiteKEF(random_state=1).fit(HEAVY) for _ in range(2))
    np.testing.assert_array_equal(a.gradient(HEAVY), b.gradient(HEAVY))
    c = LiteKEF(random_state=1).fit(1e3 * HEAVY)
    np.testing.assert_allclose(
        1e3 * c.gradient(1e3 * HEAVY), a.gradient(HEAVY), rtol=1e-3, atol=1e-3
    )
    assert LiteKEF(kernel=Gaussian(2.0), random_state=0).fit(HEAVY).kernel_ == Gaussian(2.0)
