"""Common parts of the tests of forms."""

from dataclasses import dataclass, fields, is_dataclass

import numpy as np

from kmc.bases import Basis


@dataclass(frozen=True)
class General:
    """A basis with its general interface only, so that no form of it is fused."""

    basis: Basis

    @property
    def size(self):
        return self.basis.size

    def values(self, x):
        return self.basis.values(x)

    def gradients(self, x):
        return self.basis.gradients(x)

    def laplacians(self, x):
        return self.basis.laplacians(x)


def assert_same(a, b, rtol=1e-12):
    """Two Forms, or two Lagged, are equal, each sum to ``rtol`` of its largest entry."""
    for f in fields(a):
        one, other = getattr(a, f.name), getattr(b, f.name)
        assert (one is None) == (other is None), f.name
        if is_dataclass(one):
            assert_same(one, other, rtol)
        elif one is not None:
            np.testing.assert_allclose(
                one, other, rtol=0, atol=rtol * np.abs(other).max(), err_msg=f.name
            )
