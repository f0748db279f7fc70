import warnings

import numpy as np
import pytest
from numpy.polynomial import hermite_e
from sklearn.base import clone

from kmc.bases import KernelSections
from kmc.errors import KmcWarning
from kmc.kernels import (
    Exponential,
    ExponentialDotProduct,
    Gaussian,
    Matern52,
    Polynomial,
    median_distance,
)
from kmc.scores import GaussianScore, NystromKEF
from kmc.source import Source
from kmc.spectral import DiffusionMap
from kmc.spectral.generator_selection import fold_sums
from kmc.spectral.sections import whitened_sections
from kmc.spectral.trial import TrialSpace, ritz, subspace
from tests.grids import slow_except
from tests.oracles.differences import gradients
from tests.oracles.diffusion_maps import algorithm_1, eigenvalues, equation_17
from tests.sklearn_conventions import conventions

RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal((4000, 2))
HERMITE = np.array([1.0, 1.0, 2.0, 2.0, 2.0])
LITERAL = {"method": "penalized", "bandwidth": 1.0, "regularization": 0.1}
FIXED = {"bandwidth": 2.0, "regularization": 0.1, "n_components": 3}


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def fit(x=NORMAL, weights=None, **options):
    return DiffusionMap(**{"n_components": 5, "n_basis": 60, "random_state": 0} | options).fit(
        x, weights=weights
    )


@pytest.mark.parametrize(
    "kernel", [Gaussian(2.0), Matern52(3.0), Exponential(4.0), Polynomial(degree=3)]
)
def test_the_estimator_is_the_papers(kernel):
    x, weights = NORMAL[:300], RNG.uniform(0.1, 2.0, 300)
    landmarks = x[:12] + 0.01  # the exponential kernel has no gradient at a landmark
    space = TrialSpace(
        KernelSections(kernel, landmarks), whitened_sections(kernel, 1.0, landmarks, 1e-6).matrix
    )
    unit = median_distance(x)
    pencil = fold_sums(space, Source(x, weights, len(x), False), unit).whole
    found = ritz(pencil, subspace(pencil, 1e-3, 4)).eigenvalues / unit**2
    np.testing.assert_allclose(
        found, eigenvalues(kernel, x, weights, landmarks, 1e-3, 4, 1e-6, unit), rtol=1e-6
    )


@pytest.mark.parametrize(("dim", "accurate"), [(1, 7), (2, 20)])
def test_algorithm_1_to_the_letter(dim, accurate):
    x = np.random.default_rng(0).standard_normal((30, dim))
    dm = fit(x, **LITERAL, n_components=30, n_basis=30)
    mu, coefficients = algorithm_1(x, dm.landmarks_, 1.0, 0.1)
    assert dm.n_components_ == dm.rank_ == dm.transform(x).shape[1] == 30
    np.testing.assert_allclose(dm.eigenvalues_[:accurate] * mu[:accurate], 1.0, rtol=1e-6)
    assert np.all(dm.eigenvalues_[accurate:] > 1e3 / mu[0])  # the rest is rounding
    scaled = dm.coefficients_[:, :accurate] * np.sqrt(mu[:accurate] / len(x))
    np.testing.assert_allclose(np.abs(scaled), np.abs(coefficients[:, :accurate]), atol=1e-6)
    np.testing.assert_allclose(np.mean(dm.transform(x)[:, :accurate] ** 2, axis=0), 1.0, rtol=1e-6)
    assert dm.spectral_gap_ == dm.eigenvalues_[1]


@pytest.mark.slow
def test_equation_17_to_the_letter():
    x = np.random.default_rng(0).standard_normal((15, 2))
    dm = fit(x, **LITERAL, basis="representer")
    np.testing.assert_allclose(dm.eigenvalues_ * equation_17(x, 1.0, 0.1)[:5], 1.0, rtol=1e-5)
    # algorithm 2: the same, but for its features
    features = fit(x, **LITERAL, basis="fourier", n_basis=2000)
    np.testing.assert_allclose(features.eigenvalues_[:4], dm.eigenvalues_[:4], rtol=0.2)


