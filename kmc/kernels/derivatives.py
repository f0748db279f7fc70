"""Partial derivatives of any kernel k(x, y), in closed form.

This is the general access, and a reference for faster code. With M = AᵀA of the metric A (the
identity without one), r = x - y, v = Mr, u = |v|², T = tr M:

======== ============ ==================================== ===================================
name     what         radial, q(s), s = rᵀMr               dot-product, q(t), t = xᵀMy
======== ============ ==================================== ===================================
``k``    k            q                                    q
``x``    ∂/∂x_i       2 q' v                               q' My
``y``    ∂/∂y_j       -2 q' v                              q' Mx
``xy``   ∂²/∂x_i ∂y_j -2 q' M - 4 q'' vvᵀ                  q' M + q'' (My)(Mx)ᵀ
``xx``   Δ_x          4 q'' u + 2 T q'                     q'' |My|²
``yy``   Δ_y          4 q'' u + 2 T q'                     q'' |Mx|²
``xxy``  ∂/∂y_j Δ_x   -(8q''' u + 4T q'') v - 8 q'' Mv     q''' |My|² Mx + 2 q'' M²y
``xyy``  ∂/∂x_i Δ_y   (8q''' u + 4T q'') v + 8 q'' Mv      q''' |Mx|² My + 2 q'' M²x
``xxyy`` Δ_x Δ_y      16 q'''' u² + 16 T q''' u            q'''' |Mx|² |My|² + 4 q''' (Mx)ᵀM²y
                      + 32 q''' vᵀMv + (8 tr M² + 4T²) q'' + 2 q'' tr M²
======== ============ ==================================== ===================================

Sums add, products follow Leibniz's rule, and a metric around a sum or a product is applied to its
parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from kmc.kernels.algebra import Kernel, Product, Scale, Sum
from kmc.kernels.metric import Metric, composed, mapped, squared_distances

ORDERS = {"k": 0, "x": 1, "y": 1, "xy": 2, "xx": 2, "yy": 2, "xxy": 3, "xyy": 3, "xxyy": 4}

_FACTORS_NEED = {  # derivatives of the factors that Leibniz's rule needs
    "k": {"k"},
    "x": {"k", "x"},
    "y": {"k", "y"},
    "xy": {"k", "x", "y", "xy"},
    "xx": {"k", "x", "xx"},
    "yy": {"k", "y", "yy"},
    "xxy": {"k", "x", "y", "xy", "xx", "xxy"},
    "xyy": {"k", "x", "y", "xy", "yy", "xyy"},
    "xxyy": set(ORDERS),
}

Partials = dict[str, Any]

Axes = tuple[int, ...]


def kernel_derivative(kernel: Kernel, name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a partial derivative of a kernel at all pairs of points.

    If the kernel is not smooth enough at coincident points (``kernel.differentiability``),
    divergent derivatives are set to 0 there.

    Parameters
    ----------
    kernel : Kernel
    name : str
        "k" gives shape (n, m), as do "xx", "yy" and "xxyy"; "x", "y", "xxy" and "xyy" give (n, m,
        d); "xy" gives (n, m, d, d). An x means a derivative in the first argument, xx the Laplacian
        in it.
    x : ndarray, shape (n, d)
    y : ndarray, shape (m, d)

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Gaussian, Polynomial, kernel_derivative
    >>> x, y = np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([[1.0, 1.0]])
    >>> kernel_derivative(Gaussian() + Polynomial(degree=1), "x", x, y)
    array([[[1.607, 1.   ]],
           [[1.   , 1.   ]]])
    """
    if name not in ORDERS:
        raise ValueError(f"name={name!r}: expected one of {', '.join(map(repr, ORDERS))}")
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel={kernel!r}: expected a kernel of kmc.kernels")
    x, y = _points("x", x), _points("y", y)
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"x has {x.shape[1]} columns and y has {y.shape[1]}: expected the same number of "
            f"coordinates"
        )
    return _partials(kernel, {name}, x, y, None)[name]


