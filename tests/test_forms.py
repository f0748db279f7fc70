from dataclasses import asdict, dataclass

import numpy as np
import pytest

from kmc.bases import Basis, KernelSections
from kmc.forms import FORMS, accumulate
from kmc.kernels import Gaussian


@dataclass(frozen=True)
class General:
    """A basis by its general mode alone, so that no form of it is fused."""

    basis: Basis

    @property
    def size(self):
        return self.basis.size

    def values(self, x):
        return self.basis.values(x)

    def gradients(self, x):
        return self.basis.gradients(x)

    def laplacians(self, x):
        return self.basis.laplacians(x)


@pytest.fixture
def basis():
    rng = np.random.default_rng(5)
    return KernelSections(Gaussian(1.5), rng.standard_normal((4, 2)), np.array([[1.2, 0.3], [0.0, 0.9]]))


@pytest.fixture
def x():
    return np.random.default_rng(6).standard_normal((23, 2))


@pytest.fixture
def data():
    rng = np.random.default_rng(7)
    return {"weights": rng.random(23), "values": rng.standard_normal(23), "base_gradient": rng.standard_normal((23, 2))}


def rows(data, part):
    return {name: array[part] for name, array in data.items()}


def assert_same(a, b):
    for name, value in asdict(a).items():
        np.testing.assert_allclose(value, getattr(b, name), rtol=1e-11, atol=1e-12, err_msg=name)


def test_sums_are_the_definitions(basis, x, data):
    forms = accumulate(basis, x, FORMS, **data)
    w, y, g = data["weights"], data["values"], data["base_gradient"]
    phi, gradients = basis.values(x), basis.gradients(x)
    assert forms.weight == pytest.approx(w.sum())
    assert forms.value_sum == pytest.approx(w @ y)
    np.testing.assert_allclose(forms.mean, w @ phi)
    np.testing.assert_allclose(forms.mass, phi.T @ np.diag(w) @ phi)
    np.testing.assert_allclose(forms.values, phi.T @ np.diag(w) @ y)
    np.testing.assert_allclose(forms.dirichlet, np.einsum("n,nai,nbi->ab", w, gradients, gradients))
    np.testing.assert_allclose(
        forms.linear, np.einsum("n,na->a", w, basis.laplacians(x)) + np.einsum("n,nai,ni->a", w, gradients, g)
    )


def test_weights_are_one_and_the_base_flat_by_default(basis, x, data):
    y = data["values"]
    explicit = accumulate(basis, x, FORMS, values=y, weights=np.ones(23), base_gradient=np.zeros((23, 2)))
    assert_same(accumulate(basis, x, FORMS, values=y), explicit)


@pytest.mark.parametrize("block", [1, 7, 23, 1000])
def test_blocks_do_not_matter(basis, x, data, block):
    assert_same(accumulate(basis, x, FORMS, **data, block=block), accumulate(basis, x, FORMS, **data))


def test_parts_add_to_the_whole_and_a_fold_leaves_the_rest(basis, x, data):
    whole = accumulate(basis, x, FORMS, **data)
    fold, rest = (accumulate(basis, x[part], FORMS, **rows(data, part)) for part in (slice(9), slice(9, None)))
    assert_same(fold + rest, whole)
    assert_same(whole - fold, rest)


def test_a_basis_without_fused_forms_gives_the_same(basis, x, data):
    assert_same(accumulate(General(basis), x, FORMS, **data), accumulate(basis, x, FORMS, **data))


def test_centred_forms_are_covariances(basis, x, data):
    forms = accumulate(basis, x, ("mass", "values"), weights=data["weights"], values=data["values"])
    joint = np.cov(np.column_stack([basis.values(x), data["values"]]).T, aweights=data["weights"], ddof=0)
    np.testing.assert_allclose(forms.centred_mass(), joint[:-1, :-1], atol=1e-15)
    np.testing.assert_allclose(forms.centred_values(), joint[:-1, -1], atol=1e-15)


def test_only_the_forms_asked_for_are_summed(basis, x):
    forms = accumulate(basis, x, ("dirichlet",))
    assert forms.mass is None and forms.linear is None
    with pytest.raises(ValueError, match="mass was not accumulated"):
        forms.get("mass")
    with pytest.raises(ValueError, match="was not accumulated"):
        forms.centred_mass()


def test_different_forms_do_not_mix(basis, x):
    mass, dirichlet = accumulate(basis, x, ("mass",)), accumulate(basis, x, ("dirichlet",))
    with pytest.raises(ValueError, match="same forms"):
        mass + dirichlet
    with pytest.raises(ValueError, match="same forms"):
        mass - dirichlet


@pytest.mark.parametrize(
    ("forms", "n", "message"),
    [(("mass", "lagged"), 5, "'lagged' is not one of"), (("values",), 5, "values=None"), (("mass",), 0, "no rows")],
)
def test_errors_say_what_is_wrong(basis, x, forms, n, message):
    with pytest.raises(ValueError, match=message):
        accumulate(basis, x[:n], forms)
