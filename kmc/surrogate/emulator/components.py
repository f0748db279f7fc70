"""Principal components of a simulator's outputs, in units of the likelihood."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

TRUNCATED = 0.02
"""Root mean square of what is left out of the outputs, in units of their errors: about so many nats."""


class Components(NamedTuple):
    """Outputs η = offset + basis a, with uncorrelated a whose unit is one standard error of the data.

    Outputs that do not matter to the likelihood, and directions in which they do not vary, are left out.
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
    Higdon, Gattiker, Williams and Rightley (2008), Computer model calibration using high-dimensional output, JASA 103.

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
