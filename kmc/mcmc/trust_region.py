"""The region in which a surrogate is believed while it is learned.

A surrogate of few values can be high far from all of them, and so can one with scales that grow exponentially (a
funnel). A proposal there is lost, and the user's solver may overflow there, or never return.
"""

from __future__ import annotations

import numpy as np

from kmc.mcmc.history import History
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.proposal_mixture import SURROGATE_MOVES

# Times the width of the evaluations, beyond them: right runs without heavy tails do not come there, early fits that
# failed do (tried: docs/what-was-tried.md).
_FURTHER = 1.0


def within_trust_region(proposals: list[Proposal], x: np.ndarray, history: History) -> list[Proposal]:
    """The proposals from the rows of x; those by the surrogate that leave the region end at its border, not accepted.

    The region is the box of all evaluations with finite values, three times as wide. A shortened proposal is not
    reversible, so this is for warm-up only: its value shows the surrogate's error there.
    """
    known = history.x[np.isfinite(history.log_density)]
    low, high = known.min(axis=0), known.max(axis=0)
    margin = _FURTHER * (high - low)
    box = low - margin, high + margin
    return [_shortened(proposal, start, box) for proposal, start in zip(proposals, x, strict=True)]


def _shortened(proposal: Proposal, start: np.ndarray, box: tuple[np.ndarray, np.ndarray]) -> Proposal:
    (low, high), end = box, proposal.position
    if proposal.move not in SURROGATE_MOVES or np.all((end >= low) & (end <= high)):
        return proposal
    return proposal._replace(position=np.clip(np.where(np.isnan(end), start, end), low, high), log_ratio=-np.inf)
