"""Kernels and bases with malformed arguments."""

import numpy as np
from hypothesis import given

from kmc import bases, kernels
from tests.malformed.cases import Case, calls, hold
from tests.malformed.examples import WEIGHTS, X, Y, the


def plain(x):
    return np.exp(-0.5 * x)


def steeper(x):
    return -0.5 * np.exp(-0.5 * x)


CROSS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


def is_a_kernel(kernel, arguments):
    """Inner products of the points are zero or one."""
    values = kernels.kernel_derivative(kernel, "k", CROSS, CROSS)
    assert values.shape == (3, 3) and not np.any(np.isnan(values))


SCALES = {"bandwidth": 2.0}
KERNELS = [
    *(
        Case(cls.__name__, cls, SCALES | more, is_a_kernel)
        for cls, more in [
            (kernels.Gaussian, {}),
            (kernels.Exponential, {}),
            (kernels.Matern52, {}),
            (kernels.Matern72, {}),
            (kernels.ExponentialDotProduct, {}),
            (kernels.InverseMultiquadric, {"exponent": 0.5}),
            (kernels.Polynomial, {"degree": 2, "offset": 1.0}),
            (kernels.RadialFunction, {"profiles": [plain, steeper], "differentiability": 2.0}),
            (kernels.DotProductFunction, {"profiles": [plain, steeper]}),
        ]
    ),
    Case("Sum", kernels.Sum, {"left": kernels.Gaussian(), "right": kernels.Matern52()}, is_a_kernel),
    Case("Product", kernels.Product, {"left": kernels.Gaussian(), "right": kernels.Matern52()}, is_a_kernel),
    Case("Scale", kernels.Scale, {"kernel": kernels.Gaussian(), "factor": 2.0}, is_a_kernel),
    Case("Metric", kernels.Metric, {"kernel": kernels.Gaussian(), "matrix": np.tri(2)}, is_a_kernel),
    Case(
        "kernel_of",
        kernels.kernel_of,
        {"kernel": "gaussian", "bandwidth": 1.0},
        is_a_kernel,
    ),
]


@the("kernels")
@given(calls(KERNELS))
def test_kernels(call):
    hold(*call)


def is_a_basis(basis, arguments):
    assert_no_nan(basis, (basis.size,))


def is_a_function(function, arguments):
    assert_no_nan(function, ())


def assert_no_nan(basis, shape):
    """At two points; numbers beyond all floats may well be infinite."""
    places = getattr(basis, "centers", getattr(basis, "frequencies", np.zeros((1, 2))))
    dim = places.shape[1]
    with np.errstate(all="ignore"):
        values = basis.values(np.linspace(-1.0, 1.0, 2 * dim).reshape(2, dim))
    assert values.shape == (2, *shape) and not np.any(np.isnan(values))


GAUSSIAN = kernels.Gaussian()
BASES = [
    Case("KernelSections", bases.KernelSections, {"kernel": GAUSSIAN, "centers": X[:4]}, is_a_basis),
    Case(
        "KernelGradients",
        bases.KernelGradients,
        {"kernel": GAUSSIAN, "centers": X[:4], "components": np.arange(3)},
        is_a_basis,
        also={"centers": ("components",)},
    ),
    Case(
        "KernelExpansion",
        bases.KernelExpansion,
        {"kernel": GAUSSIAN, "centers": X[:4], "sections": Y[:4], "gradients": X[4:8], "laplacians": Y[4:8]},
        is_a_function,
        also={"centers": ("sections", "gradients")},
    ),
    Case(
        "FourierFeatures",
        bases.FourierFeatures,
        {"frequencies": X[:4], "phases": Y[:4], "amplitudes": WEIGHTS[:4]},
        is_a_basis,
        also={"frequencies": ("phases",)},
    ),
    Case(
        "Monomials",
        bases.Monomials,
        {"degree": 2, "dim": 2, "center": X[0], "scale": WEIGHTS[:2]},
        is_a_basis,
        also={"dim": ("center",)},
        costly=frozenset({"degree", "dim"}),
    ),
    Case(
        "UserFunctions",
        bases.UserFunctions,
        {"values": lambda x: x**2, "size": 2},
        is_a_basis,
        also={"size": ("values",), "values": ("scalars", "arguments?")},
    ),
    Case(
        "Whitened",
        bases.Whitened,
        {"basis": bases.KernelSections(GAUSSIAN, X[:4]), "matrix": np.eye(4)[:, :3]},
        is_a_basis,
    ),
    Case(
        "Contraction",
        bases.Contraction,
        {"basis": bases.KernelSections(GAUSSIAN, X[:4]), "coefficients": Y[:4]},
        is_a_function,
        also={"basis": ("coefficients",)},
    ),
]


@the("bases")
@given(calls(BASES))
def test_bases(call):
    hold(*call)
