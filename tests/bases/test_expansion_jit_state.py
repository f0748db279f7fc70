import numpy as np
import pytest

from kmc.bases import KernelExpansion, KernelGradients, expansion_jit_state
from kmc.bases.base_jit_state import BaseJitState, base_value_and_gradient
from kmc.kernels import (
    Gaussian,
    InverseMultiquadric,
    Matern52,
    Matern72,
    Metric,
    Polynomial,
    RadialFunction,
)
from tests.jit_states import allocations, evaluate, evaluate_all
from tests.kernels import cases

KERNELS = {
    "gaussian": Gaussian(1.9),
    "imq": InverseMultiquadric(2.3),
    "matern52": Matern52(2.5),
    "multiple": 0.3 * Gaussian(2.0),
    "sum and product": Gaussian(3.0) * InverseMultiquadric(2.0) + 0.5 * Matern72(2.0),
}
METRICS = {"no metric": None, "diagonal": cases.DIAGONAL, "tall": cases.TALL}
PARTS = {
    "sections": ("sections",),
    "gradients": ("gradients",),
    "all": ("sections", "gradients", "laplacians"),
}


def expansion(kernel, names=("sections", "gradients", "laplacians"), m=7, dim=cases.DIM):
    rng = np.random.default_rng(50)
    shapes = {"sections": m, "gradients": (m, dim), "laplacians": m}
    return KernelExpansion(
        kernel,
        rng.standard_normal((m, dim)),
        **{name: rng.standard_normal(shapes[name]) for name in names},
    )


def at(centers, n=4):
    """Points, one of them a center."""
    return np.vstack(
        [centers[:1], np.random.default_rng(51).standard_normal((n - 1, centers.shape[1]))]
    )


def assert_same(f, state, x, shift=0.0):
    values, gradients = f.values(x), f.gradient(x)
    for row, value, gradient in zip(x, values, gradients):
        found = evaluate(state, row + shift)
        assert found[0] == pytest.approx(value, rel=1e-11, abs=1e-12 * np.abs(values).max())
        np.testing.assert_allclose(found[1], gradient, atol=1e-11 * np.abs(gradients).max())


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_a_point_is_many_points_with_one(kernel, parts, metric):
    f = expansion(kernel if metric is None else Metric(kernel, metric), parts)
    assert_same(f, f.jit_state(), at(f.centers))


@pytest.mark.parametrize("dim", [1, 4, 11])
@pytest.mark.parametrize("names", [("sections",), ("gradients",)])
@pytest.mark.parametrize("kernel", [Gaussian(2.0), Matern52(3.0)])
def test_any_dimension(kernel, names, dim):
    f = expansion(kernel, names, 9, dim)
    assert_same(f, f.jit_state(), at(f.centers))


def test_an_offset_costs_no_digits():
    near = expansion(Metric(Gaussian(2.0), cases.WIDE))
    shift = 2.0**20
    grid = np.rint(near.centers * 2**20) / 2**20  # so that adding the shift is exact
    parts = {"sections": near.sections, "gradients": near.gradients, "laplacians": near.laplacians}
    near, far = (KernelExpansion(near.kernel, grid + s, **parts) for s in (0.0, shift))
    x = np.rint(at(grid) * 2**20) / 2**20
    assert_same(near, far.jit_state(), x, shift)
    assert_same(near, near.jit_state(origin=np.full(cases.DIM, shift)), x, shift)


@pytest.mark.parametrize("dof", [-1.0, 0.0, 2.5])
def test_the_base_density_is_added(dof):
    rng = np.random.default_rng(52)
    root = rng.standard_normal((cases.DIM, cases.DIM))
    base = BaseJitState(-1.3, rng.standard_normal(cases.DIM), root @ root.T, dof)
    f, origin = expansion(Gaussian(2.0), ("gradients",)), np.array([0.1, -0.2, 0.3])
    state = KernelGradients(f.kernel, f.centers).jit_state(f.gradients.ravel(), base, origin)
    for row in at(f.centers):
        slope = np.empty(cases.DIM)
        value = base_value_and_gradient(*base, row, slope)
        found = evaluate(state, row)
        assert found[0] == pytest.approx(value + f.values(row[None] - origin)[0], rel=1e-12)
        np.testing.assert_allclose(found[1], slope + f.gradient(row[None] - origin)[0], rtol=1e-11)


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Metric(Matern52(2.0), cases.TALL)])
def test_inside_a_loop_it_is_the_same_and_allocates_nothing(kernel):
    f = expansion(kernel)
    state, x = f.jit_state(), at(f.centers, 8)
    gradients = np.empty(x.shape)
    assert evaluate_all(state, x, gradients) == pytest.approx(f.values(x).sum(), rel=1e-11)
    np.testing.assert_allclose(gradients, f.gradient(x), atol=1e-11)
    one, many = allocations(evaluate_all, [(state, x[:1], gradients), (state, x, gradients)])
    assert one == many > 0  # the workspace


def test_another_expansion_does_not_recompile():
    """A second signature would cost seconds in the middle of a run."""
    readonly = np.zeros(cases.DIM)
    readonly.flags.writeable = False
    base = BaseJitState(0.0, readonly, np.asfortranarray(np.eye(cases.DIM)[:, ::-1]), 0.0)
    compiled = []
    for kernel, names, m in [
        (Gaussian(), ("gradients",), 5),
        (Metric(Matern52(), cases.DIAGONAL), ("sections",), 9),
        (Gaussian() + 0.5 * InverseMultiquadric(), ("gradients", "laplacians"), 4),
    ]:
        f = expansion(kernel, names, m)
        for state in (f.jit_state(), f.jit_state(base, readonly)):
            evaluate(state, f.centers[0])
        functions = expansion_jit_state.value_and_gradient, expansion_jit_state.workspace
        compiled.append([len(function.signatures) for function in functions])
    assert compiled == [[1, 1]] * 3


@pytest.mark.parametrize(
    "kernel",
    [
        Polynomial(2),
        Gaussian() + Polynomial(1),
        Metric(Gaussian(), cases.TALL) + Gaussian(),
        RadialFunction(cases.PROFILES),
    ],
)
def test_a_kernel_that_loops_do_not_know(kernel):
    with pytest.raises(TypeError, match="cannot be evaluated inside jitted loops"):
        expansion(kernel).jit_state()
