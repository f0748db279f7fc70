"""The basis of the representer theorem: sections of a kernel and their derivatives at every sample."""

from __future__ import annotations

import numpy as np

from kmc.bases import KernelGradients, KernelSections
from kmc.kernels import Kernel, kernel_derivative

MOST_FUNCTIONS = 3000


class Representer:
    """Functions k(x_i, .) and ∂_j k(x_i, .) of n points: Pillaud-Vivien and Bach (2023), section 5, naive approach.

    Parameters
    ----------
    kernel : Kernel
        Twice differentiable at coincident points.
    points : ndarray, shape (n, d)

    Raises
    ------
    ValueError
        n (1 + d) exceeds 3000: the cost is cubic in it.
    """

    def __init__(self, kernel: Kernel, points: np.ndarray):
        n, d = points.shape
        if n * (1 + d) > MOST_FUNCTIONS:
            raise ValueError(
                f"basis='representer' has n (1 + d) = {n * (1 + d)} functions for {n} samples in {d} dimensions: "
                f"expected at most {MOST_FUNCTIONS}, use basis='nystrom'"
            )
        self.kernel, self.centers = kernel, points
        self._parts = KernelSections(kernel, points), KernelGradients(kernel, points)
        self.size = n * (1 + d)

    def values(self, x: np.ndarray) -> np.ndarray:
        """(m, p)."""
        return np.hstack([part.values(x) for part in self._parts])

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """(m, p, d)."""
        return np.concatenate([part.gradients(x) for part in self._parts], axis=1)

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """(m, p)."""
        return np.hstack([part.laplacians(x) for part in self._parts])

    def contract_gradients(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Gradients (m, d) of the combination with coefficients (p,)."""
        n = len(self.centers)
        sections, gradients = self._parts
        return sections.contract_gradients(x, coefficients[:n]) + gradients.contract_gradients(x, coefficients[n:])

    def gram(self) -> np.ndarray:
        """(p, p) Gram matrix of the reproducing-kernel space."""
        n = len(self.centers)
        sections, gradients = self._parts
        mixed = kernel_derivative(self.kernel, "y", self.centers, self.centers).reshape(
            n, -1
        )  # <k(x_i, .), ∂_l k(x_j, .)>
        return np.block([[sections.gram(), mixed], [mixed.T, gradients.gram()]])
