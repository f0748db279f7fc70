"""Points with exchanged blocks of coordinates: where labels can be exchanged, they are as high, in another mode."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_KINDS = 2, 3  # numbers of like groups that are tried


def exchanges(x: np.ndarray, most: int) -> np.ndarray:
    """At most so many points (k, d) that differ from x (d,) by an exchange of two groups.

    The coordinates, or all but the first or last few of them, are divided into two or three groups
    of equal size: (a1, b1, a2, b2) or (a1, a2, b1, b2). Beside two groups, one coordinate is a weight on
    the logit scale, perhaps, and changes its sign in half of the points.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernel_hmc.exchanges import exchanges
    >>> exchanges(np.array([1.0, 2.0, 3.0, 4.0]), 2)
    array([[2., 1., 4., 3.],
           [3., 4., 1., 2.]])
    """
    found = np.array(list(_exchanged(x))).reshape(-1, len(x))
    different = found[np.any(found != x, axis=1)]
    _, first = np.unique(different, axis=0, return_index=True)
    return different[np.sort(first)[:most]]


def _exchanged(x: np.ndarray) -> Iterator[np.ndarray]:
    for count in _KINDS:
        rest = len(x) % count
        if len(x) < count:
            return
        for start in {0, rest}:
            inside = slice(start, start + len(x) - rest)
            for shape, axis in (((-1, count), 1), ((count, -1), 0)):
                order = np.arange(count)
                order[:2] = 1, 0
                point = x.copy()
                point[inside] = np.take(x[inside].reshape(shape), order, axis).ravel()
                yield point
                if rest == 1 and count == 2:
                    outside = np.ones(len(x), bool)
                    outside[inside] = False
                    yield np.where(outside, -point, point)
