"""Find parameters between two bounds whose draws lie at both of them: perhaps angles, cut in two by the boundary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

FEWEST_DRAWS = 100  # of all chains together
LEAST_SHARE = 0.02  # of the draws, in the outer tenth at either end
EMPTIER = 0.25  # density of the middle half, relative to the lower of these two
NEAREST = 0.25, 0.02  # within so many sd of the boundary: least share of the draws in the two outer tenths


class AtBothEnds(NamedTuple):
    """A scalar whose draws lie at both of its bounds."""

    name: str
    low: float
    high: float
    declared: bool = True  # a parameter of kmc.Model, which can be declared as kmc.Circular


def at_both_ends(
    intervals: Mapping[str, tuple[float, float]], values: Mapping[str, Any], declared: bool = True
) -> list[AtBothEnds]:
    """Parameters that have draws at both bounds, from their bounds and draws (chains, draws, ...), by element.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.run.ends import at_both_ends
    >>> phase = np.random.default_rng(0).normal(0, 0.05, (4, 100)) % 1.0
    >>> at_both_ends({"phase": (0.0, 1.0)}, {"phase": phase})
    [AtBothEnds(name='phase', low=0.0, high=1.0, declared=True)]
    """
    found = []
    for name, (low, high) in intervals.items():
        array = np.asarray(values[name])
        for index in np.ndindex(array.shape[2:]):
            if _is_cut((array[(..., *index)].ravel() - low) / (high - low)):
                label = f"{name}[{', '.join(map(str, index))}]" if index else name
                found.append(AtBothEnds(label, low, high, declared))
    return found


def _is_cut(y):
    """Whether draws y (n,) in (0, 1) look like one mode of an angle that the boundary divides.

    Each end has some draws, the middle hardly any, and the density does not fall towards the boundary. This excludes
    two modes well inside the interval.
    """
    if len(y) < FEWEST_DRAWS:
        return False
    emptier = min(np.mean(y < 0.1), np.mean(y > 0.9))
    if emptier < LEAST_SHARE or np.mean((y > 0.25) & (y < 0.75)) / 5.0 > EMPTIER * emptier:
        return False
    near = np.where(y < 0.5, y, y - 1.0)  # signed distance from the boundary, on a circle of length 1
    near = near[np.abs(near) < 0.1]
    return bool(np.mean(np.abs(near) < NEAREST[0] * near.std()) >= NEAREST[1])