def test_figure_1_of_the_paper():
    """Medians over 20 seeds, n = p = 30 and λ = 0.1; the first of six functions is the constant."""
    cosines = []
    for seed in range(20):
        x = np.random.default_rng(seed).standard_normal((30, 1))
        found = fit(x, **LITERAL, n_components=6, n_basis=30).transform(x)[:, 1:]
        polynomials = hermite_e.hermevander(x[:, 0], 5)[:, 1:]
        cosines.append(
            [abs(np.corrcoef(f, h)[0, 1]) for f, h in zip(found.T, polynomials.T, strict=True)]
        )
    errors = np.sqrt(np.pi / 2 / 20) * np.std(cosines, axis=0, ddof=1)
    assert np.all(np.abs(np.median(cosines, axis=0) - [0.98, 0.82, 0.52, 0.22, 0.11]) < errors)


def test_the_penalized_constant_is_the_ground_state():
    dm = fit(NORMAL[:500], **LITERAL, n_components=3)
    eigenvalues, functions = dm.schrodinger(NORMAL[:9], lambda x: -0.5 * np.sum(x**2, axis=1))
    np.testing.assert_array_equal(eigenvalues, dm.eigenvalues_)
    root = np.exp(-0.25 * np.sum(NORMAL[:9] ** 2, axis=1))
    np.testing.assert_allclose(np.abs(functions[:, 0]), root, rtol=0.2)


def test_more_penalized_modes_than_functions():
    with pytest.warns(KmcWarning, match="n_components=5: there are 4 functions"):
        assert fit(NORMAL[:100], **LITERAL, n_basis=4).n_components_ == 4


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({}, 0.09),  # of x² at n = 4000 alone: 4.5 %
        ({"basis": "fourier", "n_basis": 100}, 0.09),
        ({"landmarks": "pivoted-cholesky", "kernel": "matern72"}, 0.09),
        ({"kernel": Polynomial(degree=2), "bandwidth": "median"}, 0.09),
        ({"kernel": ExponentialDotProduct(), "bandwidth": [1.0, 2.0, 4.0]}, 0.09),
        ({"score_function": lambda x: -x}, 4e-3),
        ({"score_function": GaussianScore()}, 0.05),
        ({"basis": "fourier", "n_basis": 100, "score_function": lambda x: -x}, 4e-3),
    ],
)
def test_hermite_polynomials(options, tolerance):
    dm = fit(**options)
    np.testing.assert_allclose(dm.eigenvalues_, HERMITE, rtol=tolerance * 2)
    assert np.mean(np.abs(dm.eigenvalues_ / HERMITE - 1)) < tolerance
    linear = dm.transform(NORMAL)[:, :2]
    fitted = NORMAL @ np.linalg.lstsq(NORMAL, linear, rcond=None)[0]
    assert np.mean((linear - fitted) ** 2) < 0.03
    assert dm.spectral_gap_ == dm.eigenvalues_[0]
    assert dm.poincare_constant_ == pytest.approx(1 / dm.spectral_gap_)


def test_the_representer_basis_of_a_small_sample():
    x = np.random.default_rng(1).standard_normal((120, 1))
    dm = fit(x, basis="representer", n_components=2)
    np.testing.assert_allclose(dm.eigenvalues_, [1 / x.var(), 2 / x.var()], rtol=0.3)
    assert len(dm.coefficients_) == 240
    with pytest.raises(ValueError, match="n .1 . d. = 3003 functions"):
        fit(NORMAL[:1001], basis="representer")


def test_a_sphere_needs_its_normals():
    x = unit(RNG.standard_normal((4000, 3)))
    harmonics = np.array([2.0, 2.0, 2.0, 6.0, 6.0, 6.0, 6.0, 6.0])
    tangential = fit(x, n_components=8, normals=unit)
    np.testing.assert_allclose(tangential.eigenvalues_, harmonics, rtol=0.1)
    np.testing.assert_allclose(
        np.einsum("nkd,nd->nk", tangential.gradient(x[:9]), x[:9]), 0.0, atol=1e-9
    )
    stacked = fit(x, n_components=8, normals=lambda p: unit(p)[:, :, None])
    np.testing.assert_allclose(stacked.eigenvalues_, tangential.eigenvalues_, rtol=1e-10)
    with pytest.raises(ValueError, match="normals.* are not orthonormal"):
        fit(x, normals=lambda p: 2 * p)
    with pytest.raises(ValueError, match="normals.X. has shape"):
        fit(x, normals=lambda p: p[:, 0])


