"""A basis of kernel sections, orthonormal in the kernel's space, from a kernel, a bandwidth and samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from kmc import landmarks
from kmc.bases import KernelSections, Whitened
from kmc.checks import check_count, check_number
from kmc.kernels import candidate_bandwidths, kernel_of, median_distance
from kmc.linalg import eigen_whitening
from kmc.source import Sample

BANDWIDTHS = (0.125, 0.25, 0.5, 1.0, 2.0)
"""Candidates of ``bandwidth="cv"``, in median distances between samples."""

MOST_FOR_LANDMARKS = 20_000
"""Samples among which landmarks are chosen."""


def check_section_parameters(model: Any) -> None:
    """Check the parameters ``n_components``, ``n_basis`` and ``tolerance`` of an estimator."""
    check_count(model, "n_components", 1)
    check_count(model, "n_basis", 2)
    check_number(model, "tolerance", 1e-12, 1, ends="[)")  # below, the Gram matrix is rounding error


def candidates(model: Any, sample: Sample) -> list[float]:
    """Bandwidths given by the parameter ``bandwidth`` of an estimator; its ``kernel`` is a name or an object."""
    median = median_distance(sample.counted()) if _relative(model) else 1.0
    named = isinstance(model.kernel, str)
    found = candidate_bandwidths(model.bandwidth, median, named, BANDWIDTHS)
    kernel_of(model.kernel, found[0])  # an unknown name is an error before anything is computed
    return found


def draw_landmarks(model: Any, sample: Sample, bandwidth: float, rng: np.random.Generator) -> np.ndarray:
    """(m, d) landmarks by the parameters ``landmarks`` and ``n_basis`` of an estimator, not of zero weight."""
    points = sample.counted()
    if len(points) > MOST_FOR_LANDMARKS:
        points = points[np.sort(rng.choice(len(points), MOST_FOR_LANDMARKS, replace=False))]
    kernel = kernel_of(model.kernel, bandwidth)
    return landmarks.choose(model.landmarks, points, model.n_basis, rng, kernel)


def whitened_sections(kernel: Any, bandwidth: float, centers: np.ndarray, tolerance: float = 2e-8) -> Whitened:
    """Sections k(y_a, .) of a kernel at landmarks (m, d), in combinations that are orthonormal in the kernel's space.

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
    >>> basis = whitened_sections("gaussian", 1.0, np.array([[0.0], [0.0], [1.0]]))  # two landmarks are equal
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


def _relative(model):
    """Whether the bandwidth is in units of the median distance."""
    return isinstance(model.bandwidth, str) and isinstance(model.kernel, str)
