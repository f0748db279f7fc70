import numpy as np
import pytest

from kmc.surrogates import FitOptions, fit_surrogate, jit_state
from kmc.surrogates.surrogate import quartic_form
from tests.jit_states import allocations
from tests.oracles import differences
from tests.oracles import point as oracle

CAP = 4.0
TRENDS = {"below the cap": (0.0, 0.7), "beyond the cap": (0.0, 1.5), "far beyond": (0.0, 9.0), "student": (2.5, 1.0)}


def state(dof, dim=3, m=12, radial=True):
    rng = np.random.default_rng(10)
    a = rng.standard_normal((dim, dim))
    return jit_state.SurrogateJitState(
        constant=-1.3,
        location=rng.standard_normal(dim),
        precision=a @ a.T + np.eye(dim),
        dof=dof,
        cap=CAP,
        tail=3.5,
        metric=np.eye(dim) + 0.3 * rng.standard_normal((dim, dim)),
        shift=0.2 * rng.standard_normal(dim),
        centers=rng.standard_normal((dim, m)),
        coefficients=rng.standard_normal(m),
        rate=0.4,
        radial=radial,
    )


def at_depth(state, half_q, n=5):
    """Points with (z - location)ᵀ precision (z - location) / 2 = half_q."""
    r = np.random.default_rng(11).standard_normal((n, len(state.location)))
    q = np.einsum("ni,ij,nj->n", r, state.precision, r)
    return state.location + r * np.sqrt(2 * half_q / q)[:, None]


def evaluate(state, z):
    gradient = np.empty(len(z))
    return jit_state.value_and_gradient(state, z, gradient, jit_state.workspace(state)), gradient


@pytest.mark.parametrize("radial", [True, False], ids=["radial", "polynomial"])
@pytest.mark.parametrize(("dof", "caps"), TRENDS.values(), ids=TRENDS)
def test_value_and_gradient(dof, caps, radial):
    surrogate = state(dof, radial=radial)
    for z in at_depth(surrogate, caps * CAP):
        value, gradient = evaluate(surrogate, z)
        assert value == pytest.approx(oracle.value(surrogate, z), rel=1e-13)
        slope = differences.gradient(lambda z: oracle.value(surrogate, z), z)
        np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dof", [0.0, 2.5])
def test_a_sum_of_polynomials_is_one_form(dof):
    """The oracle sums over the centers."""
    surrogate = state(dof, dim=4, m=90, radial=False)
    form = quartic_form(surrogate.centers, surrogate.coefficients, surrogate.rate)
    summed = surrogate._replace(centers=np.zeros((4, 1)), coefficients=np.zeros(1), quartic=form)
    assert form.shape == (15, 15)
    for half_q in (0.1, 2.0, 6.0):
        for z in at_depth(surrogate, half_q):
            value, gradient = evaluate(summed, z)
            assert value == pytest.approx(oracle.value(surrogate, z), rel=1e-12)
            by_centers = evaluate(surrogate, z)[1]
            np.testing.assert_allclose(gradient, by_centers, rtol=1e-10, atol=1e-10 * np.abs(by_centers).max())


def test_value_and_gradient_are_continuous_across_the_cap():
    surrogate = state(0.0)
    for inside, outside in zip(at_depth(surrogate, CAP * (1 - 1e-9)), at_depth(surrogate, CAP * (1 + 1e-9))):
        (value, gradient), (next_value, next_gradient) = evaluate(surrogate, inside), evaluate(surrogate, outside)
        assert next_value == pytest.approx(value, abs=1e-7)
        np.testing.assert_allclose(next_gradient, gradient, atol=1e-7)


def test_beyond_the_cap_there_is_no_wall():
    """The capped trend falls like a logarithm: at a million standard deviations it is some dozen nats deep."""
    surrogate = state(0.0)
    value, gradient = evaluate(surrogate, surrogate.location + 1e6)
    assert surrogate.constant - value == pytest.approx(CAP + 3.5 * np.log(1e12), rel=0.1)
    assert 0 < np.linalg.norm(gradient) < 1e-4


@pytest.mark.parametrize(("ceiling", "reach"), [(2.0, 5.0), (2.0, 1.0), (10.0, 0.5)])
def test_a_runaway_expansion_is_bounded(ceiling, reach):
    """Smoothly: the gradient stays that of the value. A ceiling is three nats above the trend's mode at least."""
    free = state(0.0)
    free = free._replace(coefficients=-30.0 * free.coefficients)  # rises by a hundred nats among the centers
    surrogate = free._replace(ceiling=ceiling, reach=reach)
    points = np.vstack([free.centers.T, 3.0 * free.centers.T])
    unbounded, bounded = jit_state.values(free, points), jit_state.values(surrogate, points)
    assert unbounded.max() > 50.0
    assert bounded.max() <= ceiling
    assert (bounded <= unbounded).all()
    slopes = [differences.gradient(lambda z: evaluate(surrogate, z)[0], z, 1e-3) for z in points]
    np.testing.assert_allclose(jit_state.gradients(surrogate, points), slopes, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("radial", [True, False], ids=["radial", "polynomial"])
def test_a_point_allocates_nothing(radial):
    """A thousand points need as many allocations as one: the workspace and the result."""
    surrogate = state(0.0, radial=radial)
    one, many = allocations(jit_state.gradients, [(surrogate, np.zeros((n, 3))) for n in (1, 1000)])
    assert one == many > 0


def test_refits_of_any_size_do_not_recompile():
    """A second signature would cost seconds in the middle of a run."""
    rng = np.random.default_rng(12)
    compiled = []
    for dim, n_basis, n, heavy in [(2, 30, 100, 0.0), (2, 50, 130, 0.0), (1, 20, 60, 0.0), (3, 40, 200, 1.0)]:
        x = rng.standard_normal((n, dim))
        s = np.sum(x**2, axis=1)
        y = -0.5 * s + 0.1 * np.sin(3 * x[:, 0]) if not heavy else -0.5 * (1 + dim) * np.log1p(10 * s)
        surrogate = fit_surrogate(x, y, x[::2], rng=rng, options=FitOptions(n_basis=n_basis))
        assert (surrogate.jit_state.dof > 0) == (heavy > 0)
        evaluate(surrogate.jit_state, surrogate.whitening(x[:1])[0])
        functions = (getattr(jit_state, name) for name in ("value_and_gradient", "workspace", "values", "gradients"))
        compiled.append([len(f.signatures) for f in functions])
    assert compiled == compiled[:1] * 4