def test_weights_are_repetitions_and_reach_another_density():
    x, times = NORMAL[:500], RNG.integers(0, 4, 500)
    landmarks = x[:40]
    weighted = fit(x, times, landmarks=landmarks, **FIXED)
    repeated = fit(np.repeat(x, times, axis=0), landmarks=landmarks, **FIXED)
    unit_of_both = median_distance(x[times > 0]), median_distance(np.repeat(x, times, axis=0))
    # the fits' own unit of length must not matter but for ε
    assert unit_of_both[0] != unit_of_both[1]
    # the folds are others
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=0.05)
    wide = 1.5 * NORMAL
    dm = fit(wide, np.exp(-0.5 * np.sum(wide**2, axis=1) * (1 - 1 / 1.5**2)))
    np.testing.assert_allclose(dm.eigenvalues_, HERMITE, rtol=0.15)


def test_what_is_more_than_the_look_goes_through_all_samples(monkeypatch):
    monkeypatch.setattr("kmc.spectral.diffusion_map.SELECTION", 1000)
    options = FIXED | {"landmarks": NORMAL[:40]}
    whole = fit(**options)
    blocks = fit((NORMAL[k : k + 300] for k in range(0, 4000, 300)), **options)
    monkeypatch.undo()
    expected = fit(**options)
    # the folds are others
    np.testing.assert_allclose(whole.eigenvalues_, expected.eigenvalues_, rtol=0.01)
    np.testing.assert_allclose(blocks.eigenvalues_, expected.eigenvalues_, rtol=0.01)


def test_units_and_large_offsets_do_not_matter():
    plain = fit()
    for scale, offset in ((1e-6, 0.0), (1e5, 0.0), (1.0, 1e6), (1e-3, 1e3)):
        dm = fit(scale * NORMAL + offset)
        np.testing.assert_allclose(dm.eigenvalues_ * scale**2, plain.eigenvalues_, rtol=1e-3)


