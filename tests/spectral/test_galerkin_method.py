import numpy as np
import pytest
from scipy.special import factorial

from kmc.bases import FourierFeatures, KernelSections, Monomials, UserFunctions, Whitened
from kmc.errors import KmcWarning
from kmc.kernels import Gaussian, Polynomial
from kmc.spectral import (
    AugmentationPairs,
    Bilinear,
    DifferentialOperator,
    DirichletForm,
    TangentProp,
    galerkin,
)
from tests.oracles import differences
from tests.oracles import galerkin as oracle

X = np.random.default_rng(0).standard_normal((25, 2))
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
# integrates polynomials against N(0, 1) exactly
LINE = {"X": NODES[:, None], "weights": NODE_WEIGHTS}
PLANE = {
    "X": np.stack(np.meshgrid(NODES, NODES), axis=-1).reshape(-1, 2),
    "weights": np.outer(NODE_WEIGHTS, NODE_WEIGHTS).ravel(),
}
LEFT = KernelSections(Gaussian(1.5), X[:4])
RIGHT = FourierFeatures.draw(Gaussian(1.2), 5, 2, 0)


def hermite(k, x):
    return np.polynomial.hermite_e.hermeval(x, np.eye(k + 1)[k]) / np.sqrt(factorial(k))


def powers(count):
    k = np.arange(count)
    return UserFunctions(
        lambda x: x**k, lambda x: (k * x ** np.maximum(k - 1, 0))[:, :, None], size=count
    )


def functions(basis, mean_of=None):
    """Functions of one point; of mean zero over points, if they are given."""
    means = np.zeros(basis.size) if mean_of is None else basis.values(mean_of).mean(axis=0)
    return [lambda x, a=a: basis.values(x[None])[0, a] - means[a] for a in range(basis.size)]


def same_functions(found, expected, atol):
    """But for signs; ``found`` (n, k), ``expected`` (k, n)."""
    signs = np.sign(np.sum(found.T * expected, axis=1))
    np.testing.assert_allclose(found.T, signs[:, None] * expected, atol=atol)


def alternating():
    """An augmentation that shifts at its first call and shrinks at its second."""
    calls = iter([lambda x: x + 0.3, lambda x: 0.8 * x])
    return lambda x: next(calls)(x)


EQUATION_10 = {((0, 0), (1, 0)): 2.0, ((0, 1), (1, 1)): -0.5}
FORMS = {
    "equation 10": (lambda: DifferentialOperator(EQUATION_10), oracle.differential(EQUATION_10)),
    "equation 3": (
        DirichletForm,
        oracle.differential({((1, 0), (1, 0)): 1.0, ((0, 1), (0, 1)): 1.0}, 1e-5),
    ),
    "equation 19": (
        lambda: TangentProp(lambda x: np.stack([x[:, ::-1], x**2], axis=1)),
        oracle.tangent_prop(lambda x: [x[::-1], x**2]),
    ),
    "equation 20": (
        lambda: AugmentationPairs(alternating()),
        oracle.augmentation_pairs(lambda x: (x + 0.3, 0.8 * x)),
    ),
    "a callable": (
        lambda: lambda left, right, x, w: (w[:, None] * left.values(x)).T @ right.values(x - 1.0),
        lambda f, g, x: f(x) * g(x - 1.0),
    ),
}


@pytest.mark.parametrize(("form", "h"), FORMS.values(), ids=FORMS)
def test_algorithm_1_with_two_bases(form, h):
    form = form()
    mean_of = X if getattr(form, "annihilates_constants", False) else None
    values, f, g = oracle.algorithm_1(h, functions(LEFT, mean_of), functions(RIGHT, mean_of), X)
    found = galerkin(form, LEFT, RIGHT, X, which="largest")
    assert found.eigenvalues_ is None and found.ranks_ == (4, 5)
    np.testing.assert_allclose(found.singular_values_, values, rtol=1e-5, atol=1e-6 * values[0])
    same_functions(found.left.values(X), f[:4], 1e-4)
    same_functions(found.right.values(X), g[:4], 1e-4)


