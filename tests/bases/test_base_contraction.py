import tracemalloc

import numpy as np
import pytest

from kmc.bases import Contraction, KernelSections
from kmc.kernels import Gaussian
from tests.forms.common import General

BASIS = KernelSections(Gaussian(1.3), np.random.default_rng(3).standard_normal((50, 10)))


@pytest.mark.parametrize("general", [False, True])
def test_many_points_are_as_good_as_few(general):
    """More points than fit in one slice."""
    x = np.random.default_rng(60).standard_normal((10_000, 10))
    f = Contraction(
        General(BASIS) if general else BASIS, np.random.default_rng(61).standard_normal(50)
    )
    some = slice(4000, 4400)
    for name in ("values", "gradient", "laplacian"):
        all_of_them, few = getattr(f, name)(x), getattr(f, name)(x[some])
        assert len(all_of_them) == len(x)
        np.testing.assert_allclose(all_of_them[some], few, rtol=1e-10, atol=1e-12)


def test_memory_is_bounded():
    """All gradients would be 20,000 x 50 x 10 numbers, 80 MB; a slice of them is 16 MB, and einsum
    may copy it.
    """
    x = np.random.default_rng(60).standard_normal((20_000, 10))
    f = Contraction(General(BASIS), np.ones(50))
    f.gradient(x[:100])
    tracemalloc.start()
    f.gradient(x)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 60e6


def test_no_points():
    f = Contraction(BASIS, np.ones(50))
    assert f.values(np.empty((0, 10))).shape == (0,)
    assert f.gradient(np.empty((0, 10))).shape == (0, 10)


@pytest.mark.parametrize(
    ("coefficients", "message"),
    [
        (np.ones(3), r"shape \(3,\): expected \(50,\)"),
        (np.full(50, np.nan), "coefficients contains NaN"),
    ],
)
def test_invalid_coefficients(coefficients, message):
    with pytest.raises(ValueError, match=message):
        Contraction(BASIS, coefficients)