def test_evaluation_of_the_modes():
    dm, x = fit(n_components=2), NORMAL[:6]
    modes = dm.transform(x)
    np.testing.assert_allclose(dm.transform(NORMAL).mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(np.cov(dm.transform(NORMAL).T, bias=True), np.eye(2), atol=1e-6)
    numeric = np.stack(
        [gradients(lambda p, j=j: dm.transform(p)[:, j], x) for j in range(2)], axis=1
    )
    np.testing.assert_allclose(dm.gradient(x), numeric, rtol=1e-5, atol=1e-6)
    distance = dm.diffusion_distance(x, x[:3], 0.7)
    decay = np.exp(-0.7 * dm.eigenvalues_)
    np.testing.assert_allclose(
        distance[4, 2], np.linalg.norm(decay * (modes[4] - modes[2])), rtol=1e-9
    )
    assert list(dm.get_feature_names_out()) == ["diffusionmap0", "diffusionmap1"]
    with pytest.raises(ValueError, match="input_features should have length"):
        dm.get_feature_names_out(["a"] * 7)
    np.testing.assert_array_equal(dm.fit_transform(NORMAL), dm.transform(NORMAL))
    with pytest.raises(ValueError, match="t=-1"):
        dm.diffusion_distance(x, x, -1)


def test_the_schrodinger_operator_of_a_normal_distribution_is_the_harmonic_oscillator():
    x = np.random.default_rng(4).standard_normal((6000, 1))
    dm = fit(x, n_components=2, score_function=lambda p: -p)
    grid = np.linspace(-6, 6, 601)[:, None]
    energies, states = dm.schrodinger(grid, lambda p: -0.5 * p[:, 0] ** 2 - 0.5 * np.log(2 * np.pi))
    np.testing.assert_allclose(energies, [0, 1, 2], atol=0.02)
    step, inner = grid[1, 0] - grid[0, 0], slice(150, 451)  # where there are samples
    np.testing.assert_allclose(states.T @ states * step, np.eye(3), atol=0.08)
    second = (states[2:] - 2 * states[1:-1] + states[:-2]) / step**2
    applied = -second + (grid[1:-1] ** 2 / 4 - 0.5) * states[1:-1]
    error = (applied - energies * states[1:-1])[inner]
    assert np.abs(error).max() < 0.05


def test_a_score_estimator_is_fitted_if_it_is_not():
    fitted = NystromKEF(n_basis=30, random_state=0).fit(NORMAL)
    given = fit(score_function=fitted)
    own = fit(score_function=clone(fitted))
    assert given.score_ is fitted
    np.testing.assert_allclose(own.eigenvalues_, given.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(given.eigenvalues_, HERMITE, rtol=0.15)
    with pytest.raises(ValueError, match="score_function is not fitted"):
        fit(iter([NORMAL]), score_function=clone(fitted))
    with pytest.raises(TypeError, match="score_function='x'"):
        fit(score_function="x")
    with pytest.raises(ValueError, match="score.X. has a block of shape"):
        fit(score_function=lambda x: x[:, 0])
    with pytest.raises(ValueError, match="score_function and normals"):
        fit(score_function=fitted, normals=unit)


class TestNoSpuriousMode:
    """What prototypes got wrong, and bad input."""

    def test_a_narrow_kernel(self):
        """A section has no gradient at its own center: alone there it would be a mode of eigenvalue
        zero.
        """
        with pytest.warns(
            KmcWarning, match="no mode is supported by held-out samples .bandwidth=0.0001"
        ):
            dm = fit(bandwidth=1e-4)
        assert dm.n_components_ == 0
        assert np.isnan(dm.spectral_gap_)
        assert dm.transform(NORMAL[:3]).shape == (3, 0)
        with pytest.warns(KmcWarning, match="of n_components=25 modes"):
            dm = fit(NORMAL[:300], bandwidth=1.0, n_components=25)
        assert dm.spectral_gap_ > 0.5
        assert dm.n_components_ == len(dm.eigenvalues_) == dm.transform(NORMAL[:3]).shape[1]

    @pytest.mark.parametrize("dim", [1, 2])
    @pytest.mark.parametrize("n", slow_except([60, 150], {60}))
    def test_gaps_in_a_small_sample(self, n, dim):
        """Functions that step across a gap have no energy: with one for each sample the gap was 0
        in most of these.
        """
        for seed in range(5):
            x = np.random.default_rng(seed).standard_normal((n, dim))
            assert 0.4 < fit(x, n_components=3, n_basis=100).spectral_gap_ < 1.7

    @pytest.mark.parametrize("tolerance", slow_except([1e-10, 1e-11, 1e-12], {1e-12}))
    @pytest.mark.parametrize("score", [None, lambda x: -x])
    def test_whitening_at_rounding_level(self, score, tolerance):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KmcWarning)
            dm = fit(
                NORMAL[:, :1],
                tolerance=tolerance,
                n_components=4,
                score_function=score,
                n_basis=200,
            )
        found = dm.eigenvalues_[:3]
        np.testing.assert_allclose(found, [1, 2, 3][: len(found)], rtol=0.3)

    def test_more_components_than_the_rank(self):
        with pytest.warns(KmcWarning, match="of n_components=20 modes"):
            dm = fit(NORMAL[:, :1], bandwidth=8.0, n_components=20)
        assert len(dm.eigenvalues_) < 20
        assert dm.rank_ < 10
        np.testing.assert_allclose(dm.eigenvalues_[:2], [1, 2], rtol=0.1)

    def test_constant_columns_and_collinear_points(self):
        line = NORMAL[:, :1]
        plain = fit(line, n_components=2)
        constant = fit(np.hstack([line, np.full_like(line, 7.0)]), n_components=2)
        np.testing.assert_allclose(constant.eigenvalues_, plain.eigenvalues_, rtol=1e-6)
        collinear = fit(np.hstack([0.6 * line, 0.8 * line]), n_components=2)
        np.testing.assert_allclose(collinear.eigenvalues_, plain.eigenvalues_, rtol=1e-6)

    def test_duplicated_points(self):
        few = NORMAL[:30]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KmcWarning)
            dm = fit(np.repeat(few, 40, axis=0), n_components=3, n_basis=200)
        assert len(dm.landmarks_) == 7  # a quarter of the distinct ones
        assert dm.spectral_gap_ > 0.3

    def test_fewer_points_than_landmarks(self):
        dm = fit(NORMAL[:50], n_components=1, n_basis=200)
        assert len(dm.landmarks_) == 12
        np.testing.assert_allclose(dm.eigenvalues_, 1.0, rtol=0.5)

    @pytest.mark.parametrize(
        ("x", "weights", "message"),
        [
            (np.full((20, 2), np.nan), None, "NaN"),
            (np.ones((20, 2)), None, "equal"),
            (NORMAL[:1], None, "1 sample"),
            (NORMAL[:20], np.zeros(20), "not all of them zero"),
            (iter([NORMAL[:20]]), iter([np.zeros(20)]), "weights|equal|points"),
        ],
    )
    def test_wrong_samples(self, x, weights, message):
        with pytest.raises(ValueError, match=message):
            fit(x, weights)

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"n_components": 0}, ValueError, "n_components=0"),
            ({"tolerance": 1e-15}, ValueError, "tolerance=1e-15: expected a number in .1e-12, 1"),
            ({"basis": "wavelets"}, ValueError, "basis='wavelets'"),
            ({"method": "exact"}, ValueError, "method='exact'"),
            (
                LITERAL | {"bandwidth": "cv"},
                ValueError,
                "bandwidth='cv': method='penalized' expects a number",
            ),
            (LITERAL | {"regularization": "cv"}, TypeError, "regularization='cv'"),
            (LITERAL | {"regularization": 0.0}, ValueError, "regularization=0.0"),
            (
                LITERAL | {"score_function": lambda x: -x},
                ValueError,
                "score_function: method='penalized'",
            ),
            ({"bandwidth": "huge"}, ValueError, "bandwidth='huge'"),
            ({"regularization": "none"}, ValueError, "regularization='none'"),
            ({"kernel": "box"}, ValueError, "kernel='box'"),
            ({"landmarks": "grid"}, ValueError, "landmarks='grid'"),
            ({"random_state": "x"}, TypeError, "random_state='x'"),
            ({"kernel": "exponential", "score_function": lambda x: -x}, ValueError, "no Laplacian"),
            ({"kernel": "polynomial", "basis": "fourier"}, (TypeError, ValueError), "olynomial"),
        ],
    )
    def test_wrong_parameters(self, options, error, message):
        with pytest.raises(error, match=message):
            fit(NORMAL[:100], **options)