@pytest.mark.parametrize("name", ["equation 3", "equation 19", "equation 20"])
def test_algorithm_1_with_one_basis(name):
    form, h = (part() if k == 0 else part for k, part in enumerate(FORMS[name]))
    values, f, _ = oracle.algorithm_1(h, functions(LEFT, X), functions(LEFT, X), X)
    found = galerkin(form, LEFT, None, X)
    np.testing.assert_allclose(found.eigenvalues_, values[::-1], rtol=1e-5)
    np.testing.assert_allclose(found.singular_values_, found.eigenvalues_)
    same_functions(found.left.values(X), f[::-1], 1e-4)


def test_the_regularizer_of_footnote_6_with_one_basis_and_with_two():
    form, h = FORMS["equation 3"]
    values, f, _ = oracle.algorithm_1(h, functions(LEFT, X), functions(LEFT, X), X, epsilon=0.1)
    found = galerkin(form(), LEFT, None, X, regularization=0.1)
    np.testing.assert_allclose(found.eigenvalues_, values[::-1], rtol=1e-5)
    same_functions(found.left.values(X), f[::-1], 1e-4)
    form, h = FORMS["a callable"]
    values, f, g = oracle.algorithm_1(h, functions(LEFT), functions(RIGHT), X, epsilon=0.1)
    found = galerkin(form(), LEFT, RIGHT, X, which="largest", regularization=0.1)
    np.testing.assert_allclose(found.singular_values_, values, rtol=1e-5, atol=1e-6 * values[0])
    same_functions(found.left.values(X), f[:4], 1e-4)
    same_functions(found.right.values(X), g[:4], 1e-4)
    twice = KernelSections(Gaussian(1.5), X[[0, 0, 1]])  # a singular Φ, which needs it
    assert galerkin(form(), twice, None, X, regularization=1e-6).ranks_ == (3, 3)


@pytest.mark.parametrize(("form", "h"), FORMS.values(), ids=FORMS)
def test_the_general_mode_is_the_fused_one(form, h):
    """The same basis as two objects goes through other lines."""
    twin = KernelSections(LEFT.kernel, LEFT.centers)
    one = galerkin(form(), LEFT, twin, X)
    if hasattr(form(), "symmetric") and form().symmetric:
        np.testing.assert_allclose(
            one.singular_values_, galerkin(form(), LEFT, None, X).eigenvalues_
        )
    np.testing.assert_allclose(
        galerkin(form(), LEFT, twin, [X[:11], X[11:]]).singular_values_,
        one.singular_values_,
        rtol=1e-9,
    )


def test_hermite_polynomials():
    """The Laplacian of N(0, 1), section 5 of the paper: eigenvalue k for the Hermite polynomial of
    degree k.
    """
    found = galerkin(DirichletForm(), Monomials(6, 1), None, **LINE)
    np.testing.assert_allclose(found.eigenvalues_, np.arange(1, 7), rtol=1e-7)
    z = np.linspace(-2.0, 2.0, 7)
    same_functions(
        found.left.values(z[:, None]), np.array([hermite(k, z) for k in range(1, 7)]), 1e-6
    )
    for k, gradient in enumerate(np.moveaxis(found.left.gradients(z[:, None]), 1, 0)):
        literal = differences.gradients(lambda x, k=k: found.left.values(x)[:, k], z[:, None])
        np.testing.assert_allclose(gradient, literal, atol=1e-6)


