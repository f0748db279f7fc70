r"""Kernel Stein discrepancy: how far draws are from a density whose score is known.

Its Stein kernel is Langevin's Stein operator applied to both arguments of k,

.. math:: k_p(x, y) = \langle s(x), s(y) \rangle k + \langle s(x), \nabla_y k \rangle
                      + \langle s(y), \nabla_x k \rangle
                      + \operatorname{tr} \nabla_x \nabla_y k, \qquad s = \nabla \log p,

whose sections have mean zero under p (Oates, Girolami and Chopin 2017, equation 7; Chwialkowski,
Strathmann and Gretton 2016; Liu, Lee and Jordan 2016).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from kmc.bases import Basis
from kmc.bases.section_forms import RadialGeometry, profile_and_metric
from kmc.checks import check_count
from kmc.convergence import autocorrelation_time
from kmc.diagnostics.draws import read_points, scores_at
from kmc.kernels import Kernel, Metric, Scale, Sum, kernel_of, median_distance
from kmc.seeds import Seed, as_generator

BLOCK = 1024
"""Rows and columns of the blocks of the Stein matrix that are in memory at a time."""


class SteinDiscrepancy(NamedTuple):
    """Result of :func:`kernel_stein_discrepancy`.

    Attributes
    ----------
    discrepancy : float
        The kernel Stein discrepancy, the root of the V-statistic.
    u_statistic, v_statistic : float
        Means of the Stein kernel over pairs of different draws, which is unbiased for the squared
        discrepancy (and may be negative), and over all pairs.
    p_value : float
        For the hypothesis that the draws have this density; NaN without bootstrap.
    autocorrelation_time : float
        The time that the bootstrap accounted for, in draws.
    kernel : Kernel
        The kernel that was used.
    """

    discrepancy: float
    u_statistic: float
    v_statistic: float
    p_value: float
    autocorrelation_time: float
    kernel: Any


def kernel_stein_discrepancy(
    data: Any,
    score: Any,
    *,
    kernel: str | Kernel = "inverse-multiquadric",
    bandwidth: Any = "median",
    n_bootstrap: int = 500,
    var_names: Any = None,
    random_state: Seed = None,
) -> SteinDiscrepancy:
    r"""Compute the kernel Stein discrepancy of draws and a density, and a test.

    The square of the discrepancy is the mean of the Stein kernel :math:`k_p`
    (:mod:`kmc.diagnostics.stein`) over pairs of draws, zero if and only if they have the density p.
    The test accounts for autocorrelation. It is the wild bootstrap of Chwialkowski, Strathmann and
    Gretton (2016), "A kernel test of goodness of fit": n times the V-statistic is compared with
    :math:`\frac1n \sum_{ij} W_i W_j k_p(x_i, x_j)`, where the signs W of a chain flip from draw to
    draw with a probability that is 1/2 for independent draws, and decreases with the
    autocorrelation time τ of the draws and scores, :math:`1/(2 + 20(\tau - 1))`.

    Parameters
    ----------
    data : InferenceData, DataTree, Dataset, mapping of arrays or array_like
        Draws, (n, d) or (chains, draws, d), at least four in each chain; the rows of an array
        (n, d) are one chain, in its order.
    score : callable or estimator
        ∇ log p, a function from points (n, d) to (n, d), or an object with such a method
        ``gradient``, such as the estimators of :mod:`kmc.scores`. The columns are the parameters in
        the order of the variables of ``data``.
    kernel : str or Kernel
        The inverse multiquadric (1 + |x - y|²/bandwidth²)^(-1/2) also detects draws that drift away
        (Gorham and Mackey 2017), which fast-decaying kernels do not. If parameters have different
        units, use ``kmc.kernels.Metric``.
    bandwidth : float or "median"
        "median" is the median distance between the draws; give a number if several sets of draws
        are compared. A kernel object has its own scale: "median" keeps it, a number multiplies it.
    n_bootstrap : int
        Number of bootstrap samples; 0 skips the test.
    var_names : sequence of str, optional
        Variables of ``data``; all by default.
    random_state : int, Generator or None

    Returns
    -------
    SteinDiscrepancy

    Raises
    ------
    ValueError, TypeError
        Draws or scores are not finite or have the wrong shape, there are too few draws, or the
        kernel has fewer than two derivatives.

    Notes
    -----
    O(n² (d + n_bootstrap)) time; memory is a few arrays of a million numbers, and n n_bootstrap
    bytes: thin long chains. The test is asymptotic: at a level of .05 it rejected .03 to .07 of
    correct samples of 80 to 400 effective draws. Draws that miss a distant mode have nearly the
    right score wherever they are: no Stein discrepancy detects that.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.diagnostics import kernel_stein_discrepancy
    >>> x = np.random.default_rng(0).standard_normal((500, 2))
    >>> kernel_stein_discrepancy(x, lambda x: -x, random_state=0).p_value > 0.05
    True
    >>> kernel_stein_discrepancy(x, lambda x: -2 * x, random_state=0).p_value < 0.01
    True
    """
    check_count(SimpleNamespace(n_bootstrap=n_bootstrap), "n_bootstrap", 0)
    draws = read_points(data, var_names)
    points = draws.reshape(-1, draws.shape[2])
    n = len(points)
    scores = scores_at(score, points)
    used = _kernel(kernel, bandwidth, points)
    time = autocorrelation_time(np.concatenate([draws, scores.reshape(draws.shape)], axis=2))
    signs = wild_signs(draws.shape[:2], n_bootstrap, time, as_generator(random_state))
    total = diagonal = 0.0
    bootstrapped = np.zeros(n_bootstrap)
    for rows, columns, block in _blocks(used, points, scores):
        twice = 1.0 if rows == columns else 2.0
        total += twice * block.sum()
        if rows == columns:
            diagonal += np.trace(block)
        if n_bootstrap:
            across = block @ signs[columns].astype(float)
            bootstrapped += twice * np.einsum("ib,ib->b", across, signs[rows])
    v = max(total, 0.0) / n**2
    as_large = bootstrapped >= total * (1.0 - 1e-9)  # equal signs give the same sum, up to rounding
    return SteinDiscrepancy(
        discrepancy=float(np.sqrt(v)),
        u_statistic=float((total - diagonal) / (n * (n - 1))),
        v_statistic=float(v),
        p_value=float((1 + np.sum(as_large)) / (1 + n_bootstrap)) if n_bootstrap else float("nan"),
        autocorrelation_time=time,
        kernel=used,
    )


def wild_signs(
    shape: tuple[int, int], count: int, time: float, rng: np.random.Generator
) -> np.ndarray:
    """Return signs (chains * draws, count): in each chain and column a Markov chain on {-1, 1}.

    Their lag-one correlation is 1 - 2a for a flip probability a; with a = 1/(2 + 20(τ - 1)) they
    decay ten times as slowly as the values that they multiply, so the bootstrap has their variance
    to about a twentieth.
    """
    chains, draws = shape
    signs = np.empty((chains, draws, count), np.int8)
    for chain in range(chains):
        for column in range(count):
            flips = rng.random(draws) < 1.0 / (2.0 + 20.0 * (time - 1.0))
            flips[0] = rng.random() < 0.5
            signs[chain, :, column] = 1 - 2 * np.bitwise_xor.accumulate(flips)
    return signs.reshape(chains * draws, count)


def _kernel(kernel, bandwidth, points):
    if not isinstance(bandwidth, str):
        return kernel_of(kernel, bandwidth)
    if bandwidth != "median":
        raise ValueError(f"bandwidth={bandwidth!r}: expected 'median' or a positive number")
    return kernel_of(kernel, median_distance(points) if isinstance(kernel, str) else 1.0)


def _blocks(kernel, points, scores) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Yield the blocks of the Stein matrix on and above its diagonal: rows, columns and values."""
    starts = range(0, len(points), BLOCK)
    for i in starts:
        rows = slice(i, i + BLOCK)
        for j in starts[i // BLOCK :]:
            columns = slice(j, j + BLOCK)
            yield (
                rows,
                columns,
                stein_kernel(kernel, points[rows], scores[rows], points[columns], scores[columns]),
            )


def stein_kernel(
    kernel: Kernel, x: np.ndarray, x_scores: np.ndarray, y: np.ndarray, y_scores: np.ndarray
):
    """Evaluate the Stein kernel at all pairs of points, shape (n, m).

    Parameters
    ----------
    kernel : Kernel
        Radial or dot-product, in any metric, or a sum or a multiple of such kernels, with two
        derivatives where points coincide.
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
    >>> from kmc.diagnostics.stein import stein_kernel
    >>> from kmc.kernels import Gaussian
    >>> x = np.zeros((1, 2))
    >>> stein_kernel(Gaussian(0.5), x, -x, x, -x)  # at the mode of a Gaussian: d / bandwidth²
    array([[8.]])
    """
    if kernel.differentiability < 2:
        raise ValueError(
            f"kernel={kernel!r} has {kernel.differentiability:g} derivatives at coincident "
            f"points: a Stein kernel "
            "needs 2, use 'inverse-multiquadric', 'gaussian', 'matern52' or 'matern72'"
        )
    profile, metric = profile_and_metric(kernel)
    if profile.kind == "distance":
        return _radial(profile, metric, x, x_scores, y, y_scores)
    if profile.kind == "inner-product":
        return _dot_product(profile, metric, x, x_scores, y, y_scores)
    if isinstance(profile, Scale):
        return profile.factor * stein_kernel(
            _within(metric, profile.kernel), x, x_scores, y, y_scores
        )
    if isinstance(profile, Sum):
        left = stein_kernel(_within(metric, profile.left), x, x_scores, y, y_scores)
        left += stein_kernel(_within(metric, profile.right), x, x_scores, y, y_scores)
        return left
    raise TypeError(
        f"kernel={kernel!r}: expected a radial kernel, a dot-product kernel, or a sum of these"
    )


@dataclass(frozen=True, eq=False)
class SteinSections(Basis):
    """Combined sections k_p(y_a, .) of a Stein kernel, as a basis on rows (x, s(x), f(x)), and f.

    The score and the functions f are columns of the samples, so that they are evaluated only once,
    and one mass form holds all moments of both.

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
        """Return (n, r + k) values at rows (x, s(x), f(x))."""
        d = self.centers.shape[1]
        sections = stein_kernel(self.kernel, x[:, :d], x[:, d : 2 * d], self.centers, self.scores)
        return np.concatenate([sections @ self.matrix, x[:, 2 * d :]], axis=1)

    def gradients(self, x: np.ndarray) -> Any:
        """Raise a TypeError: gradients would need derivatives of the score."""
        raise TypeError("sections of a Stein kernel give values only")

    laplacians = gradients


def _radial(profile, metric, x, x_scores, y, y_scores):
    """Return <s, s'> q + 2q' <s' - s, M(x - y)> - 2q' tr M - 4q'' |M(x - y)|²."""
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
    """Return <s, s'> q + q' (<s, Mx> + <s', My> + tr M) + q'' <Mx, My>, at <x, My>."""
    matrix = np.eye(x.shape[1]) if metric is None else metric.T @ metric
    mx, my = x @ matrix, y @ matrix
    q0, q1, q2 = profile.derivatives(mx @ y.T, 2)
    first = (
        np.einsum("nd,nd->n", x_scores, mx)[:, None]
        + np.einsum("md,md->m", y_scores, my)
        + np.trace(matrix)
    )
    return (x_scores @ y_scores.T) * q0 + q1 * first + q2 * (mx @ my.T)


def _within(metric, kernel):
    return kernel if metric is None else Metric(kernel, metric)