def test_the_table_of_candidates():
    dm = fit()
    results = dm.cv_results_
    assert len(results["criterion"]) == 45
    best = np.argmax(results["criterion"])
    assert (results["bandwidth"][best], results["regularization"][best]) == (
        dm.bandwidth_,
        dm.regularization_,
    )
    assert results["rank"][best] == dm.rank_


@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
@pytest.mark.parametrize(
    ("estimator", "check"), conventions([DiffusionMap(n_components=3, n_basis=20)])
)
def test_conventions(estimator, check):
    check(estimator)


def off(found, truth):
    """The largest factor between eigenvalues and the truth."""
    return np.exp(np.abs(np.log(found / np.asarray(truth)[: len(found)])).max())


@pytest.mark.parametrize("dim", slow_except([15, 20, 30], {15, 30}))
def test_many_dimensions(dim):
    """With few samples and p landmarks among them, modes on a few points were the slowest, or with
    a score exact.
    """
    x = np.random.default_rng(dim).standard_normal((500, dim))
    assert off(fit(x, n_components=3, n_basis=100).eigenvalues_, np.ones(3)) < 1.5
    assert (
        off(
            fit(x, n_components=3, n_basis=100, score_function=lambda p: -p).eigenvalues_,
            np.ones(3),
        )
        < 1.1
    )


def test_the_score_chooses_no_kernel_that_is_too_wide():
    centers = 1.6 * np.array([[0.0, 1.2], [-1.1, -0.7], [1.1, -0.7]])

    def score(x):
        logs = -0.5 * np.sum((x[:, None] - centers) ** 2, axis=2) / 0.36
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        return (weights @ centers / weights.sum(axis=1, keepdims=True) - x) / 0.36

    rng, truth = np.random.default_rng(0), [0.0669, 0.0676]  # by finite volumes
    x = centers[rng.integers(3, size=2000)] + 0.6 * rng.standard_normal((2000, 2))
    alone = fit(x, n_components=2).eigenvalues_
    with pytest.warns(KmcWarning, match="the score does not confirm"):
        scored = fit(x, n_components=2, score_function=score).eigenvalues_
    assert off(scored, truth) < min(1.2 * off(alone, truth), 1.5)
    line = np.random.default_rng(0).standard_normal((2000, 1))
    found = fit(line, n_components=3, score_function=lambda p: -p).eigenvalues_
    assert np.mean(np.abs(found / [1, 2, 3] - 1)) < 0.04


