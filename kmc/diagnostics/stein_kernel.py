r"""Stein kernels: functions of mean zero under a density, from its score and any kernel.

The kernel of Langevin's Stein operator applied to both arguments of k,

.. math:: k_p(x, y) = \langle s(x), s(y) \rangle k + \langle s(x), \nabla_y k \rangle + \langle s(y), \nabla_x k \rangle
                      + \operatorname{tr} \nabla_x \nabla_y k, \qquad s = \nabla \log p,

whose sections have mean zero under p (Oates, Girolami and Chopin 2017, equation 7; Chwialkowski, Strathmann and Gretton
2016; Liu, Lee and Jordan 2016).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.bases import Basis
from kmc.bases.geometry import RadialGeometry
from kmc.bases.section_forms import profile_and_metric
from kmc.kernels import Kernel, Metric, Scale, Sum


def stein_kernel(kernel: Kernel, x: np.ndarray, x_scores: np.ndarray, y: np.ndarray, y_scores: np.ndarray):
    """The Stein kernel at all pairs of points, shape (n, m).

    Parameters
    ----------
    kernel : Kernel
        Radial or dot-product, in any metric, or a sum or a multiple of such kernels, with two derivatives where points
        coincide.
    x, x_scores : ndarray, shape (n, d)
        Points, and the scores there.
    y, y_scores : ndarray, shape (m, d)

    Raises
    ------
    ValueError
        The kernel has fewer derivatives.
    TypeError
        A product of a radial kernel and a dot-product kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.diagnostics.stein_kernel import stein_kernel
    >>> from kmc.kernels import Gaussian
    >>> x = np.zeros((1, 2))
    >>> stein_kernel(Gaussian(0.5), x, -x, x, -x)  # at the mode of a Gaussian: d / bandwidth²
    array([[8.]])
    """
    if kernel.differentiability < 2:
        raise ValueError(
            f"kernel={kernel!r} has {kernel.differentiability:g} derivatives at coincident points: a Stein kernel "
            "needs 2, use 'inverse-multiquadric', 'gaussian', 'matern52' or 'matern72'"
        )
    profile, metric = profile_and_metric(kernel)
    if profile.kind == "distance":
        return _radial(profile, metric, x, x_scores, y, y_scores)
    if profile.kind == "inner-product":
        return _dot_product(profile, metric, x, x_scores, y, y_scores)
    if isinstance(profile, Scale):
        return profile.factor * stein_kernel(_within(metric, profile.kernel), x, x_scores, y, y_scores)
    if isinstance(profile, Sum):
        left = stein_kernel(_within(metric, profile.left), x, x_scores, y, y_scores)
        left += stein_kernel(_within(metric, profile.right), x, x_scores, y, y_scores)
        return left
    raise TypeError(f"kernel={kernel!r}: expected a radial kernel, a dot-product kernel, or a sum of these")


@dataclass(frozen=True, eq=False)
class SteinSections(Basis):
    """Sections k_p(y_a, .) of a Stein kernel in combinations, as a basis on rows (x, s(x), f(x)), and f itself.

    The score and the functions f are columns of the samples, so that they are evaluated only once, and one mass form
    holds all moments of both.

    Parameters
    ----------
    kernel : Kernel
    centers, scores : ndarray, shape (m, d)
    matrix : ndarray, shape (m, r)
        Combinations of sections.
    functions : int
        Number k of columns after the score.
    """

    kernel: Kernel
    centers: np.ndarray
    scores: np.ndarray
    matrix: np.ndarray
    functions: int = 0

    @property
    def size(self) -> int:
        """r + k."""
        return self.matrix.shape[1] + self.functions

    def values(self, x: np.ndarray) -> np.ndarray:
        """(n, r + k) values at rows (x, s(x), f(x))."""
        d = self.centers.shape[1]
        sections = stein_kernel(self.kernel, x[:, :d], x[:, d : 2 * d], self.centers, self.scores)
        return np.concatenate([sections @ self.matrix, x[:, 2 * d :]], axis=1)

    def gradients(self, x: np.ndarray) -> Any:
        """Not available: they would need derivatives of the score."""
        raise TypeError("sections of a Stein kernel give values only")

    laplacians = gradients


def _radial(profile, metric, x, x_scores, y, y_scores):
    """<s, s'> q + 2q' <s' - s, M(x - y)> - 2q' tr M - 4q'' |M(x - y)|²."""
    geometry = RadialGeometry(metric, y)
    x = geometry.centered(x)
    s = geometry.distances(x)
    q0, q1, q2 = profile.derivatives(s, 2)
    across = geometry.inner_at_centers(x, geometry.pull(y_scores))
    across -= geometry.inner(x, geometry.pull(x_scores))
    across -= geometry.trace
    out = x_scores @ y_scores.T
    out *= q0
    across *= 2.0 * q1
    out += across
    out -= 4.0 * q2 * geometry.pulled_distances(x, s)
    return out


def _dot_product(profile, metric, x, x_scores, y, y_scores):
    """<s, s'> q + q' (<s, Mx> + <s', My> + tr M) + q'' <Mx, My>, at <x, My>."""
    matrix = np.eye(x.shape[1]) if metric is None else metric.T @ metric
    mx, my = x @ matrix, y @ matrix
    q0, q1, q2 = profile.derivatives(mx @ y.T, 2)
    first = np.einsum("nd,nd->n", x_scores, mx)[:, None] + np.einsum("md,md->m", y_scores, my) + np.trace(matrix)
    return (x_scores @ y_scores.T) * q0 + q1 * first + q2 * (mx @ my.T)


def _within(metric, kernel):
    return kernel if metric is None else Metric(kernel, metric)
