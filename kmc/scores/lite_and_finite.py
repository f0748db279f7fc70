"""The lite and the finite kernel exponential family.

Their bases are kernel sections and random Fourier features.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.bases import Basis, Contraction, FourierFeatures, KernelExpansion, KernelSections
from kmc.checks import check_choice, check_count
from kmc.scores.in_basis import BasisEstimator, check_smooth, draw_landmarks
from kmc.scores.sums import Samples
from kmc.seeds import Seed
from kmc.selection import Kernels, Numbers

PENALTIES = ("norm", "norm+coefficients", "cv")


class LiteKEF(BasisEstimator):
    r"""Score estimator in sections of a kernel, :math:`f = \sum_a \alpha_a k(Y_a, \cdot)`.

    Lemma 4 of Sutherland, Strathmann, Arbel and Gretton (2018) for any landmarks, kernel and base
    density; with ``penalty="norm+coefficients"`` the regularizer of the original "lite" estimator
    of Strathmann et al. (2015). With all samples as landmarks it is often the best of the family in
    ten or more dimensions (``benchmarks/scores.py``).

    Parameters
    ----------
    kernel, bandwidth, regularization, n_basis, landmarks, base, jitter, value_weight, cv,
    random_state
        As in :class:`NystromKEF`.
    penalty : {"cv", "norm", "norm+coefficients"}
        λ αᵀKα, or λ αᵀ(K + I)α, or whichever of the two has the better held-out objective.

    Attributes
    ----------
    coefficients_ : ndarray, shape (m,)
        α. Other attributes as in :class:`NystromKEF`, and ``penalty_``.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.scores import LiteKEF
    >>> X = np.random.default_rng(0).standard_normal((300, 1))
    >>> estimator = LiteKEF(random_state=0).fit(X)
    >>> bool(np.all(np.abs(estimator.gradient([[-1.0], [1.0]]).ravel() - [1.0, -1.0]) < 0.3))
    True
    """

    def __init__(
        self,
        kernel: Kernels = "auto",
        bandwidth: Numbers = "auto",
        regularization: Numbers = "cv",
        n_basis: int = 100,
        landmarks: Any = "uniform",
        base: Any = "auto",
        penalty: str = "cv",
        jitter: Any = "auto",
        value_weight: float = 1.0,
        cv: int = 5,
        random_state: Seed = None,
    ):
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.n_basis = n_basis
        self.landmarks = landmarks
        self.base = base
        self.penalty = penalty
        self.jitter = jitter
        self.value_weight = value_weight
        self.cv = cv
        self.random_state = random_state

    def _draw(self, samples: Samples, kernel: Any, rng: np.random.Generator) -> None:
        check_choice(self, "penalty", PENALTIES)
        draw_landmarks(self, samples, kernel, rng)

    def _basis(self, kernel: Any) -> Basis:
        check_smooth(kernel, 2)
        return KernelSections(kernel, self.landmarks_ - self.center_)

    def _penalties(self, basis: Any) -> dict[str, np.ndarray]:
        gram = basis.gram()
        penalties = {"norm": gram, "norm+coefficients": gram + np.eye(len(gram))}
        return penalties if self.penalty == "cv" else {self.penalty: penalties[self.penalty]}

    def _function(self, basis: Any, coefficients: np.ndarray) -> KernelExpansion:
        return KernelExpansion(basis.kernel, basis.centers, sections=coefficients)


class FiniteKEF(BasisEstimator):
    r"""Score estimator in a fixed number of random Fourier features, for any number of samples.

    The "finite" estimator of Strathmann, Sejdinovic, Livingstone, Szabó and Gretton (2015), with
    features :math:`\sqrt{2/p}\cos(\omega_j^\top x + b_j)` (Rahimi and Recht 2008) whose frequencies
    have the kernel's spectral density. The penalty is λ|β|². The samples of a stream
    (:meth:`partial_fit`) need not be stored.

    Parameters
    ----------
    kernel, bandwidth, regularization, base, jitter, value_weight, cv, random_state
        As in :class:`NystromKEF`; the kernel must be a built-in radial one, or a sum or product of
        such kernels.
    n_basis : int
        Number of features p.

    Attributes
    ----------
    coefficients_ : ndarray, shape (p,)
        β. Other attributes as in :class:`NystromKEF`.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.scores import FiniteKEF
    >>> X = np.random.default_rng(0).standard_normal((400, 1))
    >>> estimator = FiniteKEF(random_state=0).fit(X)
    >>> bool(np.all(np.abs(estimator.gradient([[-1.0], [1.0]]).ravel() - [1.0, -1.0]) < 0.3))
    True
    """

    _basis_follows_data = False

    def __init__(
        self,
        kernel: Kernels = "auto",
        bandwidth: Numbers = "auto",
        regularization: Numbers = "cv",
        n_basis: int = 200,
        base: Any = "auto",
        jitter: Any = "auto",
        value_weight: float = 1.0,
        cv: int = 5,
        random_state: Seed = None,
    ):
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.n_basis = n_basis
        self.base = base
        self.jitter = jitter
        self.value_weight = value_weight
        self.cv = cv
        self.random_state = random_state

    def _draw(self, samples: Samples, kernel: Any, rng: np.random.Generator) -> None:
        check_count(self, "n_basis", 1)
        # the same frequencies, rescaled, for every bandwidth
        self._frequency_seed = int(rng.integers(2**63))

    def _basis(self, kernel: Any) -> Basis:
        rng = np.random.default_rng(self._frequency_seed)
        return FourierFeatures.draw(kernel, self.n_basis, self.n_features_in_, rng)

    def _penalties(self, basis: Any) -> dict[str, np.ndarray]:
        return {"norm": basis.gram()}

    def _function(self, basis: Any, coefficients: np.ndarray) -> Contraction:
        return Contraction(basis, coefficients)
