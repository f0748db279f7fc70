import copy
import pickle

import numpy as np
import pytest
from scipy import stats

from kmc.checks import check_samples
from kmc.scores.base_fits import DOFS, fit_base
from kmc.scores.densities import Flat, Gaussian, StudentT, Uniform, UserDensity, jit_parameters
from tests.jit_states import evaluate
from tests.oracles import differences

CENTER = np.array([0.3, -1.0, 2.0])
SPREAD = np.array([[1.0, 0.4, 0.0], [0.4, 0.8, -0.3], [0.0, -0.3, 2.0]])
X = np.random.default_rng(0).standard_normal((9, 3)) + CENTER

SMOOTH = [
    Flat(),
    Gaussian(CENTER, SPREAD),
    StudentT(CENTER, SPREAD, 3.5),
    StudentT(CENTER, SPREAD, 1.0),
]


class Quartic:
    """log p = -Σ x⁴/4, without a Laplacian."""

    def log_density(self, x):
        return -0.25 * np.sum(x**4, axis=1)

    def gradient(self, x):
        return -(x**3)


class Whole(Quartic):
    def laplacian(self, x):
        return -3.0 * np.sum(x**2, axis=1)


@pytest.mark.parametrize(
    ("density", "expected"),
    [
        (Gaussian(CENTER, SPREAD), stats.multivariate_normal(CENTER, SPREAD).logpdf(X)),
        (StudentT(CENTER, SPREAD, 3.5), stats.multivariate_t(CENTER, SPREAD, 3.5).logpdf(X)),
        (Uniform(-8.0, [8.0, 9.0, 10.0]), np.full(9, -np.log(16.0 * 17.0 * 18.0))),
    ],
)
def test_log_densities_are_those_of_scipy(density, expected):
    np.testing.assert_allclose(density.log_density(X), expected, rtol=1e-13)


@pytest.mark.parametrize("density", SMOOTH)
def test_derivatives_are_finite_differences(density):
    np.testing.assert_allclose(
        density.gradient(X), differences.gradients(density.log_density, X), atol=1e-11
    )
    np.testing.assert_allclose(
        density.laplacian(X), differences.laplacians(density.log_density, X), atol=1e-9
    )


def test_a_box_is_flat_inside_and_nothing_outside():
    box = Uniform([-1.0, 0.0], [1.0, 4.0])
    x = np.array([[0.0, 1.0], [-1.0, 4.0], [0.0, 4.1], [-1.1, 1.0]])
    np.testing.assert_allclose(box.log_density(x), [-np.log(8.0), -np.log(8.0), -np.inf, -np.inf])
    assert not np.any(box.gradient(x)) and not np.any(box.laplacian(x))
    assert box.gradient(x).shape == (4, 2) and box.laplacian(x).shape == (4,)


@pytest.mark.parametrize("density", [*SMOOTH, Uniform(-9.0, 9.0)])
def test_bases_are_frozen_and_survive_copies(density):
    for copied in (pickle.loads(pickle.dumps(density)), copy.deepcopy(density)):
        np.testing.assert_array_equal(copied.log_density(X), density.log_density(X))
    for name in vars(density):
        with pytest.raises(AttributeError):
            setattr(density, name, 0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform(1.0, 1.0), "low < high"),
        (lambda: Uniform(0.0, np.inf), "finite corners"),
        (lambda: Uniform([[0.0]], [[1.0]]), "one for each column"),
        (lambda: Gaussian([0.0, 0.0], np.eye(3)), r"expected \(d,\) and \(d, d\)"),
        (lambda: Gaussian([0.0, np.nan], np.eye(2)), "finite"),
        (lambda: Gaussian([0.0, 0.0], [[1.0, 0.5], [0.4, 1.0]]), "symmetric"),
        (
            lambda: Gaussian([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]]),
            "(?s)covariance.*positive definite",
        ),
        (
            lambda: StudentT([0.0, 0.0], [[1.0, 0.0], [0.0, -1.0]], 3.0),
            "(?s)scale.*positive definite",
        ),
        (lambda: StudentT([0.0], [[1.0]], 0.0), "dof=0.0"),
        (lambda: StudentT([0.0], [[1.0]], np.inf), "dof=inf"),
    ],
)
def test_impossible_parameters_are_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Fits


