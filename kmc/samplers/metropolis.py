"""One Metropolis–Hastings decision, shared by every move."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Proposal(NamedTuple):
    """The proposal of a move.

    ``log_ratio`` is the logarithm of the Metropolis–Hastings ratio without the target:
    log q(x | x') - log q(x' | x). A proposal that ended where it began (``moved`` False) needs no evaluation.
    """

    position: np.ndarray
    log_ratio: float
    move: int  # index into base.MOVES
    moved: bool = True
    n_steps: int = 0
    step_size: float = 0.0
    energy: float = np.nan
    diverging: bool = False


def decide(rng: np.random.Generator, current: float, proposed: float, *, log_ratio: float) -> tuple[bool, float]:
    """Accept or reject, and return (accepted, probability); a proposed value of -inf is legal and never accepted."""
    uniform = rng.random()  # always drawn, so that the random stream does not depend on the value
    if proposed == -np.inf:
        return False, 0.0
    log_probability = proposed - current + log_ratio
    if np.isnan(log_probability):  # a surrogate overflowed
        return False, 0.0
    probability = float(np.exp(min(0.0, log_probability)))
    return uniform < probability, probability
