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
    program,
    run_program,
    stack_for,
)

A, B, C = Gaussian(1.5), Matern52(2.0), InverseMultiquadric(1.42, 0.7)
RADIAL = {
    "gaussian": A,
    "imq": InverseMultiquadric(1.3),
    "rq": C,
    "matern52": B,
    "matern72": Matern72(1.6),
    "exponential": Exponential(2.0),
    "scale": 2.5 * A,
    "sum": A + B,
    "product": A * B,
    "deep": A + (B * (C + (A * (0.3 * B + C)))),
    "wide": ((A + B) * (B + C)) * ((C + A) * (A + B)),
}
radial = pytest.mark.parametrize("kernel", RADIAL.values(), ids=RADIAL)


def slow(kernel, s, order):
    """By the instructions as Python objects, with Leibniz's rule written out."""
    stack = []
    for code, first, second in kernel.postfix():
        if code < 3:
            stack.append(np.array(_atom(code, first, second).derivatives(s, order)))
        elif code == 5:
            stack[-1] = first * stack[-1]
        else:
            g, f = stack.pop(), stack.pop()
            binomial = [[1], [1, 1], [1, 2, 1], [1, 3, 3, 1], [1, 4, 6, 4, 1]]
            product = [
                sum(c * f[j] * g[k - j] for j, c in enumerate(binomial[k]))
                for k in range(order + 1)
            ]
            stack.append(f + g if code == 3 else np.array(product))
    (result,) = stack
    return result


def _atom(code, first, second):
    if code == 0:
        return Gaussian(np.sqrt(0.5 / first))
    if code == 1:
        return InverseMultiquadric(first**-0.5, second)
    return {0: Matern72, 1: Matern52, 3: Exponential}[int(second)](
        np.sqrt({0: 7, 1: 5, 3: 1}[int(second)] / first)
    )


@radial
@pytest.mark.parametrize("order", [0, 2, 4])
def test_the_machine_runs_the_algebra(kernel, order):
    s = np.random.default_rng(0).random(23) * 9
    s[3] = 0.0
    code = program(kernel)
    stack = stack_for(code, len(s))
    run_program(code, s, order, stack)
    np.testing.assert_allclose(
        stack[0, : order + 1], slow(kernel, s, order), rtol=1e-12, atol=1e-14
    )
    np.testing.assert_array_equal(stack[0, : order + 1], kernel.derivatives(s, order))


@pytest.mark.parametrize(
    "kernel",
    [
        RadialFunction([np.exp]),
        A + RadialFunction([np.exp]),
        Polynomial(),
        A * Polynomial(),
        Metric(A, [1.0]),
    ],
)
def test_other_kernels_have_none(kernel):
    assert program(kernel) is None
    assert program(2.0 * kernel) is None
