import numpy as np
import pytest

from kmc.bases import Contraction, Monomials, UserFunctions
from kmc.forms import accumulate
from tests.forms.common import assert_same

REFERENCE = Monomials(2, 2)


@pytest.fixture
def basis():
    """Monomials, written as by a user."""
    return UserFunctions(REFERENCE.values, REFERENCE.gradients, REFERENCE.laplacians, size=5)


@pytest.fixture
def x():
    return np.random.default_rng(40).standard_normal((20, 2))


def test_forms_and_contractions_are_those_of_the_functions(basis, x):
    forms = ("mass", "dirichlet", "linear", "lagged")
    options = {"base_gradient": -x, "lagtime": 2, "block": 7}
    assert_same(accumulate(basis, x, forms, **options), accumulate(REFERENCE, x, forms, **options))
    mine, reference = (Contraction(b, np.arange(5.0)) for b in (basis, REFERENCE))
    for name in ("values", "gradient", "laplacian"):
        np.testing.assert_allclose(getattr(mine, name)(x), getattr(reference, name)(x), rtol=1e-12)


def test_lists_will_do(x):
    basis = UserFunctions(lambda x: [[sum(row), 1.0] for row in x.tolist()], size=2)
    np.testing.assert_allclose(basis.values(x), np.column_stack([x.sum(axis=1), np.ones(20)]))


def test_only_what_a_form_needs_must_be_given(x):
    only_values = UserFunctions(REFERENCE.values, size=5)
    assert accumulate(only_values, x, ("mass",)).mass.shape == (5, 5)
    with pytest.raises(
        TypeError, match=r"gradients=None: .* give UserFunctions\(..., gradients=...\)"
    ):
        accumulate(only_values, x, ("dirichlet",))
    no_laplacians = UserFunctions(REFERENCE.values, REFERENCE.gradients, size=5)
    assert accumulate(no_laplacians, x, ("dirichlet",)).dirichlet.shape == (5, 5)
    with pytest.raises(TypeError, match="laplacians=None: this needs the laplacians"):
        accumulate(no_laplacians, x, ("linear",))
    no_gradients = UserFunctions(REFERENCE.values, None, REFERENCE.laplacians, size=5)
    assert accumulate(no_gradients, x, ("linear",)).linear.shape == (5,)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda x: x, r"values\(x\) returned shape \(20, 2\) for 20 points: expected \(20, 5\)"),
        (
            lambda x: np.where(x[:, :1] > 5, 0.0, np.nan) * np.ones(5),
            r"NaN or infinity, first of function 0 at x = \[",
        ),
    ],
)
def test_answers_are_checked(x, values, message):
    with pytest.raises(ValueError, match=message):
        UserFunctions(values, size=5).values(x)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="size=0: expected the number of functions"):
        UserFunctions(np.sin, size=0)
    with pytest.raises(TypeError, match="values=None: expected a callable"):
        UserFunctions(None, size=1)
    with pytest.raises(TypeError, match="gradients=3: expected a callable"):
        UserFunctions(np.sin, 3, size=1)
