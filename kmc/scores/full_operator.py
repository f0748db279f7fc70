"""The Gram matrix of all kernel gradients at n samples, dense or matrix-free.

Its rows and columns belong to the functions ∂_i k(x_a, ·) of the full estimator (G of Sutherland,
Strathmann, Arbel and Gretton 2018, equation 4) and, optionally, to the sections k(x_a, ·). It has
(n d)² entries; a product with a vector needs O((n + tile) d) memory and O(n² d) time, by
recomputing the kernel in square tiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.bases import KernelExpansion
from kmc.bases.section_forms import profile_and_metric
from kmc.kernels import Kernel, kernel_derivative, program, run_program, stack_for
from kmc.njit import njit

TILE = 128  # samples: five arrays of a tile's pairs fit in the second-level cache

_PARTIALS = 2**22  # numbers in a strip of the matrix
_NONE = np.empty(0)
# Orders of derivatives: for each that is a literal, numba would compile the program's machine anew.
_SECOND: Any = np.int64(2)
_THIRD: Any = np.int64(3)


class GradientGram:
    """Inner products of ∂_i k(x_a, ·) and, with ``sections``, of k(x_a, ·).

    Parameters
    ----------
    kernel : Kernel
    points : ndarray, shape (n, d)
    sections : bool
        Whether k(x_a, ·) follows ∂_1 k(x_a, ·), ..., ∂_d k(x_a, ·).

    Attributes
    ----------
    shape : tuple
        Shape of the vectors that the matrix multiplies, (n, d) or (n, d + 1).
    """

    def __init__(self, kernel: Kernel, points: np.ndarray, sections: bool = False):
        self.kernel, self.points, self.sections = kernel, points, sections
        self.shape = (points.shape[0], points.shape[1] + sections)
        profile, self._metric = profile_and_metric(kernel)
        self._program = program(profile) if profile.kind == "distance" else None
        # unlike the mean, an outlier hardly moves it, which would cost digits
        origin = np.median(points, axis=0)
        mapped = points - origin if self._metric is None else (points - origin) @ self._metric.T
        self._mapped = np.ascontiguousarray(mapped)

    def __call__(self, vector: np.ndarray) -> np.ndarray:
        """Return the matrix times a vector, both of ``shape``."""
        d = self.points.shape[1]
        if self._program is None:
            return self._expanded(vector)
        if self._metric is not None:  # ∂_i k(Ax, Ay) = Σ_k A_ki ∂_k k at the images
            vector = np.hstack([vector[:, :d] @ self._metric.T, vector[:, d:]])
        out = tiled_product(self._program, self._mapped, np.ascontiguousarray(vector), _NONE)
        if self._metric is not None:
            k = len(self._metric)
            out = np.hstack([out[:, :k] @ self._metric, out[:, k:]])
        return out

    def moment(self, gradients: np.ndarray, laplacians: np.ndarray) -> np.ndarray:
        """Return gradients of Σ_a <g_a, ∂k(x_a, ·)> + l_a Δk(x_a, ·) at the points.

        With ``sections``, return values of it as well. ``gradients`` g are (n, d), ``laplacians`` l
        (n,), one of them not zero; the result is of ``shape``.
        """
        if self._program is None or self._metric is not None:
            return self._expanded(gradients, laplacians)
        vector = np.zeros(self.shape)
        vector[:, : gradients.shape[1]] = gradients
        return tiled_product(self._program, self._mapped, vector, np.ascontiguousarray(laplacians))

    def dense(self) -> np.ndarray:
        """Return the matrix, (n d, n d) or (n (d + 1), n (d + 1)), sample by sample."""
        n, width = self.shape
        out = np.empty((n, width, n, width))
        step = max(_PARTIALS // (n * width * width), 1)
        for start in range(0, n, step):
            rows, stop = slice(start, start + step), min(start + step, n)
            out[rows, :, :stop] = self._strip(rows, stop)
            out[:start, :, rows] = out[rows, :, :start].transpose(2, 3, 0, 1)
        return out.reshape(n * width, n * width)

    def _strip(self, rows, stop):
        """Return rows of the matrix up to a column, (rows, width, stop, width)."""
        d, x, y = self.points.shape[1], self.points[rows], self.points[:stop]
        gradients = kernel_derivative(self.kernel, "xy", x, y).transpose(0, 2, 1, 3)
        if not self.sections:
            return gradients
        out = np.empty((len(x), d + 1, stop, d + 1))
        out[:, :d, :, :d] = gradients
        out[:, :d, :, d] = kernel_derivative(self.kernel, "x", x, y).transpose(0, 2, 1)
        out[:, d, :, :d] = kernel_derivative(self.kernel, "y", x, y)
        out[:, d, :, d] = kernel_derivative(self.kernel, "k", x, y)
        return out

    def _expanded(self, vector, laplacians=None):
        """Compute the product by evaluating the expansion at its own centers.

        This works for any kernel, at half the speed.
        """
        d = self.points.shape[1]
        sections = vector[:, d] if vector.shape[1] > d else None
        gradients = vector[:, :d] if np.any(vector[:, :d]) else None
        expansion = KernelExpansion(self.kernel, self.points, sections, gradients, laplacians)
        gradients = expansion.gradient(self.points)
        return (
            np.column_stack([gradients, expansion.values(self.points)])
            if self.sections
            else gradients
        )


@njit(error_model="numpy")
def tiled_product(program, x, vector, laplacians):
    r"""Multiply the Gram matrix of a radial kernel at x (n, d) by a vector (n, d) or (n, d + 1).

    The product has the shape of the vector. With r = x_a - x_b, s = |r|², v the gradient part and c
    the section part of the vector,

    .. math::
        out_a &= \sum_b -2 q' v_b + \bigl[-4 q'' \langle r, v_b \rangle + 2 q' c_b\bigr] r, \\
        out_a &= \sum_b q\, c_b - 2 q' \langle r, v_b \rangle .

    With ``laplacians`` l (n,) instead of c, those of the kernel are added: (8q'''s + 4(d + 2)q'')
    l_b to the bracket, (4q''s + 2dq') l_b to the values. Otherwise they are empty.

    <r, v_b> = <x_a, v_b> - <x_b, v_b>, and r = x_a - x_b splits as well: so a tile of pairs needs
    matrix products only, and one evaluation of the kernel serves the tile and its mirror image.
    """
    n, d = x.shape
    sections = vector.shape[1] > d
    v, c = np.ascontiguousarray(vector[:, :d]), vector[:, d:].copy().reshape(-1)
    left, distance, along, ones = _augmented(x, v)
    first, second, values = np.zeros((n, d)), np.zeros((n, d + 1)), np.zeros(n)
    tiles = np.empty((3, TILE * TILE))
    part = np.empty(TILE * (d + 1))
    stack = stack_for(program, TILE)
    for i in range(0, n, TILE):
        rows = slice(i, min(i + TILE, n))
        ni = rows.stop - i
        for j in range(0, i + 1, TILE):
            columns = slice(j, min(j + TILE, n))
            nj = columns.stop - j
            size = ni * nj
            s, t, u = tiles[0, :size], tiles[1, :size], tiles[2, :size]
            s, t, u = s.reshape(ni, nj), t.reshape(ni, nj), u.reshape(ni, nj)
            np.dot(left[rows], distance[columns].T, s)
            np.dot(ones[rows], along[columns].T, t)
            np.dot(along[rows], ones[columns].T, u)
            if i == j:
                for a in range(ni):
                    s[a, a] = 0.0
            if laplacians.size > 0:
                l_rows, l_columns = laplacians[rows], laplacians[columns]
                _with_laplacians(
                    program,
                    stack,
                    s,
                    t,
                    u,
                    d,
                    l_rows,
                    l_columns,
                    values[rows],
                    values[columns],
                    i != j,
                )
            elif sections:
                _with_sections(
                    program,
                    stack,
                    s,
                    t,
                    u,
                    c[rows],
                    c[columns],
                    values[rows],
                    values[columns],
                    i != j,
                )
            else:
                _without_sections(program, stack, s, t, u)
            _add_product(s, v[columns], first[rows], part)
            _add_product(t, ones[columns], second[rows], part)
            if i != j:
                _add_product(s.T, v[rows], first[columns], part)
                _add_product(u.T, ones[rows], second[columns], part)
    out = np.empty(vector.shape)
    for a in range(n):
        for k in range(d):
            out[a, k] = -2.0 * first[a, k] - 4.0 * (second[a, d] * x[a, k] - second[a, k])
        if sections:
            out[a, d] = values[a]
    return out


@njit(error_model="numpy")
def _augmented(x, v):
    """Return rows whose inner products are |x_a - x_b|² and <x_a - x_b, v_b>.

    The former are those of the first two arrays, the latter those of the last with the third.
    """
    n, d = x.shape
    left, distance = np.ones((n, d + 2)), np.ones((n, d + 2))
    ones, along = np.ones((n, d + 1)), np.empty((n, d + 1))
    for a in range(n):
        square, inner = 0.0, 0.0
        for k in range(d):
            left[a, k], distance[a, k] = x[a, k], -2.0 * x[a, k]
            ones[a, k], along[a, k] = x[a, k], v[a, k]
            square += x[a, k] * x[a, k]
            inner += x[a, k] * v[a, k]
        left[a, d], distance[a, d + 1] = square, square
        along[a, d] = -inner
    return left, distance, along, ones


@njit(error_model="numpy")
def _without_sections(program, stack, s, t, u):
    """Write q' over s, and multiply t and u by q'' in place."""
    for a in range(s.shape[0]):
        row, straight, mirrored = s[a], t[a], u[a]
        for b in range(row.size):
            row[b] = max(row[b], 0.0)
        run_program(program, row, _SECOND, stack)
        q1, q2 = stack[0, 1], stack[0, 2]
        for b in range(row.size):
            row[b] = q1[b]
            straight[b] *= q2[b]
            mirrored[b] *= q2[b]


@njit(error_model="numpy")
def _with_sections(program, stack, s, t, u, c_rows, c_columns, rows, columns, mirror):
    """Write q' over s and q'' t - ½ q' c over t, and the same over u.

    Also add values to ``rows`` and ``columns``. The coefficients c are those of the columns for t,
    and of the rows for u. The values are those of the tile's sections and gradients at its points;
    at the columns they are added if ``mirror``.
    """
    for a in range(s.shape[0]):
        row, straight, mirrored = s[a], t[a], u[a]
        for b in range(row.size):
            row[b] = max(row[b], 0.0)
        run_program(program, row, _SECOND, stack)
        q, q1, q2 = stack[0, 0, : row.size], stack[0, 1, : row.size], stack[0, 2, : row.size]
        rows[a] += np.dot(q, c_columns) - 2.0 * np.dot(q1, straight)
        own = c_rows[a]
        for b in range(row.size):
            if mirror:
                columns[b] += q[b] * own - 2.0 * q1[b] * mirrored[b]
            row[b] = q1[b]
            straight[b] = q2[b] * straight[b] - 0.5 * q1[b] * c_columns[b]
            mirrored[b] = q2[b] * mirrored[b] - 0.5 * q1[b] * own


@njit(error_model="numpy")
def _with_laplacians(program, stack, s, t, u, d, l_rows, l_columns, rows, columns, mirror):
    """Do the same as :func:`_with_sections`, with Laplacians of the kernel instead of its sections.

    Then (2 q''' s + (d + 2) q'') l takes the place of ½ q' c.
    """
    for a in range(s.shape[0]):
        row, straight, mirrored = s[a], t[a], u[a]
        for b in range(row.size):
            row[b] = max(row[b], 0.0)
        run_program(program, row, _THIRD, stack)
        q1, q2, q3 = stack[0, 1, : row.size], stack[0, 2, : row.size], stack[0, 3, : row.size]
        laplacian = stack[0, 4, : row.size]
        own = l_rows[a]
        for b in range(row.size):
            laplacian[b] = 4.0 * q2[b] * row[b] + 2.0 * d * q1[b]
        rows[a] += np.dot(laplacian, l_columns) - 2.0 * np.dot(q1, straight)
        for b in range(row.size):
            if mirror:
                columns[b] += laplacian[b] * own - 2.0 * q1[b] * mirrored[b]
            slope = 2.0 * q3[b] * row[b] + (d + 2.0) * q2[b]
            row[b] = q1[b]
            straight[b] = q2[b] * straight[b] - slope * l_columns[b]
            mirrored[b] = q2[b] * mirrored[b] - slope * own


@njit()
def _add_product(matrix, columns, out, part):
    """Add a matrix product; ``part`` is scratch."""
    product = part[: out.size].reshape(out.shape)
    np.dot(matrix, columns, product)
    out += product
