import numpy as np
import pytest

from kmc.scores.autoencoder import LEVELS, NOISES, DenoisingAutoencoder
from tests.jit_states import evaluate
from tests.oracles import autoencoder as oracle
from tests.oracles import differences

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 2)) @ np.array([[1.0, 0.5], [0.0, 0.5]]) + [1.0, -2.0]
POINTS = X[:6] + 0.1


def quick(**options):
    settings = {"n_hidden": 5, "noise": 0.3, "max_iter": 30, "n_corruptions": 4, "random_state": 0}
    return DenoisingAutoencoder(**(settings | options))


def test_it_finds_the_score_of_a_normal_density():
    """The best reconstruction of x from x plus noise is x / (1 + σ²), so the field is -x / (1 + σ²)
    for n → ∞.

    With n = 2000 the slope of a linear fit has a standard error of √(2/n) = .03; the bends of three
    units do not have ten times that between the quartiles and a standard deviation beyond them.
    """
    x = np.random.default_rng(1).standard_normal((2000, 1))
    estimator = DenoisingAutoencoder(
        n_hidden=3, noise=0.5, max_iter=200, n_corruptions=4, random_state=0
    ).fit(x)
    at = np.linspace(-1.5, 1.5, 7)[:, None]
    assert np.abs(estimator.gradient(at) + at / 1.25).max() < 0.2
    assert np.abs(estimator.laplacian(at) + 1.0 / 1.25).max() < 0.5


@pytest.mark.parametrize("tied", [False, True])
def test_it_beats_the_fitted_gaussian_on_two_clusters(tied):
    rng = np.random.default_rng(2)
    x = np.where(rng.random((400, 1)) < 0.5, -2.0, 2.0) + 0.4 * rng.standard_normal((400, 1))
    test = np.where(rng.random((400, 1)) < 0.5, -2.0, 2.0) + 0.4 * rng.standard_normal((400, 1))
    estimator = DenoisingAutoencoder(
        n_hidden=6, noise=0.2, max_iter=200, tied=tied, random_state=0
    ).fit(x)
    gaussian = -0.5 / np.var(x)
    best = -0.5 / 0.4**2  # of the truth, the clusters being apart
    assert best - 0.2 < estimator.objective(test) < 0.6 * best + 0.4 * gaussian


def test_the_fit_minimizes_the_loss():
    """At convergence the mean reconstruction error, summed by hand over fresh noise, is what
    ``loss_`` says.

    The mean over 80 x 400 fresh draws of a squared error of about 2 σ² has a relative standard
    error of .6 %; the 80 x 40 drawn for the fit have been adapted to by 27 parameters, which lowers
    their mean by a relative 27 / 6400.
    """
    estimator = quick(n_corruptions=40, max_iter=300).fit(X)
    network, center, scale = (
        estimator.density_.network,
        estimator.density_.center,
        estimator.density_.scale,
    )
    clean = np.tile((X - center) / scale, (400, 1))
    noise = 0.3 / scale
    corrupted = clean + noise * np.random.default_rng(3).standard_normal(clean.shape)
    reconstructed = network.code(corrupted) @ network.decoder.T + network.bias
    fresh = np.sum((reconstructed - clean) ** 2) / (len(clean) * noise**2)
    assert estimator.loss_ == pytest.approx(fresh, rel=0.05)
    assert estimator.loss_ < 2.0  # of returning the input


@pytest.mark.parametrize("tied", [False, True])
def test_it_is_the_formula(tied):
    density = quick(tied=tied).fit(X).density_
    network = density.network
    expected = [oracle.score(x, 0.3, density.center, density.scale, *network) for x in POINTS]
    np.testing.assert_allclose(density.gradient(POINTS), expected, rtol=1e-11)
    if tied:
        np.testing.assert_array_equal(network.decoder, network.encoder.T)


@pytest.mark.parametrize("tied", [False, True])
def test_laplacian_is_the_divergence(tied):
    estimator = quick(tied=tied).fit(X)
    divergence = sum(
        differences.gradients(lambda x, i=i: estimator.gradient(x)[:, i], POINTS)[:, i]
        for i in range(2)
    )
    np.testing.assert_allclose(estimator.laplacian(POINTS), divergence, rtol=1e-8)


def test_only_tied_weights_have_a_log_density():
    estimator = quick(tied=True).fit(X)
    numeric = differences.gradients(estimator.log_density, POINTS)
    np.testing.assert_allclose(
        estimator.gradient(POINTS), numeric, atol=1e-9 * np.abs(numeric).max()
    )
    with pytest.raises(ValueError, match="tied=True"):
        quick().fit(X).log_density(POINTS)


def test_a_seed_gives_the_same_fit():
    once, again, other = (quick(random_state=seed).fit(X).gradient(POINTS) for seed in (3, 3, 4))
    np.testing.assert_array_equal(once, again)
    assert np.abs(once - other).max() > 0
    np.testing.assert_array_equal(
        quick(random_state=np.random.default_rng(3)).fit(X).gradient(POINTS), once
    )


def test_units_do_not_matter():
    """A power of two scales without rounding, so the fit is the same to the last bit; L-BFGS would
    amplify less.
    """
    plain, scaled = quick().fit(X), quick(noise=0.3 * 2.0**20).fit(X * 2.0**20)
    np.testing.assert_array_equal(
        scaled.gradient(POINTS * 2.0**20) * 2.0**20, plain.gradient(POINTS)
    )


