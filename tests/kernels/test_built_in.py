import numpy as np
import pytest
from sklearn.gaussian_process import kernels as reference

from kmc.kernels import (
    Exponential,
    Gaussian,
    InverseMultiquadric,
    Matern52,
    Matern72,
    squared_distances,
)
from tests.kernels import cases
from tests.oracles import differences
from tests.oracles import kernels as oracle

RADIAL = cases.SMOOTH_RADIAL | cases.ROUGH_RADIAL
BUILT_IN = {name: kernel for name, kernel in RADIAL.items() if name != "radial function"}


def radial(kernels=RADIAL):
    return pytest.mark.parametrize("kernel", kernels.values(), ids=kernels)


@radial()
def test_profile_is_the_kernel(kernel):
    s = np.linspace(0, 30, 61)
    expected = [oracle.value(kernel, np.sqrt([v]), np.zeros(1)) for v in s]
    np.testing.assert_allclose(kernel.profile(s), expected, rtol=1e-14)
    assert kernel.profile(np.zeros(1)) == 1.0


@radial()
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_each_derivative_is_the_slope_of_the_one_before(kernel, order):
    """Away from s = 0, where some diverge; steps of 1 % of s, in which every profile is smooth."""
    s = np.linspace(0.5, 30, 30)
    derivatives = kernel.derivatives(s, order)
    assert len(derivatives) == order + 1
    slopes = [
        differences.gradient(
            lambda t: kernel.derivatives(t, order - 1)[-1], np.array([v]), 0.01 * v
        )[0, 0]
        for v in s
    ]
    np.testing.assert_allclose(derivatives[-1], slopes, rtol=1e-8)


@radial(cases.SMOOTH_RADIAL)
def test_smooth_profiles_at_coincidence(kernel):
    """Derivatives continue to s = 0: there the Taylor series of each row gives the next one."""
    at, near = kernel.derivatives(np.array([0.0]), 4), kernel.derivatives(np.array([1e-7]), 4)
    for k in range(4):
        assert near[k] == pytest.approx(at[k] + 1e-7 * at[k + 1], rel=1e-12)
    assert kernel.differentiability == np.inf


@pytest.mark.parametrize(
    ("kernel", "finite"),
    [(Matern52(2.0), 2), (Matern72(2.0), 3), (Exponential(2.0), 0)],
    ids=["5/2", "7/2", "1/2"],
)
def test_rough_profiles_at_coincidence(kernel, finite):
    """Up to ``finite`` they are continuous, 2 finite derivatives in x exist, and what diverges is
    given as 0.
    """
    assert kernel.differentiability == 2 * finite
    at = np.array(kernel.derivatives(np.array([0.0]), 4))[:, 0]
    near = np.array(kernel.derivatives(np.array([1e-16]), 4))[:, 0]  # a distance of 1e-8
    np.testing.assert_allclose(at[: finite + 1], near[: finite + 1], rtol=1e-7)
    assert (at[finite + 1 :] == 0).all()
    assert (np.abs(near[finite + 1 :]) > 1e5).all()
    np.testing.assert_array_equal(kernel.derivatives(np.array([1e-200]), 4), at[:, None])


def test_values_at_coincidence_of_the_matern_kernels():
    """q' = -c/6 and q'' = c²/12 for 5/2 with c = 5/h²; -c/10, c²/60 and -c³/120 for 7/2 with c =
    7/h².
    """
    h = 1.7
    c = 5 / h**2
    np.testing.assert_allclose(
        np.ravel(Matern52(h).derivatives([0.0], 2)), [1, -c / 6, c**2 / 12], rtol=1e-14
    )
    c = 7 / h**2
    expected = [1, -c / 10, c**2 / 60, -(c**3) / 120]
    np.testing.assert_allclose(np.ravel(Matern72(h).derivatives([0.0], 3)), expected, rtol=1e-14)