def test_derivation_is_not_self_adjoint():
    """<f, g'> on N(0, 1): √k, from the Hermite polynomial of degree k to that of degree k - 1."""
    derivation = DifferentialOperator({((0,), (1,)): 1.0})
    assert not derivation.symmetric and not derivation.annihilates_constants
    found = galerkin(derivation, powers(6), powers(6), **LINE)
    np.testing.assert_allclose(found.singular_values_[1:], np.sqrt(np.arange(1, 6)), rtol=1e-8)
    z = np.linspace(-2.0, 2.0, 7)
    same_functions(
        found.right.values(z[:, None])[:, 1:], np.array([hermite(k, z) for k in range(1, 6)]), 1e-6
    )
    same_functions(
        found.left.values(z[:, None])[:, 1:], np.array([hermite(k, z) for k in range(5)]), 1e-6
    )
    np.testing.assert_allclose(  # with its sign: g_k' = √k f_k
        found.right.gradients(z[:, None])[:, 1:, 0],
        found.singular_values_[1:] * found.left.values(z[:, None])[:, 1:],
        atol=1e-6,
    )


def test_second_order_and_variable_coefficients():
    """<f'', g''> has k (k - 1) on N(0, 1), and <f, -g'' + x g'> has k."""
    second = galerkin(DifferentialOperator({((2,), (2,)): 1.0}), Monomials(6, 1), None, **LINE)
    np.testing.assert_allclose(second.eigenvalues_, [0, 2, 6, 12, 20, 30], atol=1e-7)
    drift = DifferentialOperator({((0,), (2,)): -1.0, ((0,), (1,)): lambda x: x[:, 0]})
    found = galerkin(
        drift, Monomials(5, 1), Whitened(Monomials(5, 1), np.eye(5)), **LINE, which="largest"
    )
    assert found.singular_values_[0] == pytest.approx(5.0)  # the odd ones do not miss the constant


def test_coefficients_that_vary_are_the_sums_they_say():
    varying = DifferentialOperator({((1, 0), (0, 1)): lambda x: np.sin(x[:, 0])})
    w = np.random.default_rng(1).random(25)
    expected = (w * np.sin(X[:, 0]) * LEFT.gradients(X)[:, :, 0].T) @ RIGHT.gradients(X)[:, :, 1]
    np.testing.assert_allclose(varying.sum(LEFT, RIGHT, X, w), expected)


def test_angular_momentum():
    """Along x -> Jx the energy of N(0, I2) is m², for polynomials of angular momentum m."""
    found = galerkin(
        TangentProp(lambda x: x[:, ::-1] * [-1.0, 1.0]), Monomials(3, 2), None, **PLANE
    )
    np.testing.assert_allclose(found.eigenvalues_, [0, 1, 1, 1, 1, 4, 4, 9, 9], atol=1e-8)


def test_one_direction_and_all_directions():
    along = galerkin(TangentProp([[1.0, 0.0]]), Monomials(3, 2), None, **PLANE)
    # the degree in x_0
    np.testing.assert_allclose(along.eigenvalues_, [0, 0, 0, 1, 1, 1, 2, 2, 3], atol=1e-8)
    mean = galerkin(TangentProp(np.eye(2)), Monomials(3, 2), None, **PLANE)
    whole = galerkin(DirichletForm(), Monomials(3, 2), None, **PLANE)
    np.testing.assert_allclose(2.0 * mean.eigenvalues_, whole.eigenvalues_)
    np.testing.assert_allclose(whole.eigenvalues_, [1, 1, 2, 2, 2, 3, 3, 3, 3])