def _partials(
    kernel: Any, names: set[str], x: np.ndarray, y: np.ndarray, metric: np.ndarray | None
) -> Partials:
    """Compute all the named partials of k(Ax, Ay) at once.

    So no part of a composite is evaluated twice.
    """
    if isinstance(kernel, Metric):
        return _partials(kernel.kernel, names, x, y, composed(kernel.matrix, metric))
    if kernel.kind == "distance":
        return _radial(kernel, names, x, y, metric)
    if kernel.kind == "inner-product":
        return _dot_product(kernel, names, x, y, metric)
    if isinstance(kernel, Scale):
        inner = _partials(kernel.kernel, names, x, y, metric)
        return {name: kernel.factor * inner[name] for name in names}
    if isinstance(kernel, Sum):
        f, g = (
            _partials(kernel.left, names, x, y, metric),
            _partials(kernel.right, names, x, y, metric),
        )
        return {name: f[name] + g[name] for name in names}
    if isinstance(kernel, Product):
        needed = set().union(*(_FACTORS_NEED[name] for name in names))
        f, g = (
            _partials(kernel.left, needed, x, y, metric),
            _partials(kernel.right, needed, x, y, metric),
        )
        return {name: _leibniz(name, f, g) for name in names}
    raise TypeError(
        f"kernel={kernel!r}: its kind is {kernel.kind!r}, expected 'distance' or 'inner-product'"
    )


def _radial(kernel, names, x, y, metric):
    """Compute differences after centering, before the metric.

    So an offset costs no digits, and coincidence is exact.
    """
    d = x.shape[1]
    center = y.mean(axis=0) if len(y) else np.zeros(d)
    x, y = x - center, y - center
    m = np.eye(d) if metric is None else metric.T @ metric
    s = _distances(x, y, metric)
    q = _padded(kernel.derivatives(s, max(ORDERS[name] for name in names)))
    trace = float(d) if metric is None else np.trace(m)
    if names & {"xx", "yy", "xxy", "xyy", "xxyy"}:
        u = s if metric is None else _distances(x, y, m)
    if names & {"x", "y", "xy", "xxy", "xyy"}:
        r = x[:, None, :] - y
        v = r if metric is None else np.einsum("nmd,kd->nmk", r, m)
    out = {}
    if "k" in names:
        out["k"] = q[0]
    if "x" in names:
        out["x"] = (2.0 * q[1])[..., None] * v
    if "y" in names:
        out["y"] = (-2.0 * q[1])[..., None] * v
    if "xy" in names:
        out["xy"] = (-4.0 * q[2])[..., None, None] * v[..., :, None] * v[..., None, :]
        out["xy"] -= (2.0 * q[1])[..., None, None] * m
    for name in names & {"xx", "yy"}:
        out[name] = 4.0 * q[2] * u + 2.0 * trace * q[1]
    if names & {"xxy", "xyy"}:
        mv = v if metric is None else np.einsum("nmd,kd->nmk", v, m)
        third = (8.0 * q[3] * u + 4.0 * trace * q[2])[..., None] * v + (8.0 * q[2])[..., None] * mv
        out.update({name: third if name == "xyy" else -third for name in names & {"xxy", "xyy"}})
    if "xxyy" in names:
        vmv = s if metric is None else _distances(x, y, metric @ m)
        out["xxyy"] = 16.0 * (q[4] * u + trace * q[3]) * u + 32.0 * q[3] * vmv
        out["xxyy"] += (8.0 * np.sum(m**2) + 4.0 * trace**2) * q[2]
    return out


def _dot_product(kernel, names, x, y, metric):
    m = np.eye(x.shape[1]) if metric is None else metric.T @ metric
    mx, my = x @ m, y @ m
    q = _padded(kernel.derivatives(x @ my.T, max(ORDERS[name] for name in names)))
    xx, yy = np.einsum("nd,nd->n", mx, mx)[:, None], np.einsum("md,md->m", my, my)
    out = {}
    if "k" in names:
        out["k"] = q[0]
    if "x" in names:
        out["x"] = q[1][..., None] * my
    if "y" in names:
        out["y"] = q[1][..., None] * mx[:, None, :]
    if "xy" in names:
        out["xy"] = (
            q[2][..., None, None] * my[:, :, None] * mx[:, None, None, :]
            + q[1][..., None, None] * m
        )
    if "xx" in names:
        out["xx"] = q[2] * yy
    if "yy" in names:
        out["yy"] = q[2] * xx
    if "xxy" in names:
        out["xxy"] = (q[3] * yy)[..., None] * mx[:, None, :] + 2.0 * q[2][..., None] * (my @ m)
    if "xyy" in names:
        out["xyy"] = (q[3] * xx)[..., None] * my + 2.0 * q[2][..., None] * (mx @ m)[:, None, :]
    if "xxyy" in names:
        out["xxyy"] = q[4] * xx * yy + 4.0 * q[3] * (mx @ m @ my.T) + 2.0 * np.sum(m**2) * q[2]
    return out