def test_weights():
    expected = quick().fit(X[:50]).gradient(POINTS)
    left_out = np.where(np.arange(80) < 50, 2.5, 0.0)
    np.testing.assert_array_equal(quick().fit(X, weights=left_out).gradient(POINTS), expected)
    uneven = quick().fit(X, weights=np.linspace(0.1, 2.0, 80))
    np.testing.assert_allclose(
        uneven.density_.center, np.average(X, axis=0, weights=np.linspace(0.1, 2.0, 80))
    )


def test_values_are_refused():
    """They would not change the fit."""
    for fit in (quick().fit, quick().partial_fit):
        with pytest.raises(TypeError, match="unexpected keyword argument 'values'"):
            fit(X, values=np.zeros(len(X)))


# Streams


def test_a_stream_trains_on():
    whole = quick(max_iter=100).fit(X).objective(X)
    estimator = quick(max_iter=100).partial_fit(X[:41])
    np.testing.assert_array_equal(
        estimator.gradient(POINTS), quick(max_iter=100).fit(X[:41]).gradient(POINTS)
    )
    first = estimator.objective(X)
    for start in range(41, 80, 13):
        estimator.partial_fit(X[start : start + 13])
        assert estimator.n_iter_ <= 100  # one level of noise
    assert estimator.n_samples_seen_ == 80
    assert estimator.objective(X) < first
    assert estimator.objective(X) < whole + 0.5 * (first - whole)


def test_at_a_doubling_all_is_done_anew():
    """A first block that says nothing of the others leaves no trace but its samples."""
    estimator = quick(noise="cv", cv=2, max_iter=50).partial_fit(0.01 * X[:20])
    assert estimator.partial_fit(X).n_iter_ == 50 * len(LEVELS)
    assert estimator.objective(X) < 0
    scale = estimator.density_.scale
    np.testing.assert_allclose(estimator.cv_results_["noise"], scale * np.array(NOISES))
    np.testing.assert_allclose(
        scale, np.sqrt(np.mean(np.var(np.vstack([0.01 * X[:20], X]), axis=0)))
    )


# Selection


def test_the_table_of_candidates():
    estimator = quick(n_hidden=[2, 4], noise="cv", cv=3, max_iter=10).fit(X)
    table = estimator.cv_results_
    scale = np.sqrt(np.mean(np.var(X, axis=0)))
    np.testing.assert_array_equal(table["n_hidden"], np.repeat([2, 4], len(NOISES)))
    np.testing.assert_allclose(table["noise"], np.tile(scale * np.array(NOISES), 2))
    best = np.argmin(table["objective"])
    assert (estimator.n_hidden_, estimator.noise_) == (
        table["n_hidden"][best],
        table["noise"][best],
    )
    assert np.all(table["std_error"] > 0)
    assert estimator.partial_fit(X[:10]).noise_ == table["noise"][best]


def test_selection_avoids_the_noise_that_is_too_small_and_the_one_that_is_too_large():
    rng = np.random.default_rng(4)
    x = np.where(rng.random((100, 1)) < 0.5, -1.0, 1.0) + 0.2 * rng.standard_normal((100, 1))
    estimator = quick(noise=[1e-4, 0.15, 30.0], cv=2, max_iter=60).fit(x)
    assert estimator.noise_ == 0.15


# Parameters


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("n_hidden", 0, ValueError),
        ("n_hidden", 2.5, TypeError),
        ("n_hidden", "many", ValueError),
        ("noise", 0.0, ValueError),
        ("noise", 1e300, ValueError),
        ("noise", [0.1, np.nan], ValueError),
        ("noise", "median", ValueError),
        ("max_iter", 0, ValueError),
        ("n_corruptions", 0, ValueError),
        ("tied", "yes", TypeError),
        ("cv", 1, ValueError),
        ("cv", "loo", TypeError),
        ("random_state", "seed", TypeError),
    ],
)
def test_a_parameter_out_of_range_is_named(name, value, error):
    with pytest.raises(error, match=f"{name}="):
        quick(**{name: value}).fit(X)


# In jitted loops


@pytest.mark.parametrize("tied", [False, True])
def test_the_point_says_the_same(tied):
    estimator = quick(tied=tied).fit(X)
    at = np.vstack([POINTS, [[1e3, -1e3], [1e7, 1e7]]])
    values = estimator.log_density(at) if tied else np.zeros(len(at))
    for x, value, expected in zip(at, values, estimator.gradient(at)):
        found, gradient = evaluate(estimator.jit_state(), x)
        assert found == pytest.approx(value, rel=1e-11)
        np.testing.assert_allclose(gradient, expected, rtol=1e-11)


@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e3])
def test_the_default_noise_has_the_scale_of_the_data(unit):
    x = np.random.default_rng(0).standard_normal((300, 2))
    estimator = DenoisingAutoencoder(n_hidden=20, max_iter=40, random_state=0).fit(unit * x)
    assert estimator.noise_ == pytest.approx(0.5 * unit, rel=0.1)
    fresh = np.random.default_rng(1).standard_normal((1000, 2))
    # 1 for a score of zero
    assert np.mean((unit * estimator.gradient(unit * fresh) + fresh) ** 2) < 0.3
