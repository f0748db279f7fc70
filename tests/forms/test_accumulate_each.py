import numpy as np

from kmc.bases import KernelSections, Monomials
from kmc.forms import accumulate_folds, accumulate_folds_each
from kmc.kernels import Gaussian
from tests.forms.common import assert_same


def test_every_basis_has_the_folds_that_it_has_alone():
    """Also of an iterator, which is read once."""
    x = np.random.default_rng(0).standard_normal((500, 2))
    folds = np.arange(500) % 3
    bases = [KernelSections(Gaussian(1.5), x[:4]), Monomials(2, 2)]
    found = accumulate_folds_each(
        bases, iter(np.array_split(x, 7)), ("mass", "lagged"), folds, lagtime=2, block=64
    )
    for basis, parts in zip(bases, found, strict=True):
        for part, alone in zip(
            parts, accumulate_folds(basis, x, ("mass", "lagged"), folds, lagtime=2), strict=True
        ):
            assert_same(part, alone)
