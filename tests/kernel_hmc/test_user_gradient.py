"""The user's gradient: what it may return, and its check against differences."""

import numpy as np
import pytest

from kmc.errors import KmcWarning
from kmc.kernel_hmc.user_gradient import GradientCheck, OccasionalGradient

SCALES = np.array([1.0, 30.0, 1e-3])


def log_density(x):
    return -0.5 * float(np.sum((x / SCALES) ** 2)) - float(np.sum(np.sin(x / SCALES)))


def slope(x):
    return -x / SCALES**2 - np.cos(x / SCALES) / SCALES


def checked(function, values=log_density):
    rng = np.random.default_rng(1)
    x = SCALES * rng.standard_normal((4, 3))
    check = GradientCheck(OccasionalGradient(function)(x), x, spread=SCALES, rng=rng)
    return check.warn(np.array([values(x) for x in check.points]))


def test_a_right_gradient_passes():
    assert checked(slope) < 1e-5


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: -slope(x),
        lambda x: 1.2 * slope(x),
        lambda x: slope(x) * [1.0, 0.0, 1.0],
        lambda x: np.zeros(3),
        lambda x: np.full(3, np.nan),
    ],
    ids=["sign", "factor", "coordinate", "zero", "nan"],
)
def test_wrong_gradients_are_seen(wrong):
    with pytest.warns(
        KmcWarning, match="The gradient disagrees with differences of the log-density"
    ):
        assert checked(wrong) > 0.05


def test_where_the_density_is_zero_nothing_is_compared():
    assert np.isnan(checked(slope, lambda x: -np.inf))
    assert checked(slope, lambda x: log_density(x) if x[0] > 0 else -np.inf) < 1e-5
    assert checked(lambda x: np.zeros(3), lambda x: 0.0) == 0.0


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            np.zeros(2),
            r"gradients returned an array of shape \(2,\) at .*an array of shape \(3,\), or None",
        ),
        (1.0, r"gradients returned an array of shape \(\) at"),
        ("steep", "gradients returned 'steep' at .*expected the gradient of the log-density"),
    ],
)
def test_other_things_than_gradients(returned, message):
    with pytest.raises(ValueError, match=message):
        OccasionalGradient(lambda x: returned)(np.zeros((1, 3)))


def test_the_function_may_modify_its_argument():
    def careless(x):
        x *= -1.0
        return x

    x, gradient = np.ones((1, 3)), OccasionalGradient(careless)
    np.testing.assert_array_equal(gradient(x), -1.0)
    np.testing.assert_array_equal(x, 1.0)


@pytest.mark.parametrize(
    "nothing", [None, [np.nan] * 3, [1.0, np.inf, 1.0]], ids=["none", "nan", "infinite"]
)
def test_a_gradient_may_be_missing_at_some_points(nothing):
    gradient = OccasionalGradient(lambda x: -x if x[0] > 0 else nothing)
    found = gradient(np.array([[1.0, 2.0, 3.0], [-1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    np.testing.assert_array_equal(found, [[-1.0, -2.0, -3.0], [np.nan] * 3, [-4.0, -5.0, -6.0]])
    assert (gradient.n_known, gradient.n_unknown) == (2, 1)
    assert gradient(np.empty((0, 3))).shape == (0, 3)
