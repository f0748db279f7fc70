"""Invalid input to every score estimator: a right result or a clear error, never a silent NaN."""

import numpy as np
import pytest

import kmc.scores
from kmc.errors import KmcWarning

RNG = np.random.default_rng(11)
X = RNG.standard_normal((60, 3)) @ np.diag([1.0, 0.5, 2.0])
POINTS = RNG.standard_normal((10, 3))
QUICK = {"DenoisingAutoencoder": {"n_hidden": 5, "max_iter": 20}, "GaussianScore": {}}
SETTINGS = {
    name: QUICK.get(name, {"regularization": 1e-2} | ({} if name == "FullKEF" else {"n_basis": 12}))
    for name in kmc.scores.__all__
}
KERNEL = [name for name in kmc.scores.__all__ if name not in QUICK]


@pytest.fixture(params=kmc.scores.__all__)
def name(request):
    return request.param


def make(name, **options):
    settings = dict(SETTINGS[name])
    if name != "GaussianScore":
        settings["random_state"] = 0
    return getattr(kmc.scores, name)(**(settings | options))


def test_constant_column(name):
    x = X.copy()
    x[:, 1] = 0.1
    with pytest.raises(ValueError, match="column 1 of X is constant"):
        make(name).fit(x)


def test_all_points_equal(name):
    with pytest.raises(ValueError, match="equal"):
        make(name).fit(np.ones((5, 3)))


def test_duplicated_points(name):
    """A repeated sample counts as one of weight two, and the result is finite."""
    twice = make(name).fit(np.vstack([X, X[:20]]))
    assert np.all(np.isfinite(twice.gradient(POINTS)))
    assert np.all(np.isfinite(twice.laplacian(POINTS)))


@pytest.mark.parametrize(
    "weights", [np.ones(59), -np.ones(60), np.zeros(60), np.full(60, np.nan), np.ones((60, 1))]
)
def test_bad_weights(name, weights):
    with pytest.raises(ValueError, match="weights"):
        make(name).fit(X, weights=weights)


@pytest.mark.parametrize(
    "values", [np.ones(59), np.full(60, np.nan), np.ones((60, 1)), np.full(60, -np.inf)]
)
def test_bad_values(name, values):
    if name not in KERNEL:
        pytest.skip("takes no values")
    with pytest.raises(ValueError, match="values"):
        make(name).fit(X, values=values)


def test_single_precision_and_whole_numbers(name):
    """float32 data are float64 data after conversion, not computed in single precision."""
    x = X.astype(np.float32)
    expected = make(name).fit(x.astype(float)).gradient(POINTS)
    np.testing.assert_allclose(make(name).fit(x).gradient(POINTS), expected, rtol=1e-12)
    whole = np.round(10 * X).astype(int)
    assert make(name).fit(whole).gradient(whole).dtype == float


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, np.inf, np.nan, "wide", None])
@pytest.mark.parametrize("name", KERNEL)
def test_bad_bandwidth(name, bandwidth):
    with pytest.raises((ValueError, TypeError), match="bandwidth="):
        make(name, bandwidth=bandwidth).fit(X)


@pytest.mark.parametrize("regularization", [-1.0, np.inf, np.nan, "none", None])
@pytest.mark.parametrize("name", KERNEL)
def test_bad_regularization(name, regularization):
    with pytest.raises((ValueError, TypeError), match="regularization="):
        make(name, regularization=regularization).fit(X)


@pytest.mark.parametrize(
    "options", [{"kernel": "cubic"}, {"kernel": 3}, {"base": "cauchy"}, {"base": 1.0}]
)
@pytest.mark.parametrize("name", KERNEL)
def test_bad_kernel_and_base(name, options):
    (argument,) = options
    with pytest.raises((ValueError, TypeError), match=argument):
        make(name, **options).fit(X)


@pytest.mark.parametrize("name", KERNEL)
def test_no_regularization_on_a_singular_system(name):
    """More basis functions than the data determine: an error that says so, or the shortest
    solution; no NaN.
    """
    x = X[:6]
    estimator = make(name, regularization=0.0, base="uniform")
    try:
        estimator.fit(x)
    except ValueError as error:
        assert "regularization" in str(error)
    else:
        assert np.all(np.isfinite(estimator.gradient(x)))


@pytest.mark.parametrize("name", KERNEL)
def test_points_in_a_plane_have_no_fitted_gaussian(name):
    x = np.hstack([X, X[:, :1] + X[:, 1:2]])
    with pytest.raises(ValueError, match=r'base="uniform"|base=.uniform.'):
        make(name, base="gaussian").fit(x)


def test_an_offset_costs_no_digits(name):
    """An offset of 1e6 rounds samples to 1e-10: the gradient moves by less than 1e-6 of itself."""
    if name == "DenoisingAutoencoder":
        pytest.skip("L-BFGS amplifies the rounding of the samples in a non-convex problem")
    plain, moved = make(name).fit(X), make(name).fit(X + 1e6)
    expected = plain.gradient(POINTS)
    error = np.abs(moved.gradient(POINTS + 1e6) - expected).max()
    assert error < 1e-6 * np.abs(expected).max()


def test_far_from_the_data_all_is_finite(name):
    estimator = make(name).fit(X)
    far = np.array([[1e3, -1e3, 0.0], [1e8, 1e8, 1e8]])
    assert np.all(np.isfinite(estimator.gradient(far)))
    assert np.all(np.isfinite(estimator.laplacian(far)))


def test_no_warning_on_good_data(name, recwarn):
    make(name).fit(X).gradient(POINTS)
    assert not [w for w in recwarn if issubclass(w.category, (RuntimeWarning, KmcWarning))]