def test_spherical_harmonics():
    """s (s + d - 2) on the sphere, 2 s + 1 times for d = 3: the mean over the three rotations is a
    third of it.
    """
    points = np.random.default_rng(0).standard_normal((4000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    rotations = TangentProp(lambda x: np.cross(np.eye(3), x[:, None, :]))
    kernel = KernelSections(Polynomial(3), points[:177])  # figure 2 of the paper
    found = galerkin(rotations, kernel, None, points)
    assert found.ranks_ == (15, 15)
    truth = np.repeat([2.0, 6.0, 12.0], [3, 5, 7])
    np.testing.assert_allclose(3.0 * found.eigenvalues_, truth, rtol=0.1)
    error = np.mean(np.abs(3.0 * found.eigenvalues_ - truth) / truth)
    half = galerkin(rotations, kernel, None, points[:400])
    assert error < 0.5 * np.mean(np.abs(3.0 * half.eigenvalues_ - truth) / truth)  # as n^-1/2


def test_augmentations_by_a_diffusion():
    """ξ = e^-t X + √(1 - e^-2t) Z keeps N(0, 1), and has E[(f(ξ) - f(ξ'))²] = 2 (1 - e^-2kt) for
    degree k.
    """
    rng, t = np.random.default_rng(0), 0.2
    form = AugmentationPairs(
        lambda x: np.exp(-t) * x + np.sqrt(1 - np.exp(-2 * t)) * rng.standard_normal(x.shape),
        n_pairs=2,
    )
    x = rng.standard_normal((100_000, 1))
    found = galerkin(form, Monomials(2, 1), None, x)
    truth = 2 * (1 - np.exp(-2 * t * np.arange(1, 3)))
    np.testing.assert_allclose(found.eigenvalues_, truth, rtol=0.03)  # standard errors .4 and 1 %


def test_an_operator_between_two_bases_by_a_callable():
    """E[f(X) g(Y)] for a normal pair of correlation r: r^k, with Hermite polynomials on both sides
    (Mehler).
    """
    r = 0.6
    pairs = {
        "X": PLANE["X"] @ np.array([[1.0, r], [0.0, np.sqrt(1 - r**2)]]),
        "weights": PLANE["weights"],
    }
    first = Bilinear(lambda left, right, x, w: (w[:, None] * left.values(x)).T @ right.values(x))
    k = np.arange(1, 5)
    one = UserFunctions(lambda x: x[:, :1] ** k, size=4)
    two = UserFunctions(lambda x: x[:, 1:] ** k, size=4)
    odd = galerkin(
        first, UserFunctions(lambda x: x[:, :1] ** [1, 3], size=2), two, **pairs, which="largest"
    )
    np.testing.assert_allclose(odd.singular_values_, [r, r**3])
    assert galerkin(first, one, two, **pairs).ranks_ == (4, 4)


def test_weights_are_repetitions():
    counts = np.random.default_rng(3).integers(0, 3, 25)
    one = galerkin(DirichletForm(), LEFT, None, X, weights=counts)
    two = galerkin(DirichletForm(), LEFT, None, np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(one.eigenvalues_, two.eigenvalues_)
    values = one.left.values(X)
    np.testing.assert_allclose((counts * values.T) @ values / counts.sum(), np.eye(4), atol=1e-10)
    np.testing.assert_allclose(counts @ values, 0.0, atol=1e-9)


def test_equal_functions_and_tiny_ones_make_no_modes():
    """No spurious mode out of rounding: rank, not size, is what counts."""
    x = np.random.default_rng(4).standard_normal((2000, 1))
    wide = KernelSections(Gaussian(8.0), np.linspace(-1.0, 1.0, 60)[:, None])
    found = galerkin(DirichletForm(), wide, None, x)
    assert found.ranks_[0] < 8
    np.testing.assert_allclose(found.eigenvalues_[:2], [1.0, 2.0], rtol=0.1)
    twice = Whitened(Monomials(2, 1), np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    assert galerkin(DirichletForm(), twice, None, x).ranks_ == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((3.0, LEFT, None, X), {}, TypeError, "form=3.0"),
        ((DirichletForm(), "gaussian", None, X), {}, TypeError, "left='gaussian'"),
        ((DirichletForm(), LEFT, None, X), {"which": "first"}, ValueError, "which='first'"),
        ((DirichletForm(), LEFT, None, X), {"n_components": 0}, ValueError, "n_components=0"),
        ((DirichletForm(), LEFT, None, X), {"tolerance": 2.0}, ValueError, "tolerance=2.0"),
        (
            (DirichletForm(), LEFT, None, X),
            {"regularization": -1.0},
            ValueError,
            "regularization=-1.0",
        ),
        (
            (DirichletForm(), LEFT, None, X),
            {"weights": np.zeros(25)},
            ValueError,
            "weights: expected some",
        ),
        (
            (DirichletForm(), LEFT, None, X),
            {"weights": -np.ones(25)},
            ValueError,
            "weights: expected no negative",
        ),
        ((DirichletForm(), LEFT, None, np.full((3, 2), np.nan)), {}, ValueError, "NaN"),
        ((DirichletForm(), LEFT, None, np.empty((0, 2))), {}, ValueError, "no rows"),
        (
            (DirichletForm(), LEFT, None, np.zeros((5, 2))),
            {},
            ValueError,
            "all its functions are constant over X",
        ),
        (
            (lambda *_: np.ones(3), LEFT, None, X),
            {},
            ValueError,
            r"function gave shape \(3,\): expected \(4, 4\)",
        ),
        ((lambda *_: np.full((4, 4), np.nan), LEFT, None, X), {}, ValueError, "function gave NaN"),
        ((TangentProp(lambda x: x[:, 0]), LEFT, None, X), {}, ValueError, "tangents gave shape"),
        ((AugmentationPairs(lambda x: x[:3]), LEFT, None, X), {}, ValueError, "augment gave shape"),
        (
            (DifferentialOperator({((2, 0), (0, 0)): 1.0}), UserFunctions(np.sin, size=2), None, X),
            {},
            TypeError,
            "order 2",
        ),
        (
            (DifferentialOperator({((2,), (0,)): 1.0}), LEFT, None, X),
            {},
            ValueError,
            "expected 2 whole numbers",
        ),
    ],
)
def test_bad_input(arguments, options, error, message):
    with pytest.raises(error, match=message):
        galerkin(*arguments, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DifferentialOperator({}), "expected multi-indices"),
        (lambda: DifferentialOperator({((1,), (1, 0)): 1.0}), "of one length"),
        (lambda: DifferentialOperator({((-1,), (1,)): 1.0}), "none negative"),
        (lambda: DifferentialOperator({((1,), (1,)): np.nan}), "expected a finite number"),
        (lambda: DifferentialOperator([1.0]), "expected a mapping"),
        (lambda: AugmentationPairs(lambda x: x, n_pairs=0), "n_pairs=0"),
    ],
)
def test_forms_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("make", [lambda: AugmentationPairs(3), lambda: Bilinear("f")])
def test_callables_are_expected(make):
    with pytest.raises(TypeError, match="expected a callable"):
        make()


