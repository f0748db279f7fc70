"""Moves of a hierarchical scale together with the parameters that it scales.

For a scale exp(t) and parameters x_i around a center x_k, t changes by δ and the distances x_i - x_k are multiplied by
exp(δ): their prior keeps its value up to the Jacobian, so that one move crosses the neck of a funnel. It is a
transformation from a group as in Liu and Sabatti (2000), "Generalised Gibbs sampler and multigrid Monte Carlo for
Bayesian computation", Biometrika 87, here with a symmetric δ and the Metropolis-Hastings ratio.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kmc.mcmc.base import MOVES
from kmc.mcmc.metropolis import Proposal
from kmc.surrogates.scale_group import ScaleGroup

SCALING_PROBABILITY = 0.1  # of such a move, if there are groups (set by hand)
_WIDEST, _RANGE = 2.0, 3.0  # of the sd of δ: the largest, in sds of the driver, and the log of its ratio to the least
_LARGEST = 200.0  # log of a factor on distances
_SCALING = MOVES.index("scaling")


def scaled(rng: np.random.Generator, x: np.ndarray, groups: Sequence[ScaleGroup], *, archive: np.ndarray) -> Proposal:
    """A move of one of the groups from x (d,); archived states (n, d) say how far drivers reach."""
    group = groups[int(rng.integers(len(groups)))]
    widest = _WIDEST * float(archive[:, group.driver].std())
    change = widest * float(np.exp(-_RANGE * rng.random()) * rng.standard_normal())
    if abs(group.slope * change) > _LARGEST:  # as unlikely on the way back
        return Proposal(x, 0.0, _SCALING, moved=False)
    position, log_ratio = group.scaled(x, change)
    return Proposal(position, log_ratio, _SCALING)