def test_the_gaussian_base_has_the_weighted_moments():
    w = np.random.default_rng(1).random(len(X))
    base = fit_base("gaussian", X, w)
    np.testing.assert_allclose(base.mean, np.average(X, axis=0, weights=w), rtol=1e-13)
    np.testing.assert_allclose(base.covariance, np.cov(X.T, aweights=w, ddof=0), rtol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "student-t"])
def test_weights_are_counts(name):
    x = np.random.default_rng(2).standard_normal((40, 2))
    counts = np.arange(40) % 3 + 1
    weighted, repeated = (
        fit_base(name, x, counts.astype(float)),
        fit_base(name, np.repeat(x, counts, axis=0)),
    )
    np.testing.assert_allclose(weighted.gradient(X[:, :2]), repeated.gradient(X[:, :2]), rtol=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "student-t"])
def test_an_offset_and_a_scale_do_not_matter(name):
    """An offset of 1e6 rounds points to 1e-10, and the covariance of white points by as much."""
    x = np.random.default_rng(3).standard_normal((200, 3))
    plain, moved = fit_base(name, x), fit_base(name, 1e3 * x + 1e6)
    np.testing.assert_allclose(
        1e3 * moved.gradient(1e3 * X + 1e6), plain.gradient(X), rtol=1e-8, atol=1e-9
    )


@pytest.mark.parametrize("dof", [1.0, 3.0, 8.0])
def test_the_student_base_finds_what_the_samples_are(dof):
    """From 4000 samples: each parameter within four of its standard errors, near sd / √n times 1 +
    1/ν.
    """
    x = stats.multivariate_t(CENTER, SPREAD, dof, seed=4).rvs(4000)
    base = fit_base("student-t", x)
    assert base.dof == dof
    error = 4.0 * (1.0 + 1.0 / dof) / np.sqrt(4000)
    assert np.all(np.abs(base.location - CENTER) < error * np.sqrt(np.diag(SPREAD)))
    assert np.all(
        np.abs(base.scale - SPREAD)
        < 2.0 * error * np.sqrt(np.outer(np.diag(SPREAD), np.diag(SPREAD)))
    )


def test_the_student_base_maximizes_the_likelihood():
    """At a maximum the mean score along any change of location and scale vanishes."""
    x = stats.multivariate_t(CENTER, SPREAD, 3.0, seed=5).rvs(300)
    base = fit_base("student-t", x)

    def likelihood(location, scale, dof=base.dof):
        return StudentT(location, scale, dof).log_density(x).mean()

    best = likelihood(base.location, base.scale)
    rng = np.random.default_rng(6)
    for _ in range(20):
        shift, change = rng.standard_normal(3), rng.standard_normal((3, 3))
        for size in (-0.01, 0.01):
            stretch = np.eye(3) + size * change
            assert likelihood(base.location + size * shift, base.scale) < best
            assert likelihood(base.location, stretch @ base.scale @ stretch.T) < best
    for dof in DOFS:
        assert likelihood(base.location, base.scale, dof) <= best


@pytest.mark.parametrize("name", ["gaussian", "student-t"])
@pytest.mark.parametrize(
    "x", [X[:3], np.column_stack([X, X[:, 0] + X[:, 1]]), np.column_stack([X, np.ones(9)])]
)
def test_a_singular_covariance_says_what_to_do(name, x):
    with pytest.raises(ValueError, match="singular .* base='uniform' needs no covariance"):
        fit_base(name, x)


def test_mostly_coincident_samples_have_no_student_base_of_few_degrees_of_freedom():
    """1 of 32 copies apart: the likelihood has a maximum only for ν > 31/1, so of DOFS for 100."""
    assert fit_base("student-t", np.array([[0.0]] * 31 + [[1.0]])).dof == 100.0
    with pytest.raises(ValueError, match="coincide"):
        fit_base("student-t", np.array([[0.0]] * 200 + [[1.0]]))


@pytest.mark.parametrize("base", ["gaussain", ""])
def test_an_unknown_name_lists_the_known_ones(base):
    with pytest.raises(
        ValueError,
        match=f"base='{base}': expected one of 'uniform', 'gaussian', 'student-t', or an obj",
    ):
        fit_base(base, X)


# Bases of the user's own


def test_a_missing_laplacian_is_computed_by_differences():
    base = fit_base(Quartic(), X)
    assert isinstance(base, UserDensity)
    np.testing.assert_array_equal(base.log_density(X), Quartic().log_density(X))
    np.testing.assert_array_equal(base.gradient(X), Quartic().gradient(X))
    np.testing.assert_allclose(base.laplacian(X), Whole().laplacian(X), rtol=1e-10)
    np.testing.assert_array_equal(fit_base(Whole(), X).laplacian(X), Whole().laplacian(X))