def _leibniz(name: str, f: Partials, g: Partials) -> np.ndarray:
    """Return a partial derivative of the product fg, from those of f and g."""
    if name == "k":
        return f["k"] * g["k"]
    if name in ("x", "y"):
        return f[name] * g["k"][..., None] + f["k"][..., None] * g[name]
    if name == "xy":
        crossed = (
            f["x"][..., :, None] * g["y"][..., None, :]
            + g["x"][..., :, None] * f["y"][..., None, :]
        )
        return f["xy"] * g["k"][..., None, None] + crossed + f["k"][..., None, None] * g["xy"]
    if name in ("xx", "yy"):
        return f[name] * g["k"] + 2.0 * _dot(f[name[0]], g[name[0]]) + f["k"] * g[name]
    if name == "xxy":
        mixed = _third(f, g, "xx", "y") + 2.0 * np.einsum("nmij,nmi->nmj", f["xy"], g["x"])
        return mixed + _third(g, f, "xx", "y") + 2.0 * np.einsum("nmij,nmi->nmj", g["xy"], f["x"])
    if name == "xyy":
        mixed = _third(f, g, "yy", "x") + 2.0 * np.einsum("nmij,nmj->nmi", f["xy"], g["y"])
        return mixed + _third(g, f, "yy", "x") + 2.0 * np.einsum("nmij,nmj->nmi", g["xy"], f["y"])
    both = 4.0 * np.einsum("nmij,nmij->nm", f["xy"], g["xy"])
    return both + _fourth(f, g) + _fourth(g, f)


def _third(f, g, twice, once):
    """Return the terms of ∂ Δ (fg) in which the Laplacian applies to f alone."""
    third = "xxy" if once == "y" else "xyy"
    return f[third] * g["k"][..., None] + f[twice][..., None] * g[once]


def _fourth(f, g):
    """Return half of the terms of Δ_x Δ_y (fg); the other half has f and g exchanged."""
    return (
        f["xxyy"] * g["k"]
        + f["xx"] * g["yy"]
        + 2.0 * (_dot(f["xxy"], g["y"]) + _dot(f["xyy"], g["x"]))
    )


def _dot(a, b):
    return np.einsum("nmd,nmd->nm", a, b)


def _distances(x, y, matrix):
    return (
        squared_distances(x, y)
        if matrix is None
        else squared_distances(mapped(x, matrix), mapped(y, matrix))
    )


def _padded(derivatives):
    """Pad with None, so that unused q[k] can be named."""
    return (*derivatives, None, None, None, None)


def _points(name, points):
    p = np.ascontiguousarray(points, dtype=float)
    if p.ndim != 2 or p.shape[1] == 0:
        raise ValueError(f"{name} has shape {p.shape}: expected (n, d), points are rows")
    if not np.isfinite(p).all():
        raise ValueError(
            f"{name} contains NaN or infinity in row {int(np.argmax(~np.isfinite(p).all(axis=1)))}"
        )
    return p


