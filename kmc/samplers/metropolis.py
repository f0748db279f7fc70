"""Proposals, and the Metropolis–Hastings rule that accepts or rejects them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Proposal(NamedTuple):
    """The proposal of a move.

    ``log_ratio`` is the logarithm of the Metropolis–Hastings ratio without the target: log q(x |
    x') - log q(x' | x). A proposal that ended where it began (``moved`` False) needs no evaluation.
    """

    position: np.ndarray
    log_ratio: float
    move: int  # index into base.MOVES
    moved: bool = True
    n_steps: int = 0
    step_size: float = 0.0
    energy: float = np.nan
    diverging: bool = False


def decide(
    rng: np.random.Generator, current: float, proposed: float, *, log_ratio: float
) -> tuple[bool, float]:
    """Accept or reject, and return (accepted, probability).

    A proposed value of -inf is legal and never accepted.
    """
    uniform = rng.random()  # always drawn, so that the random stream does not depend on the value
    if proposed == -np.inf:
        return False, 0.0
    log_probability = proposed - current + log_ratio
    if np.isnan(log_probability):  # a surrogate overflowed
        return False, 0.0
    probability = float(np.exp(min(0.0, log_probability)))
    return uniform < probability, probability


def probabilities(current: np.ndarray, proposed: np.ndarray, log_ratios: np.ndarray) -> np.ndarray:
    """Return the probabilities (n,) of :func:`decide`, all at once and the same to the bit."""
    with np.errstate(invalid="ignore"):  # -inf - (-inf); the surrogate may have overflowed, too
        change = proposed - current + log_ratios
    legal = (proposed > -np.inf) & ~np.isnan(change)
    found = np.zeros(len(change))
    found[legal] = np.exp(np.minimum(0.0, change[legal]))
    return found
