"""Metastable sets from slow modes."""

from __future__ import annotations

import numpy as np


def corners(modes: np.ndarray) -> np.ndarray:
    """Rows of the points nearest to the corners of the simplex that slow modes fill.

    The values of the k - 1 slowest modes of a process with k metastable sets lie near k corners, one for each set, and
    on the paths between them. The two points farthest apart in one direction are chosen first, then repeatedly the one
    farthest from the plane through those chosen: the inner simplex algorithm of Weber and Galliat (2002), the start
    of PCCA+ (Deuflhard and Weber 2005).

    Parameters
    ----------
    modes : ndarray, shape (n, k - 1)

    Returns
    -------
    ndarray of int, shape (k,)
    """
    count = modes.shape[1] + 1
    first = int(np.argmax(np.sum(modes**2, axis=1)))
    apart = modes - modes[first]
    chosen = [first]
    for _ in range(count - 1):
        distance = np.sum(apart**2, axis=1)
        following = int(np.argmax(distance))
        if not distance[following] > 0:
            raise ValueError(f"n_sets={count}: the modes of the samples have no {count} corners, ask for fewer sets")
        direction = apart[following] / np.sqrt(distance[following])
        apart = apart - np.outer(apart @ direction, direction)
        chosen.append(following)
    return np.array(chosen)


def membership_matrix(modes: np.ndarray, share: float = 0.05) -> np.ndarray:
    """B (k, k) such that (1, modes) B are memberships in k sets: they sum to one, and are one at a set's own corner.

    A corner is the mean of the fraction ``share`` of all samples nearest to it (at most half of its set), since the
    outermost of many samples is noise. A membership is slightly outside [0, 1] for a sample beyond the corner.
    """
    n, k = len(modes), modes.shape[1] + 1
    extended = np.column_stack([np.ones(n), modes])
    membership = extended @ np.linalg.inv(extended[corners(modes)])
    sets = np.argmax(membership, axis=1)
    means = []
    for number in range(k):
        own = np.flatnonzero(sets == number)
        most = max(min(round(share * n), len(own) // 2), 1)
        means.append(extended[own[np.argsort(-membership[own, number], kind="stable")[:most]]].mean(axis=0))
    return np.linalg.inv(np.array(means))