def derivative(kernel: Kernel, index: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return ∂^α k(x, y) in x at all pairs of points, shape (n, m).

    The multi-index α has an order up to four. If the kernel is not smooth enough at coincident
    points (``kernel.differentiability``), divergent derivatives are set to 0 there.

    Parameters
    ----------
    kernel : Kernel
    index : sequence of int
        α: the number of derivatives in each of the d coordinates, at most four in total.
    x : ndarray, shape (n, d)
    y : ndarray, shape (m, d)

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Gaussian, derivative
    >>> derivative(Gaussian(), (2, 0), np.zeros((1, 2)), np.zeros((1, 2)))
    array([[-1.]])

    Notes
    -----
    With M = AᵀA of the metric A and v = M (x - y), a radial kernel q(s), s = (x - y)ᵀM(x - y), has
    ∂_i s = 2 v_i, ∂_i ∂_j s = 2 M_ij, and all higher ones vanish. By Faà di Bruno's formula ∂_i ∂_j
    ... q is the sum, over all ways to leave some of the axes single and to pair the others, of
    q^(singles + pairs) ∏ 2 v_i ∏ 2 M_ij. For a dot-product kernel q(t), t = xᵀMy, it is q^(k) ∏
    (My)_i.
    """
    return _derivative(kernel, axes_of(index, x.shape[1]), x, y, None)


def axes_of(index: Any, dim: int) -> Axes:
    """Return the axes of a multi-index's derivatives, repeated: (2, 0, 1) gives (0, 0, 2)."""
    alpha = np.asarray(index)
    if alpha.shape != (dim,) or alpha.dtype.kind not in "iu" or np.any(alpha < 0):
        raise ValueError(
            f"index={index!r}: expected {dim} whole numbers, how often each coordinate is derived"
        )
    return tuple(int(i) for i in np.repeat(np.arange(dim), alpha))


def _derivative(
    kernel: Any, axes: Axes, x: np.ndarray, y: np.ndarray, metric: np.ndarray | None
) -> np.ndarray:
    if isinstance(kernel, Metric):
        return _derivative(kernel.kernel, axes, x, y, composed(kernel.matrix, metric))
    if kernel.kind == "distance":
        return _radial_derivative(kernel, axes, x, y, metric)
    if kernel.kind == "inner-product":
        return _dot_product_derivative(kernel, axes, x, y, metric)
    if isinstance(kernel, Scale):
        return kernel.factor * _derivative(kernel.kernel, axes, x, y, metric)
    if isinstance(kernel, Sum):
        return _derivative(kernel.left, axes, x, y, metric) + _derivative(
            kernel.right, axes, x, y, metric
        )
    if isinstance(kernel, Product):
        total = 0.0
        for chosen, rest in _splits(axes):
            left, right = (
                _derivative(kernel.left, chosen, x, y, metric),
                _derivative(kernel.right, rest, x, y, metric),
            )
            total = total + left * right
        return np.asarray(total)
    raise TypeError(
        f"kernel={kernel!r}: its kind is {kernel.kind!r}, expected 'distance' or 'inner-product'"
    )


def _radial_derivative(kernel, axes, x, y, metric):
    """Compute differences after centering: an offset costs no digits."""
    center = y.mean(axis=0) if len(y) else np.zeros(y.shape[1])
    x, y = x - center, y - center
    matrix = np.eye(x.shape[1]) if metric is None else metric.T @ metric
    s = (
        squared_distances(x, y)
        if metric is None
        else squared_distances(mapped(x, metric), mapped(y, metric))
    )
    q = kernel.derivatives(s, len(axes))
    along = {i: 2.0 * np.subtract.outer(x @ matrix[i], y @ matrix[i]) for i in set(axes)}
    total = np.zeros(s.shape)
    for singles, pairs in _matchings(axes):
        term = q[len(singles) + len(pairs)] * prod(2.0 * matrix[i, j] for i, j in pairs)
        for i in singles:
            term = term * along[i]
        total += term
    return total


def _dot_product_derivative(kernel, axes, x, y, metric):
    pulled = y if metric is None else y @ (metric.T @ metric)
    out = kernel.derivatives(x @ pulled.T, len(axes))[len(axes)]
    for i in axes:
        out = out * pulled[:, i]
    return out


def _matchings(axes: Axes) -> Iterator[tuple[Axes, tuple[tuple[int, int], ...]]]:
    """Yield all ways to leave some axes single and pair the others."""
    if not axes:
        yield (), ()
        return
    first, rest = axes[0], axes[1:]
    for singles, pairs in _matchings(rest):
        yield (first, *singles), pairs
    for k, other in enumerate(rest):
        for singles, pairs in _matchings(rest[:k] + rest[k + 1 :]):
            yield singles, ((first, other), *pairs)


def _splits(axes: Axes) -> Iterator[tuple[Axes, Axes]]:
    """Yield all ways to distribute the axes over two factors (Leibniz's rule)."""
    places = range(len(axes))
    for count in range(len(axes) + 1):
        for chosen in combinations(places, count):
            yield tuple(axes[k] for k in chosen), tuple(axes[k] for k in places if k not in chosen)
