"""Gradients in the coordinates of a fit."""

import numpy as np
import pytest

from kmc.surrogates.slopes import pulled_back
from kmc.surrogates.transport import Funnel, Identity
from tests.oracles import differences

FUNNEL = Funnel(1, 0.3, np.array([0.5, 0.0, -1.0]), np.array([0.7, 0.0, -0.2]), 2, np.array([1.5, 0.0, 0.0]))


def log_density(x):
    return -0.5 * float(np.sum((x - [1.0, 0.0, 2.0]) ** 2)) - float(np.sin(x[0] * x[1]))


@pytest.mark.parametrize("transport", [FUNNEL, Identity()], ids=["funnel", "identity"])
def test_the_gradient_of_a_transported_density_is_that_of_differences(transport):
    x = np.random.default_rng(0).standard_normal((6, 3))
    gradient = np.array([differences.gradient(log_density, row, 1e-3) for row in x])
    gradient[2] = np.nan

    def transported(u):
        back = transport.back(u[None])
        return log_density(back[0]) - transport.log_jacobian(back)[0]

    found = pulled_back(transport, transport(x), gradient)
    assert np.all(np.isnan(found[2])) and np.all(np.isnan(pulled_back(transport, x, np.full_like(x, np.nan))))
    for k in (0, 1, 3, 4, 5):
        slope = differences.gradient(transported, transport(x)[k], 1e-3)
        np.testing.assert_allclose(found[k], slope, rtol=1e-6, atol=1e-6)
