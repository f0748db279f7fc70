"""Many normal data as few: what emulated outputs need of them."""

from __future__ import annotations

import numpy as np

from kmc.surrogate.emulator.components import Components
from kmc.surrogate.emulator.observations import NORMAL
from kmc.surrogate.emulator.structure import Data


def compressed(data: Data, found: Components) -> tuple[Data, np.ndarray, np.ndarray]:
    """Return data, offset and basis of which the likelihood is the same function of the components, with fewer data.

    Of n normal data with one variance v, -n log(2πv)/2 - |y - η|²/2v depends on the k components by a quadratic
    function alone: k data with the same variance have it, with one more for the rest of the squares, which repeats the
    first term. Data with known variances that differ are brought to the same one.
    """
    kept, parts = np.ones(len(data.observed), bool), []
    unknown = np.any(data.scales >= 0, axis=1)
    simple = (data.kinds == NORMAL) & (data.relative == 0.0) & ~np.any(data.relative_scales >= 0, axis=1)
    keys = np.column_stack([data.scales, np.where(unknown, data.variances, 1.0)])
    for key in np.unique(keys[simple], axis=0):
        rows = np.flatnonzero(simple & np.all(keys == key, axis=1))
        scale = np.where(unknown[rows], 1.0, 1.0 / np.sqrt(np.maximum(data.variances[rows], 1e-300)))
        basis, misfit = scale[:, None] * found.basis[rows], scale * (data.observed[rows] - found.offset[rows])
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
    every = [data.at(rows), *(part for part, _ in parts)]
    joined = Data(*(np.ascontiguousarray(np.concatenate(columns)) for columns in zip(*every, strict=True)))
    offset = np.append(found.offset[rows], np.zeros(len(joined.observed) - len(rows)))
    return joined, offset, np.vstack([found.basis[rows], *(basis for _, basis in parts)])