def test_samples_in_blocks(tmp_path):
    """An iterator of blocks is read once, and a memory map is not read into memory first."""
    w = np.random.default_rng(5).random(25)
    whole = galerkin(DirichletForm(), LEFT, RIGHT, X, weights=w)
    blocks = {
        "X": (X[start : start + 10] for start in range(0, 25, 10)),
        "weights": iter([w[:20], w[20:]]),
    }
    np.testing.assert_allclose(
        galerkin(DirichletForm(), LEFT, RIGHT, **blocks).singular_values_, whole.singular_values_
    )
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    found = galerkin(DirichletForm(), LEFT, RIGHT, mapped, weights=w, block=7)
    np.testing.assert_allclose(found.singular_values_, whole.singular_values_)


def test_the_end_and_the_number():
    found = galerkin(DirichletForm(), Monomials(6, 1), None, **LINE, n_components=2)
    np.testing.assert_allclose(found.eigenvalues_, [1.0, 2.0])
    found = galerkin(
        DirichletForm(), Monomials(6, 1), None, **LINE, n_components=2, which="largest"
    )
    np.testing.assert_allclose(found.eigenvalues_, [6.0, 5.0])
    with pytest.warns(KmcWarning, match="n_components=9: the functions have numerical rank 6"):
        assert (
            galerkin(DirichletForm(), Monomials(6, 1), None, **LINE, n_components=9).left.size == 6
        )
