from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from kmc import selection
from kmc.kernels import Gaussian
from kmc.selection import Search


class Candidate(NamedTuple):
    kernel: Any
    bandwidth: float


@pytest.mark.parametrize(
    ("regularizations", "last"), [(np.ones(1), ", regularization"), (None, "")]
)
def test_nothing_finite(regularizations, last):
    search = Search(regularizations)
    assert not search.add(Candidate("gaussian", 1.0), np.array([[np.nan], [np.inf]]))
    with pytest.raises(
        ValueError,
        match=f"^no combination of kernel, bandwidth{last} has a finite held-out objective",
    ):
        search.best()


def test_kernels_and_bandwidths_are_combined():
    """A name takes bandwidths in units of x, an object factors of its own."""
    model = SimpleNamespace(kernel=["gaussian", Gaussian(3.0)], bandwidth="cv")
    found = selection.kernel_candidates(model, 10.0, (0.5, 1.0))
    assert [kernel for _, _, kernel in found] == [
        Gaussian(5.0),
        Gaussian(10.0),
        Gaussian(1.5),
        Gaussian(3.0),
    ]
    assert [bandwidth for _, bandwidth, _ in found] == [5.0, 10.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("n", "count", "sizes"), [(10, 5, [2] * 5), (7, 3, [3, 2, 2]), (3, 5, [1, 1, 1])]
)
def test_folds_are_a_partition(n, count, sizes):
    parts = selection.folds_of(n, count, np.random.default_rng(0))
    assert [len(part) for part in parts] == sizes
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))