def test_a_barrier_that_the_functions_cannot_represent_is_not_confirmed():
    """Two Gaussians in one coordinate of ten: the first eigenvalue is .0462; it is found twice as
    large.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 10))
    x[:, 0] += 2.5 * rng.choice([-1, 1], 2000)

    def score(p):
        return np.column_stack([2.5 * np.tanh(2.5 * p[:, 0]) - p[:, 0], -p[:, 1:]])

    with pytest.warns(KmcWarning, match="the score does not confirm"):
        fit(x, n_components=2, score_function=score)
    with pytest.warns(
        KmcWarning, match="eigenvalue 0 is uncertain: .* a function of this mode alone has"
    ):
        fit(x, n_components=2)


def test_a_barrier_between_few_samples():
    """Quartic wells: the gap is .0461; it was found as .123, with a stated error of .02 and no
    warning.
    """
    grid = np.linspace(-2.6, 2.6, 4001)
    x = np.random.default_rng([12, 500]).choice(
        grid, 500, p=(p := np.exp(-5 * (grid**2 - 1) ** 2)) / p.sum()
    )
    with pytest.warns(KmcWarning, match="eigenvalue 0 is uncertain"):
        dm = fit(x[:, None], n_components=3, n_basis=200)
    assert abs(np.log(dm.eigenvalues_[0] / 0.0461)) < 3 * dm.std_errors_[0] / dm.eigenvalues_[0]


def test_a_density_without_a_gap():
    """A gap of .5 to .9 was reported for a Student-t, in half of the fits without a warning."""
    for seed in range(2):
        x = np.random.default_rng(seed).standard_t(5, (1000, 1))
        with pytest.warns(KmcWarning, match="lives in a tail that is exponential or heavier"):
            fit(x, n_components=2)


def test_right_eigenvalues_cause_no_warning():
    """Wells that the samples resolve, and a normal distribution in many dimensions; with the score,
    too.
    """
    rng = np.random.default_rng(0)
    wells = rng.standard_normal((1000, 1)) + 2.5 * rng.choice([-1, 1], (1000, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", KmcWarning)
        alone = fit(wells, n_components=2)
        scored = fit(wells, n_components=2, score_function=lambda x: 2.5 * np.tanh(2.5 * x) - x)
        fit(rng.standard_normal((1000, 10)), n_components=3)
    assert off(alone.eigenvalues_, [0.0462, 1.11]) < 1.3
    assert off(scored.eigenvalues_, [0.0462, 1.11]) < 1.3


def test_stated_errors_of_eigenvalues():
    """Two standard errors hold the truth: of ten fits, in eight or more."""
    inside = 0
    for seed in range(10):
        dm = fit(np.random.default_rng(seed).standard_normal((500, 2)), n_components=1, n_basis=50)
        inside += abs(dm.eigenvalues_[0] - 1.0) < 2 * dm.std_errors_[0]
    assert inside >= 8


def test_far_from_the_data():
    dm = fit(n_components=1, **{key: FIXED[key] for key in ("bandwidth", "regularization")})
    dm.transform(3 * NORMAL[:100])
    with pytest.warns(
        KmcWarning, match="1 of 2 points in X are farther than .* from all landmarks"
    ):
        dm.transform([[0.0, 0.0], [50.0, 0.0]])


@pytest.mark.parametrize("regularization", [1e-8, 1e-2])
def test_modes_of_folds_from_those_of_all_samples(regularization, monkeypatch):
    """With many functions the modes without a fold take one step from those of all; without it they
    are solved for.
    """
    rng = np.random.default_rng(4)
    x = rng.standard_normal((4000, 5)) + 2.0 * rng.integers(0, 2, (4000, 1)) * np.eye(5)[0]
    options = {
        "n_components": 3,
        "bandwidth": 2.0,
        "n_basis": 300,
        "regularization": regularization,
    }
    model = DiffusionMap(**options, landmarks=x[:300]).fit(x)
    assert model.rank_ >= 256
    monkeypatch.setattr("kmc.spectral.generator_selection.MANY", 1000)
    solved = DiffusionMap(**options, landmarks=x[:300]).fit(x)
    np.testing.assert_allclose(model.eigenvalues_, solved.eigenvalues_, rtol=0.01)
    np.testing.assert_allclose(model.std_errors_, solved.std_errors_, rtol=0.1)
    np.testing.assert_allclose(
        model.cv_results_["criterion"], solved.cv_results_["criterion"], rtol=0.02
    )
