import numpy as np
import pytest
from scipy.spatial.distance import cdist

from kmc.kernels import Gaussian, squared_distances
from tests.oracles import differences


@pytest.mark.parametrize("bandwidth", [0.5, 1.0, 3.0])
def test_derivatives_of_the_profile(bandwidth):
    kernel = Gaussian(bandwidth)
    s = np.linspace(0, 10, 21)
    q, q1, q2 = kernel.derivatives(s)
    unit = 2 * bandwidth**2  # in which the profile varies over a length of one
    np.testing.assert_allclose(q, np.exp(-s / (2 * bandwidth**2)), rtol=1e-15)
    np.testing.assert_array_equal(q, kernel.profile(s))
    for order, (function, derivative) in enumerate([(kernel.profile, q1), (lambda s: kernel.derivatives(s)[1], q2)]):
        slope = [differences.gradient(lambda t, f=function: f(t)[0], [v], 0.01 * unit)[0] for v in s]
        np.testing.assert_allclose(derivative, slope, rtol=1e-9, atol=1e-11 / unit ** (order + 1))


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, np.nan, np.inf])
def test_bandwidth_must_be_positive_and_finite(bandwidth):
    with pytest.raises(ValueError, match=f"bandwidth={bandwidth!r}: expected a positive"):
        Gaussian(bandwidth)


@pytest.mark.parametrize("dim", [1, 3, 30])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_squared_distances_keep_their_digits_far_from_the_origin(dim, offset):
    rng = np.random.default_rng(1)
    x, y = offset + rng.standard_normal((40, dim)), offset + rng.standard_normal((20, dim))
    s = squared_distances(x, y)
    # cdist subtracts first, so the offset costs it nothing; three sums of d squares round to a few eps of their size.
    np.testing.assert_allclose(s, cdist(x, y, "sqeuclidean"), rtol=0, atol=1e-15 * (10 + dim) * s.max())


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_distance_at_coincidence_is_zero_and_never_negative(offset):
    rng = np.random.default_rng(2)
    x = offset + rng.standard_normal((100, 5))
    s = squared_distances(x, x)
    assert s.min() == 0.0
    np.testing.assert_allclose(np.diag(s), 0.0, atol=1e-14)  # |x|² + |x|² - 2 x·x, summed in two orders
    np.testing.assert_array_equal(squared_distances(x[:, :1], x[:, :1]).diagonal(), 0.0)


def test_arguments_are_not_written_to():
    x, y = np.ones((3, 2)), np.zeros((4, 2))
    squared_distances(x, y)
    assert (x == 1).all() and (y == 0).all()
