import numpy as np
import pytest

from kmc.bases import KernelSections
from kmc.forms import accumulate, accumulate_folds
from kmc.kernels import Gaussian
from tests.forms.common import General, assert_same
from tests.oracles import forms as oracle
from tests.oracles import sections

STATIC = ("mass", "values", "dirichlet", "linear")


@pytest.fixture
def basis():
    return KernelSections(Gaussian(1.5), np.random.default_rng(5).standard_normal((4, 2)))


@pytest.fixture
def x():
    return np.random.default_rng(6).standard_normal((23, 2))


@pytest.fixture
def data():
    rng = np.random.default_rng(7)
    return {
        "weights": rng.random(23),
        "values": rng.standard_normal(23),
        "base_gradient": rng.standard_normal((23, 2)),
    }


def rows(data, part):
    return {name: array[part] for name, array in data.items()}


def test_sums_are_the_definitions(basis, x, data):
    forms = accumulate(basis, x, STATIC, **data)
    w, y, g = data["weights"], data["values"], data["base_gradient"]
    phi, gradients = basis.values(x), basis.gradients(x)
    assert forms.weight == pytest.approx(w.sum())
    assert forms.value_sum == pytest.approx(w @ y)
    np.testing.assert_allclose(forms.mean, w @ phi)
    np.testing.assert_allclose(forms.mass, oracle.mass(phi, w))
    np.testing.assert_allclose(forms.values, phi.T @ np.diag(w) @ y)
    np.testing.assert_allclose(forms.dirichlet, sections.dirichlet(gradients, w))
    np.testing.assert_allclose(forms.linear, sections.linear(gradients, basis.laplacians(x), w, g))


def test_centered_forms_are_covariances(basis, x, data):
    forms = accumulate(basis, x, ("mass", "values"), weights=data["weights"], values=data["values"])
    joint = np.column_stack([basis.values(x), data["values"]])
    literal = oracle.covariance(joint, joint, data["weights"])
    np.testing.assert_allclose(
        literal, np.cov(joint.T, aweights=data["weights"], ddof=0), atol=1e-15
    )
    np.testing.assert_allclose(forms.centered_mass(), literal[:-1, :-1], atol=1e-15)
    np.testing.assert_allclose(forms.centered_values(), literal[:-1, -1], atol=1e-15)
    assert forms.value_variance() == pytest.approx(literal[-1, -1])


def test_weights_are_one_and_the_base_flat_by_default(basis, x, data):
    y = data["values"]
    explicit = accumulate(
        basis, x, STATIC, values=y, weights=np.ones(23), base_gradient=np.zeros((23, 2))
    )
    assert_same(accumulate(basis, x, STATIC, values=y), explicit)


def test_weights_are_repetitions(basis, x, data):
    """A whole weight counts a sample that many times, zero not at all."""
    counts = np.arange(23) % 4
    repeated = {name: np.repeat(data[name], counts, axis=0) for name in ("values", "base_gradient")}
    once = accumulate(basis, x, STATIC, **(data | {"weights": counts}))
    assert_same(once, accumulate(basis, np.repeat(x, counts, axis=0), STATIC, **repeated))


@pytest.mark.parametrize("block", [1, 7, 23, 1000])
def test_blocks_do_not_matter(basis, x, data, block):
    assert_same(
        accumulate(basis, x, STATIC, **data, block=block), accumulate(basis, x, STATIC, **data)
    )


def test_blocks_without_weight_do_not_matter(basis, x, data):
    data["weights"][:6] = 0.0
    rest = accumulate(basis, x[6:], STATIC, **rows(data, slice(6, 23)))
    assert_same(accumulate(basis, x, STATIC, **data, block=2), rest)


def test_parts_add_to_the_whole_and_a_fold_leaves_the_rest(basis, x, data):
    whole = accumulate(basis, x, STATIC, **data)
    fold, rest = (
        accumulate(basis, x[part], STATIC, **rows(data, part))
        for part in (slice(9), slice(9, None))
    )
    assert_same(fold + rest, whole)
    assert_same(whole - fold, rest)


def test_a_basis_without_fused_forms_gives_the_same(basis, x, data):
    assert_same(accumulate(General(basis), x, STATIC, **data), accumulate(basis, x, STATIC, **data))


@pytest.mark.parametrize("folds", [4, "labels"])
@pytest.mark.parametrize("block", [3, 1000])
def test_folds_are_what_each_would_give_alone(basis, x, data, folds, block):
    labels = (
        np.arange(23) * 4 // 23
        if folds == 4
        else np.random.default_rng(8).permutation(np.arange(23) % 5)
    )
    parts = accumulate_folds(basis, x, STATIC, 4 if folds == 4 else labels, **data, block=block)
    assert len(parts) == labels.max() + 1
    for fold, part in enumerate(parts):
        assert_same(
            part, accumulate(basis, x[labels == fold], STATIC, **rows(data, labels == fold))
        )


class Offset:
    """Functions that vary by one around a mean of ``offset``."""

    size = 2

    def __init__(self, offset):
        self.offset = offset

    def values(self, x):
        return self.offset + x


