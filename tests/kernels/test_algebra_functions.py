import numpy as np
import pytest

from kmc.kernels import (
    DotProductFunction,
    ExponentialDotProduct,
    Gaussian,
    RadialFunction,
    kernel_derivative,
)
from tests.kernels.cases import PROFILES


def test_a_radial_function_is_the_kernel_of_its_profiles():
    s = np.linspace(0, 9, 10).reshape(2, 5)
    ours, known = RadialFunction(PROFILES, bandwidth=1.7), Gaussian(1.7)
    np.testing.assert_allclose(ours.derivatives(s, 4), known.derivatives(s, 4), rtol=1e-14)
    np.testing.assert_allclose(
        ours.scaled(2.0).derivatives(s, 4), known.scaled(2.0).derivatives(s, 4), rtol=1e-14
    )


def test_a_dot_product_function_is_the_kernel_of_its_profiles():
    t = np.linspace(-3, 3, 7)
    ours, known = DotProductFunction([np.exp] * 5, bandwidth=1.7), ExponentialDotProduct(1.7)
    np.testing.assert_allclose(ours.derivatives(t, 4), known.derivatives(t, 4), rtol=1e-14)


def test_an_order_that_was_not_given():
    kernel = RadialFunction(PROFILES[:3])
    assert len(kernel.derivatives(np.ones(2), 2)) == 3
    with pytest.raises(
        ValueError, match="order 3 are needed, but only those up to order 2 were given; add 1 more"
    ):
        kernel.derivatives(np.ones(2), 3)
    with pytest.raises(
        ValueError, match="order 4 are needed, but only those up to order 2 were given; add 2 more"
    ):
        kernel_derivative(Gaussian() * kernel, "xxyy", np.ones((2, 2)), np.ones((1, 2)))


def kink(s):
    with np.errstate(divide="ignore"):
        return -0.5 / np.sqrt(s)


@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        (
            [np.sum],
            r"profiles\[0\] of RadialFunction returned shape \(\) for arguments of shape \(2,\)",
        ),
        (
            [np.exp, kink],
            r"profiles\[1\] of RadialFunction returned -inf at 0: expected a finite number",
        ),
    ],
    ids=["shape", "value"],
)
def test_what_profiles_return_is_checked(profiles, message):
    with pytest.raises(ValueError, match=message):
        RadialFunction(profiles).derivatives(np.array([0.0, 1.0]), len(profiles) - 1)


@pytest.mark.parametrize("profiles", [np.exp, [], [np.exp, 1.0]])
def test_profiles_are_a_sequence_of_callables(profiles):
    for kind in (RadialFunction, DotProductFunction):
        with pytest.raises(
            TypeError, match=r"profiles=.*expected a sequence \[q, q', ...\] of callables"
        ):
            kind(profiles)


def test_bandwidth_is_checked():
    with pytest.raises(ValueError, match="bandwidth=0"):
        RadialFunction([np.exp], bandwidth=0)