def test_differences_follow_the_scale_of_the_samples():
    """Far from zero too: steps are powers of two, which add to a coordinate without rounding."""
    wide = Gaussian([1e6, 0.0], np.diag([1e4, 1e-8]))

    class Bare:
        log_density, gradient = wide.log_density, wide.gradient

    x = np.random.default_rng(8).standard_normal((20, 2)) * [100.0, 1e-4] + [1e6, 0.0]
    np.testing.assert_allclose(fit_base(Bare, x).laplacian(x), wide.laplacian(x), rtol=1e-9)


@pytest.mark.parametrize("missing", ["log_density", "gradient"])
def test_a_base_without_a_method_is_an_error(missing):
    methods = {"log_density": Quartic.log_density, "gradient": Quartic.gradient}
    del methods[missing]
    with pytest.raises(TypeError, match=f"no method {missing}"):
        fit_base(type("Half", (), methods)(), X)
    with pytest.raises(TypeError, match="base=None"):
        fit_base(None, X)


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        (
            "log_density",
            lambda x: np.zeros((len(x), 1)),
            r"log_density returned shape \(9, 1\).*expected \(9,\)",
        ),
        (
            "gradient",
            lambda x: np.zeros(len(x)),
            r"gradient returned shape \(9,\).*expected \(9, 3\)",
        ),
        ("gradient", lambda x: np.where(x == x.max(), np.nan, x), "gradient returned NaN at x="),
        ("gradient", lambda x: np.where(x == x.max(), np.inf, x), "gradient is .*inf.* at row"),
        (
            "log_density",
            lambda x: np.where(x[:, 0] > 0, 0.0, -np.inf),
            "log_density is -inf at row",
        ),
    ],
)
def test_what_a_base_returns_is_checked_at_the_samples(name, wrong, message):
    density = Quartic()
    setattr(density, name, wrong)
    with pytest.raises(ValueError, match=message):
        fit_base(density, X)


@pytest.mark.parametrize(
    "density",
    [Gaussian([0.0], [[1.0]]), StudentT(np.zeros(2), np.eye(2), 3.0), Uniform([-9, -9], 9)],
)
def test_a_base_of_another_dimension_is_an_error(density):
    with pytest.raises(ValueError, match="dimensions, but X has 3 columns"):
        fit_base(density, X)


def test_samples_outside_the_box_are_an_error():
    with pytest.raises(ValueError, match="log_density is -inf at row"):
        fit_base(Uniform(-1.0, 1.0), X)


# In jitted loops


@pytest.mark.parametrize("density", SMOOTH)
def test_jit_parameters_say_the_same(density):
    state = jit_parameters(density, dim=3)
    for x, value, expected in zip(X, density.log_density(X), density.gradient(X)):
        found, gradient = evaluate(state, x)
        assert found == pytest.approx(value, rel=1e-13)
        np.testing.assert_allclose(gradient, expected, atol=1e-14)


# Samples


class Named:
    feature_names_in_ = np.array(["a", "b"], dtype=object)


def test_a_constant_column_is_named():
    x = np.column_stack([X[:, 0], np.full(9, 0.1)])
    with pytest.raises(ValueError, match=r"column 1 of X is constant, 0\.1 in all 9 samples"):
        check_samples(x)
    with pytest.raises(ValueError, match=r"column 1 \('b'\) of X is constant"):
        check_samples(x, Named())


@pytest.mark.parametrize(
    ("x", "weights", "message"),
    [
        (X[:1], None, "at least 2 samples"),
        (np.ones((4, 2)), None, "all 4 samples in X are equal"),
        (X, np.arange(9) == 3, "at least 2 samples of positive weight"),
        (np.vstack([X[:1], X]), np.arange(10) < 2, "all 2 samples in X are equal"),
    ],
)
def test_too_few_distinct_samples(x, weights, message):
    with pytest.raises(ValueError, match=message):
        check_samples(x, weights=weights)


@pytest.mark.parametrize("density", [*SMOOTH, Uniform(-9.0, 9.0)])
def test_hessians_are_those_of_differences(density):
    found = density.hessian(X)
    for k in range(3):
        np.testing.assert_allclose(
            found[:, k],
            differences.gradients(lambda z, k=k: density.gradient(z)[:, k], X),
            atol=1e-6,
        )
