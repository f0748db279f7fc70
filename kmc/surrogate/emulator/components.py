"""Principal components of outputs, and the likelihood as a function of these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.surrogate.emulator.structure import NORMAL, Data, joined

TRUNCATED = 0.02
"""Root mean square of what is left out of outputs, in units of their errors: about so many nats."""


class Components(NamedTuple):
    """Outputs η = offset + basis a, with uncorrelated a whose unit is a standard error of the data.

    Outputs that do not matter to the likelihood, and directions in which they do not vary, are left
    out.
    """

    offset: np.ndarray  # (n,)
    basis: np.ndarray  # (n, c)
    values: np.ndarray  # (rows, c), a at the given points


def principal(eta: np.ndarray, weights: np.ndarray, information: np.ndarray) -> Components:
    """Return the components of outputs (rows, n).

    Parameters
    ----------
    eta : ndarray, shape (rows, n)
    weights : ndarray, shape (rows,)
        Of the points, by how much their values matter.
    information : ndarray, shape (n,)
        Fisher information of each output.

    References
    ----------
    Higdon, Gattiker, Williams and Rightley (2008), Computer model calibration using
    high-dimensional output, JASA 103.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.surrogate.emulator.components import principal
    >>> eta = np.outer([0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 0.0])
    >>> found = principal(eta, np.ones(4), np.ones(3))
    >>> found.values.shape, bool(np.allclose(found.offset + found.values @ found.basis.T, eta))
    ((4, 1), True)
    """
    share = weights / weights.sum()
    offset = share @ eta
    scale = np.sqrt(np.maximum(information, 1e-12 * information.max()))
    rows = (eta - offset) * scale
    _, sizes, directions = np.linalg.svd(np.sqrt(share)[:, None] * rows, full_matrices=False)
    left_out = np.append(np.cumsum(sizes[::-1] ** 2)[::-1], 0.0)  # by how many are kept
    count = max(int(np.argmax(left_out < TRUNCATED**2)), 1)
    return Components(offset, directions[:count].T / scale[:, None], rows @ directions[:count].T)


def compressed(data: Data, found: Components) -> tuple[Data, np.ndarray, np.ndarray]:
    """Return data, offset and basis of which the likelihood is the same function of the components.

    The data are fewer than the given ones. Of n normal data with one variance v, -n log(2πv)/2 -
    |y - η|²/2v depends on the k components by a quadratic function alone: k data with the same
    variance have it, with one more for the rest of the squares, which repeats the first term. Data
    with known variances that differ are brought to the same one.
    """
    kept, parts = np.ones(len(data.observed), bool), []
    unknown = np.any(data.scales >= 0, axis=1)
    simple = (
        (data.kinds == NORMAL) & (data.relative == 0.0) & ~np.any(data.relative_scales >= 0, axis=1)
    )
    keys = np.column_stack([data.scales, np.where(unknown, data.variances, 1.0)])
    for key in np.unique(keys[simple], axis=0):
        rows = np.flatnonzero(simple & np.all(keys == key, axis=1))
        scale = np.where(
            unknown[rows], 1.0, 1.0 / np.sqrt(np.maximum(data.variances[rows], 1e-300))
        )
        basis, misfit = (
            scale[:, None] * found.basis[rows],
            scale * (data.observed[rows] - found.offset[rows]),
        )
        if len(rows) <= basis.shape[1] + 1:
            continue
        orthogonal, root = np.linalg.qr(basis)
        seen = orthogonal.T @ misfit
        size, first = len(root), rows[0]
        rest = np.sqrt(max(misfit @ misfit - seen @ seen, 0.0))
        repeats = np.append(np.zeros(size), len(rows) - size - 1.0)
        constants = np.append(np.zeros(size), data.constants[rows].sum() + np.log(scale).sum())
        some = data.at(np.full(size + 1, first))
        parts.append(
            (
                some._replace(
                    observed=np.append(seen, rest),
                    constants=constants,
                    variances=np.full(size + 1, data.variances[first] if unknown[first] else 1.0),
                    repeats=repeats,
                ),
                np.vstack([root, np.zeros(size)]),
            )
        )
        kept[rows] = False
    if not parts:
        return data, found.offset, found.basis
    rows = np.flatnonzero(kept)
    fewer = joined([data.at(rows), *(part for part, _ in parts)])
    offset = np.append(found.offset[rows], np.zeros(len(fewer.observed) - len(rows)))
    return fewer, offset, np.vstack([found.basis[rows], *(basis for _, basis in parts)])
