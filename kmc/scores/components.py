"""Subsampling of the components of a gradient basis."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.checks import is_number, is_whole


def draw_components(components: Any, m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the sorted indices a d + i of the components that are used.

    Sutherland et al. (2018), section 3, "Dimension subsampling"; its [n] × [d] is [m] × [d].

    Parameters
    ----------
    components : int, float, sequence of int or None
        The total number; the probability of each, in (0, 1]; the number for each landmark, a sequence of m numbers, or
        of one number for all; None for all components.
    m, d : int
        Number of landmarks, and dimension.
    rng : Generator
    """
    if components is None:
        return np.arange(m * d)
    if isinstance(components, (bool, str, np.timedelta64)):
        raise TypeError(f"components={components!r}: {_expected(m, d)}")
    if is_whole(components):
        if not components >= 1:
            raise ValueError(f"components={components!r}: {_expected(m, d)}")
        return np.sort(rng.choice(m * d, min(int(components), m * d), replace=False))
    if is_number(components):
        if not 0 < components <= 1:
            raise ValueError(f"components={components!r}: {_expected(m, d)}")
        chosen = np.flatnonzero(rng.random(m * d) < components)
        return chosen if len(chosen) else rng.integers(m * d, size=1)
    try:
        counts = np.atleast_1d(np.asarray(components))
    except (TypeError, ValueError) as error:  # for example lists of unequal length
        raise ValueError(f"components={components!r}: {_expected(m, d)}") from error
    if counts.shape not in ((1,), (m,)) or counts.dtype.kind not in "iu":
        raise ValueError(f"components={components!r}: {_expected(m, d)}")
    if counts.min() < 0 or counts.max() > d or counts.max() == 0:
        raise ValueError(f"components={components!r}: {_expected(m, d)}")
    order = np.argsort(rng.random((m, d)), axis=1)
    kept = np.argsort(order, axis=1) < np.broadcast_to(counts, m)[:, None]
    return np.flatnonzero(kept.ravel())


def _expected(m, d):
    return (
        f"expected a count from 1 to {m * d} of components, a probability in (0, 1], or the number for each "
        f"landmark: a sequence of {m} whole numbers (or of one) between 0 and {d}, not all of them zero"
    )
