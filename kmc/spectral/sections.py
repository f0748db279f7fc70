"""Bases of kernel functions at landmarks, and at every sample, from an estimator's parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from kmc import landmarks
from kmc.bases import Basis, FourierFeatures, KernelGradients, KernelSections, Whitened
from kmc.checks import check_count, check_number
from kmc.kernels import Kernel, candidate_bandwidths, kernel_derivative, kernel_of, median_distance
from kmc.linalg import eigen_whitening
from kmc.source import Sample

BANDWIDTHS = (0.125, 0.25, 0.5, 1.0, 2.0)
"""Candidates of ``bandwidth="cv"``, in median distances between samples."""

MOST_FOR_LANDMARKS = 20_000
"""Samples among which landmarks are chosen."""

MOST_FUNCTIONS = 3000


def check_section_parameters(model: Any) -> None:
    """Check the parameters ``n_components``, ``n_basis`` and ``tolerance`` of an estimator."""
    check_count(model, "n_components", 1)
    check_count(model, "n_basis", 2)
    # below, the Gram matrix is rounding error
    check_number(model, "tolerance", 1e-12, 1, ends="[)")


def candidates(model: Any, sample: Sample) -> list[float]:
    """Return the bandwidths given by the parameter ``bandwidth`` of an estimator.

    Its ``kernel`` is a name or an object.
    """
    named = isinstance(model.kernel, str)
    median = (
        median_distance(sample.counted()) if named and isinstance(model.bandwidth, str) else 1.0
    )
    found = candidate_bandwidths(model.bandwidth, median, named, BANDWIDTHS)
    kernel_of(model.kernel, found[0])  # an unknown name is an error before anything is computed
    return found


def draw_landmarks(
    model: Any, sample: Sample, bandwidth: float, rng: np.random.Generator, most: int | None = None
) -> np.ndarray:
    """Draw landmarks (m, d) by an estimator's ``landmarks`` and ``n_basis``, not of zero weight."""
    points = sample.counted()
    if len(points) > MOST_FOR_LANDMARKS:
        points = points[np.sort(rng.choice(len(points), MOST_FOR_LANDMARKS, replace=False))]
    kernel = kernel_of(model.kernel, bandwidth)
    return landmarks.choose(
        model.landmarks, points, min(model.n_basis, most or model.n_basis), rng, kernel
    )


def whitened_sections(
    kernel: Any, bandwidth: float, centers: np.ndarray, tolerance: float = 2e-8
) -> Whitened:
    """Return combinations of the sections k(y_a, .) of a kernel at landmarks (m, d).

    They are orthonormal in the kernel's space.

    Parameters
    ----------
    kernel : str or Kernel
    bandwidth : float
        In the units of x for a name; for an object, a factor of its own lengths.
    centers : ndarray, shape (m, d)
    tolerance : float
        Cutoff for eigenvalues of the Gram matrix, see :func:`kmc.linalg.eigen_whitening`.

    Returns
    -------
    Whitened
        A basis of r <= m functions, where r is the numerical rank.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral.sections import whitened_sections
    >>> # two landmarks are equal
    >>> basis = whitened_sections("gaussian", 1.0, np.array([[0.0], [0.0], [1.0]]))
    >>> basis.size
    2
    """
    sections = KernelSections(kernel_of(kernel, bandwidth), centers)
    with np.errstate(over="ignore", invalid="ignore"):
        gram = sections.gram()
    try:
        return Whitened(sections, eigen_whitening(gram, tolerance))
    except linalg.LinAlgError as error:
        raise ValueError(f"kernel={kernel!r}, bandwidth={bandwidth:g}: {error}") from error


def orthonormal_features(
    kernel: Any, count: int, points: np.ndarray, tolerance: float, rng: np.random.Generator
) -> tuple[Basis, np.ndarray]:
    """Draw Fourier features centered at the points' mean.

    Return them and combinations that the points distinguish.
    """
    drawn = FourierFeatures.draw(kernel, count, points.shape[1], rng)
    phases = (drawn.phases - drawn.frequencies @ points.mean(axis=0)) % (2 * np.pi)
    features = FourierFeatures(drawn.frequencies, phases, drawn.amplitudes)
    phi = features.values(points[: 10 * count])
    matrix = eigen_whitening(phi.T @ phi, tolerance)
    return features, matrix / np.linalg.norm(matrix, axis=0)


def orthonormal_representers(
    kernel: Kernel, points: np.ndarray, tolerance: float
) -> tuple[Basis, np.ndarray]:
    """Return a :class:`Representer` of the distinct points, and its orthonormal combinations."""
    basis = Representer(kernel, np.unique(points, axis=0))
    return basis, eigen_whitening(basis.gram(), tolerance)


class Representer(Basis):
    """Functions k(x_i, .) and ∂_j k(x_i, .) of n points.

    This is the naive approach of Pillaud-Vivien and Bach (2023), section 5.

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

    size: int

    def __init__(self, kernel: Kernel, points: np.ndarray):
        n, d = points.shape
        if n * (1 + d) > MOST_FUNCTIONS:
            raise ValueError(
                f"basis='representer' has n (1 + d) = {n * (1 + d)} functions for {n} samples in "
                f"{d} dimensions: expected at most {MOST_FUNCTIONS}, use basis='nystrom'"
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
        return sections.contract_gradients(x, coefficients[:n]) + gradients.contract_gradients(
            x, coefficients[n:]
        )

    def gram(self) -> np.ndarray:
        """(p, p) Gram matrix of the reproducing-kernel space."""
        n = len(self.centers)
        sections, gradients = self._parts
        mixed = kernel_derivative(self.kernel, "y", self.centers, self.centers).reshape(
            n, -1
        )  # <k(x_i, .), ∂_l k(x_j, .)>
        return np.block([[sections.gram(), mixed], [mixed.T, gradients.gram()]])