@pytest.mark.parametrize(("offset", "accuracy"), [(0.0, 1e-13), (1e4, 1e-12), (1e7, 1e-9)])
def test_an_offset_costs_no_digits_in_the_covariances(offset, accuracy):
    """Values of size A with deviations of one are accurate to A ε, raw second moments to A² ε."""
    rng = np.random.default_rng(9)
    # so that adding the offset is exact to 1e7
    x = np.rint(2**20 * rng.standard_normal((4000, 2))) / 2**20
    y = np.rint(2**20 * rng.standard_normal(4000)) / 2**20
    labels = rng.permutation(np.arange(4000) % 5)
    near = accumulate(Offset(0.0), x[labels != 2], ("mass", "values"), values=y[labels != 2])
    folds = accumulate_folds(
        Offset(offset), x, ("mass", "values"), labels, values=y - 3 * offset, block=256
    )
    whole = accumulate(Offset(offset), x, ("mass", "values"), values=y - 3 * offset, block=300)
    for far in (whole - folds[2], folds[0] + folds[1] + folds[3] + folds[4]):
        np.testing.assert_allclose(far.centered_mass(), near.centered_mass(), rtol=0, atol=accuracy)
        np.testing.assert_allclose(
            far.centered_values(), near.centered_values(), rtol=0, atol=accuracy
        )
        assert far.value_variance() == pytest.approx(near.value_variance(), rel=accuracy)


def test_a_constant_function_has_no_mass_once_centered(x):
    forms = accumulate(Offset(1e6), np.zeros_like(x), ("mass",), block=5)
    np.testing.assert_array_equal(forms.centered_mass(), 0.0)


def test_only_the_forms_asked_for_are_summed(basis, x):
    forms = accumulate(basis, x, ("dirichlet",))
    assert (
        forms.mass is None
        and forms.values is None
        and forms.linear is None
        and forms.lagged is None
    )
    with pytest.raises(ValueError, match="mass was not accumulated"):
        forms.get("mass")
    with pytest.raises(ValueError, match="was not accumulated"):
        forms.centered_mass()


def test_different_forms_do_not_mix(basis, x):
    mass, dirichlet = accumulate(basis, x, ("mass",)), accumulate(basis, x, ("dirichlet",))
    with pytest.raises(ValueError, match=r"same forms, not \('mass',\) and \('dirichlet',\)"):
        mass + dirichlet
    with pytest.raises(ValueError, match="same forms"):
        mass - dirichlet
    with pytest.raises(TypeError):
        mass + 1.0


@pytest.mark.parametrize(
    ("forms", "options", "message"),
    [
        (("mass", "energy"), {}, "'energy' is not one of"),
        ("mass", {}, "expected a sequence of names"),
        ((), {}, "expected a sequence of names"),
        (("values",), {}, "values=None"),
        (("mass",), {"block": 0}, "block=0"),
        (("mass",), {"lagtime": 2}, "no other form takes one"),
        (("lagged",), {}, "'lagged' needs a lagtime"),
        (("lagged", "reversible"), {"lagtime": 1}, "only one of the two"),
        (("lagged",), {"lagtime": 0}, "lagtime=0"),
        (("lagged",), {"lagtime": 23}, "every trajectory is too short"),
        (("mass",), {"weights": np.ones(22)}, "weights has fewer rows than x"),
        (("mass",), {"weights": np.ones(24)}, "weights has more rows than x"),
        (("mass",), {"weights": -np.ones(23)}, "no negative number, found -1"),
        (("mass",), {"weights": np.full(23, np.nan)}, "weights contains NaN"),
        (("values",), {"values": np.ones((23, 1))}, r"values has a block of shape \(23, 1\)"),
        (("linear",), {"base_gradient": np.ones((23, 3))}, r"base_gradient has shape \(23, 3\)"),
        (
            ("linear",),
            {"base_gradient": lambda x: np.log(x[:, :0].sum(axis=1, keepdims=True))},
            "contains NaN or inf",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_errors_say_what_is_wrong(basis, x, forms, options, message):
    with pytest.raises(ValueError, match=message):
        accumulate(basis, x, forms, **options)


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        (1, "folds=1: expected a number from 2"),
        (24, "folds=24"),
        (np.arange(23) % 3 * 2, "no sample is in fold 1 of 5"),
        (np.arange(23) - 1, "found -1"),
        (np.arange(23) / 2, "expected whole numbers"),
        (np.arange(22), "fewer rows than x"),
    ],
)
def test_folds_that_make_no_sense(basis, x, folds, message):
    with pytest.raises(ValueError, match=message):
        accumulate_folds(basis, x, ("mass",), folds)


def test_the_form_of_gradients(basis, x, data):
    """Σ w <∇φ, t> and Σ w |t|², in one pass, in blocks, in folds, and through the general mode."""
    w, t = data["weights"], np.random.default_rng(8).standard_normal((23, 2))
    forms = accumulate(basis, x, ("gradients",), weights=w, gradients=t)
    literal = sum(w[b] * (basis.gradients(x)[b] @ t[b]) for b in range(23))
    np.testing.assert_allclose(forms.gradients, literal)
    assert forms.gradient_square == pytest.approx(sum(w[b] * t[b] @ t[b] for b in range(23)))
    assert_same(
        accumulate(General(basis), x, ("gradients",), weights=w, gradients=[t[:7], t[7:]], block=5),
        forms,
    )
    folds = accumulate_folds(basis, x, ("gradients",), 3, weights=w, gradients=t)
    assert_same(folds[0] + folds[1] + folds[2], forms)
    with pytest.raises(ValueError, match="gradients=None"):
        accumulate(basis, x, ("gradients",))
    with pytest.raises(ValueError, match=r"gradients has shape \(23, 1\)"):
        accumulate(basis, x, ("gradients",), gradients=t[:, :1])
