import numpy as np
import pytest

from kmc.kernels import (
    Exponential,
    Gaussian,
    InverseMultiquadric,
    Matern52,
    Matern72,
    Metric,
    Polynomial,
    RadialFunction,
    frequencies,
    kernel_derivative,
)
from tests.kernels import cases

STATIONARY = {
    "gaussian": Gaussian(1.4),
    "imq": InverseMultiquadric(1.3, exponent=0.7),
    "imq 1.8": InverseMultiquadric(2.277, 1.8),
    "matern52": Matern52(1.5),
    "matern72": Matern72(1.6),
    "exponential": Exponential(2.0),
    "scale": 2.5 * Gaussian(),
    "sum": 0.5 * Gaussian(0.8) + 2.0 * Matern52(2.0),
    "product": Gaussian(2.0) * Exponential(3.0),
    "diagonal": Metric(Matern52(1.5), cases.DIAGONAL),
    "tall": Metric(Gaussian(2.0), cases.TALL),
    "wide": 1.5 * Metric(InverseMultiquadric(2.121, 1.0), cases.WIDE) + Gaussian(),
}


@pytest.mark.parametrize("kernel", STATIONARY.values(), ids=STATIONARY)
def test_the_mean_of_the_cosines_is_the_kernel(kernel):
    """Within four standard errors, at thirty displacements."""
    rng = np.random.default_rng(0)
    r = rng.standard_normal((30, 3)) * rng.random((30, 1)) * 3
    omega, amplitude = frequencies(kernel, 40_000, 3, np.random.default_rng(7))
    assert omega.shape == (40_000, 3) and amplitude.shape == (40_000,)
    waves = amplitude[:, None] ** 2 * np.cos(omega @ r.T)
    error = waves.std(axis=0) / np.sqrt(len(waves))
    exact = kernel_derivative(kernel, "k", r, np.zeros((1, 3)))[:, 0]
    assert (np.abs(waves.mean(axis=0) - exact) < 4 * error).all()
    np.testing.assert_allclose(
        amplitude**2, kernel_derivative(kernel, "k", r[:1], r[:1])[0, 0], rtol=1e-14
    )


def test_draws_follow_the_seed():
    kernel = Gaussian() + Matern52()
    first, second = (frequencies(kernel, 10, 2, np.random.default_rng(3))[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, frequencies(kernel, 10, 2, 3)[0])


@pytest.mark.parametrize(
    "kernel", [Polynomial(), RadialFunction([np.exp]), Gaussian() * Polynomial()], ids=repr
)
def test_kernels_without_known_frequencies(kernel):
    with pytest.raises(TypeError, match="its frequencies are not known, only those of sums"):
        frequencies(kernel, 10, 2, np.random.default_rng(0))


@pytest.mark.parametrize(("count", "dim", "message"), [(0, 2, "count=0"), (3, 0, "dim=0")])
def test_bad_counts(count, dim, message):
    with pytest.raises(ValueError, match=message):
        frequencies(Gaussian(), count, dim, 0)


def test_bad_arguments():
    with pytest.raises(TypeError, match=r"count=1\.5"):
        frequencies(Gaussian(), 1.5, 2, 0)
    with pytest.raises(TypeError, match="kernel='gaussian'"):
        frequencies("gaussian", 10, 2, 0)
    with pytest.raises(ValueError, match="dim=2: the metric's matrix has 3 columns"):
        frequencies(Metric(Gaussian(), cases.TALL), 10, 2, 0)