@radial(BUILT_IN)
def test_extreme_distances(kernel):
    """Nothing overflows, nothing is NaN: far away the kernel is flat."""
    s = np.array([1e-320, 1e-300, 1e-70, 1e8, 1e30, 1e200, 1e308])
    for k, row in enumerate(kernel.derivatives(s, 4)):
        assert np.isfinite(row).all()
        assert (np.abs(row[-2:]) < 1e-15 * 10.0**-k).all()
    assert all(np.isnan(row).all() for row in kernel.derivatives(np.array([np.nan]), 4))


@radial()
def test_any_arguments(kernel):
    """Shapes, orders in memory, types and read-only arrays, and more than a tile of distances."""
    s = np.random.default_rng(0).random((7, 3, 101)) * 5
    expected = [np.array([kernel.derivatives(v)[k] for v in s[0, 0, :5]]) for k in range(3)]
    frozen = s.copy()
    frozen.flags.writeable = False
    for other in (s, frozen, np.asfortranarray(s), np.repeat(s, 2, axis=2)[:, :, ::2]):
        for row, some in zip(kernel.derivatives(other), expected):
            assert row.shape == s.shape
            np.testing.assert_allclose(row[0, 0, :5], some, rtol=1e-14)
    np.testing.assert_allclose(
        kernel.profile(np.arange(4)), kernel.profile(np.arange(4.0)), rtol=1e-15
    )
    assert kernel.profile(np.empty((0, 3))).shape == (0, 3)
    assert np.ndim(kernel.profile(2.0)) == 0


@pytest.mark.parametrize("order", [-1, 5])
def test_order_is_checked(order):
    with pytest.raises(ValueError, match=f"order={order}: expected a whole number from 0 to 4"):
        Gaussian().derivatives(np.ones(2), order)


def test_order_is_a_whole_number():
    with pytest.raises(TypeError, match=r"order=1\.5"):
        Gaussian().derivatives(np.ones(2), 1.5)


@pytest.mark.parametrize(
    ("kernel", "other"),
    [
        (Gaussian(1.3), reference.RBF(1.3)),
        (Matern52(1.3), reference.Matern(1.3, nu=2.5)),
        (Matern72(1.3), reference.Matern(1.3, nu=3.5)),
        (Exponential(1.3), reference.Matern(1.3, nu=0.5)),
        (
            InverseMultiquadric(1.3 * np.sqrt(1.4), exponent=0.7),
            reference.RationalQuadratic(1.3, alpha=0.7),
        ),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_against_scikit_learn(kernel, other):
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((20, 3)), rng.standard_normal((30, 3))
    np.testing.assert_allclose(kernel.profile(squared_distances(x, y)), other(x, y), rtol=1e-11)


def test_limits():
    """An inverse multiquadric of a large exponent, and of a bandwidth that grows with its root, is
    a Gaussian.
    """
    s, exponent = np.linspace(0, 10, 11), 1e9
    found = InverseMultiquadric(1.5 * np.sqrt(2.0 * exponent), exponent).profile(s)
    np.testing.assert_allclose(found, Gaussian(1.5).profile(s), rtol=1e-7)


@pytest.mark.parametrize(
    "kind",
    [Gaussian, InverseMultiquadric, Matern52, Matern72, Exponential],
    ids=lambda k: k.__name__,
)
@pytest.mark.parametrize("bandwidth", [0.0, np.nan, 1e-200])
def test_bandwidth_must_be_positive_and_finite(kind, bandwidth):
    with pytest.raises(ValueError, match=f"bandwidth={bandwidth!r}: expected a positive"):
        kind(bandwidth)


@pytest.mark.parametrize("bandwidth", ["median", None, True, [1.0]])
def test_bandwidth_must_be_a_number(bandwidth):
    with pytest.raises(TypeError, match=r"bandwidth=.*: expected a positive"):
        Gaussian(bandwidth)


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf])
def test_exponents_must_be_positive_and_finite(value):
    with pytest.raises(ValueError, match=f"exponent={value!r}"):
        InverseMultiquadric(exponent=value)


def test_no_exponent_makes_a_kernel_of_nan():
    assert np.all(
        np.isfinite(InverseMultiquadric(exponent=5e-324).derivatives(np.array([0.0, 1.0]), 4))
    )
