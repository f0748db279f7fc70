"""Moves that use differences of archived points and no surrogate.

ter Braak and Vrugt (2008), "Differential evolution Markov chain with snooker updater and fewer chains", Statistics and
Computing 18. With a fixed archive the moves are exact for a single chain.
"""

from __future__ import annotations

import numpy as np

from kmc.samplers.base import MOVES
from kmc.samplers.walkers import Proposal

# As in the paper, except for the spread of the steps, which was set by hand.
SNOOKER_PROBABILITY = 0.15  # probability of a snooker update
_BEST_SCALE = 2.38  # of a step, over sqrt(2 d)
_SPREAD = 0.7, 1.3  # range of the factor on the step, uniform
_UNIT_PROBABILITY = 0.1  # probability of a step with γ = 1
_NOISE = 1e-3  # sd of the noise added to a step, in sds of the archive
_SNOOKER = 1.2, 2.2  # range of the factor on a snooker step, uniform

_DE = MOVES.index("differential-evolution")
_SNOOKER_MOVE = MOVES.index("snooker")


def archive_move(rng: np.random.Generator, x: np.ndarray, archive: np.ndarray) -> Proposal:
    """Propose a snooker update or differential evolution from x (d,).

    The archive (n, d) has n >= 3 distinct points.
    """
    if rng.random() < SNOOKER_PROBABILITY:
        return snooker(rng, x, archive)
    return differential_evolution(rng, x, archive, scale=1.0)


def differential_evolution(
    rng: np.random.Generator, x: np.ndarray, archive: np.ndarray, *, scale: float, sd: np.ndarray | None = None
) -> Proposal:
    """Propose x + γ (a - b) + small noise, which is symmetric; γ is 1 with probability 0.1, for jumps between modes.

    The noise is relative to ``sd`` (d,), by default the archive's standard deviations.
    """
    a, b = archive[rng.choice(len(archive), 2, replace=False)]
    unit = rng.random() < _UNIT_PROBABILITY
    gamma = 1.0 if unit else scale * _BEST_SCALE / np.sqrt(2 * len(x)) * rng.uniform(*_SPREAD)
    noise = _NOISE * (archive.std(axis=0) if sd is None else sd) * rng.standard_normal(len(x))
    return Proposal(x + gamma * (a - b) + noise, 0.0, _DE)


def snooker(rng: np.random.Generator, x: np.ndarray, archive: np.ndarray) -> Proposal:
    """Propose a point on the line through x and an archived z.

    The step is γ times the difference of two other archived points, projected on the line, with γ ~ U(1.2, 2.2).

    The step is symmetric in the distance r along the line, while volume around z grows as r^(d-1): the
    Metropolis–Hastings ratio is p(x') |x' - z|^(d-1) / (p(x) |x - z|^(d-1)).
    """
    z, a, b = archive[rng.choice(len(archive), 3, replace=False)]
    direction = x - z
    distance = np.linalg.norm(direction)
    if not distance > 0:
        return Proposal(x, 0.0, _SNOOKER_MOVE, moved=False)
    direction = direction / distance
    proposed = x + rng.uniform(*_SNOOKER) * ((a - b) @ direction) * direction
    new_distance = np.linalg.norm(proposed - z)
    if not new_distance > 0:
        return Proposal(x, 0.0, _SNOOKER_MOVE, moved=False)
    return Proposal(proposed, (len(x) - 1) * float(np.log(new_distance / distance)), _SNOOKER_MOVE)
