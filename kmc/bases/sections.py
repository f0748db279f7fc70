"""Kernel sections as a basis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kmc.bases.base import Basis, Both
from kmc.bases.base_jit_state import BaseJitState
from kmc.bases.expansion import KernelExpansion, check_centers
from kmc.bases.expansion_jit_state import ExpansionState
from kmc.bases.section_forms import RadialForms, SectionForms, section_forms
from kmc.kernels import Kernel, derivative


@dataclass(frozen=True, eq=False)
class KernelSections(Basis):
    r"""Sections :math:`\varphi_a(x) = k(y_a, x)` of a kernel at centers.

    Sums of forms are matrix products for radial kernels and for dot-product kernels, in any metric;
    kernels that combine both kinds need arrays of gradients.

    Parameters
    ----------
    kernel : Kernel
        For a metric A, ``Metric(kernel, A)``. A kernel with a kink at coincidence (the exponential)
        has gradients, by convention zero at its own center, but no Laplacians.
    centers : array_like, shape (m, d)

    Raises
    ------
    ValueError
        The centers are not a finite array of points; or a Laplacian is needed of a kernel with a
        kink.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.bases import KernelSections
    >>> from kmc.kernels import Gaussian, Metric
    >>> basis = KernelSections(Metric(Gaussian(), [1.0, 0.5]), np.zeros((1, 2)))
    >>> basis.values(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])).round(4)
    array([[1.    ],
           [0.6065],
           [0.6065]])

    Notes
    -----
    With S and D the squared distances of x to centers and between centers, q' at S and T = 2 √w q',
    the Dirichlet form of a radial kernel is ½ [(T∘S)ᵀT + Tᵀ(T∘S) - D ∘ TᵀT]: <x - y, x - z> =
    ½ (|x - y|² + |x - z|² - |y - z|²). That is algorithm 3 of Cabannes and Bach (2023), "The
    Galerkin method beats graph-based approaches for spectral algorithms", without its loop over
    samples; for a dot-product kernel it is their algorithm 2.
    """

    kernel: Kernel
    centers: np.ndarray
    _forms: SectionForms = field(init=False, repr=False)

    def __post_init__(self):
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel={self.kernel!r}: expected a kernel of kmc.kernels")
        centers = check_centers(self.centers)
        object.__setattr__(self, "centers", centers)
        object.__setattr__(self, "_forms", section_forms(self.kernel, centers))

    @property
    def size(self) -> int:
        """Number of sections m."""
        return len(self.centers)

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return the (n, m) kernel values."""
        return self._forms.values(x)

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Return the gradients, (n, m, d)."""
        return self._forms.gradients(x)

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """Return the Laplacians, (n, m)."""
        self._check_smooth()
        return self._forms.laplacians(x)

    def gram(self) -> np.ndarray:
        """Return the (m, m) Gram matrix of the reproducing-kernel space, k(y_a, y_b)."""
        return self._forms.values(self.centers)

    def sum_dirichlet(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum over x of w <∇φ_a, ∇φ_b>, (m, m)."""
        return self._forms.sum_dirichlet(x, weights)

    @property
    def sum_mass_and_dirichlet(self) -> Both | None:
        """Both forms from one evaluation; None if the kernel is not radial.

        See :mod:`kmc.bases.section_forms`.
        """
        return self._forms.sum_mass_and_dirichlet

    def sum_linear(
        self, x: np.ndarray, weights: np.ndarray, base_gradient: np.ndarray | None = None
    ) -> np.ndarray:
        """Sum over x of w (Δφ_a + <∇φ_a, g>), (m,), with g = ∇log q0 at the rows of x."""
        self._check_smooth()
        return self._forms.sum_linear(x, weights, base_gradient)

    def directional(self, x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return the (n, m) derivatives <∇φ_a, v> at each point, with v from ``vectors`` (n, d)."""
        return self._forms.directional(x, vectors)

    def derivative(self, x: np.ndarray, index: Sequence[int]) -> np.ndarray:
        """Return the (n, m) partial derivatives ∂^α, of order up to four."""
        if sum(index) >= 2:
            self._check_smooth(sum(index))
        return derivative(self.kernel, index, x, self.centers)

    def contract_values(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the combination with coefficients (m,) at the rows of x, shape (n,)."""
        return self._forms.values(x) @ coefficients

    def contract_gradients(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the gradients of the combination, shape (n, d)."""
        return self._forms.contract_gradients(x, coefficients)

    def contract_gradients_each(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the gradients (n, k, d) of k combinations, the columns of coefficients (m, k)."""
        if isinstance(self._forms, RadialForms):
            return self._forms.contract_gradients_each(x, coefficients)
        return super().contract_gradients_each(x, coefficients)

    def jit_state(
        self,
        coefficients: np.ndarray,
        base: BaseJitState | None = None,
        origin: np.ndarray | None = None,
    ) -> ExpansionState:
        """Return the state of the combination with coefficients (m,).

        See :meth:`kmc.bases.Contraction.jit_state`.
        """
        return KernelExpansion(self.kernel, self.centers, sections=coefficients).jit_state(
            base, origin
        )

    def _check_smooth(self, order=2):
        if self.kernel.differentiability < order:
            what = "Laplacian" if order == 2 else f"derivatives of order {order}"
            raise ValueError(
                f"kernel={self.kernel!r} has no {what} at coincident points "
                f"(differentiability {self.kernel.differentiability:g}): use a smoother one, such "
                f"as Matern52"
            )
