import pytest

from kmc.kernels import (
    Exponential,
    Gaussian,
    InverseMultiquadric,
    Matern52,
    Matern72,
    Metric,
    Polynomial,
    kernel_of,
)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("gaussian", Gaussian(2.0)),
        ("inverse-multiquadric", InverseMultiquadric(2.0)),
        ("matern52", Matern52(2.0)),
        ("matern72", Matern72(2.0)),
        ("exponential", Exponential(2.0)),
        ("polynomial", Polynomial(bandwidth=2.0)),
    ],
)
def test_names(name, kernel):
    assert kernel_of(name, 2) == kernel


def test_objects_are_scaled():
    kernel = Gaussian(3.0) + 2.0 * Metric(Polynomial(3), [1.0, 2.0])
    assert kernel_of(kernel, 2.0) == Gaussian(6.0) + 2.0 * Metric(
        Polynomial(3, bandwidth=2.0), [1.0, 2.0]
    )
    assert kernel_of(kernel, 1.0) == kernel


def test_unknown_name():
    with pytest.raises(
        ValueError,
        match=r"kernel='rbf': expected 'gaussian', 'inverse-multiquadric', .*, or a kernel",
    ):
        kernel_of("rbf", 1.0)


@pytest.mark.parametrize("kernel", [None, 1.0, Gaussian, lambda x, y: 0.0])
def test_not_a_kernel(kernel):
    with pytest.raises(TypeError, match=r"kernel=.*: expected 'gaussian'"):
        kernel_of(kernel, 1.0)


@pytest.mark.parametrize("bandwidth", [0.0, -2.0, float("inf"), float("nan")])
def test_bad_bandwidth(bandwidth):
    for kernel in ("gaussian", Gaussian()):
        with pytest.raises(ValueError, match=f"bandwidth={bandwidth}: expected a positive"):
            kernel_of(kernel, bandwidth)
    with pytest.raises(TypeError, match="bandwidth='median'"):
        kernel_of("gaussian", "median")
