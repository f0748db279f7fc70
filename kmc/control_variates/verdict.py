"""The verdict about a replicate's surrogate, the same for expectations and evidence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.control_variates.annealing import GAP, LEAST_GAP, Mass
from kmc.control_variates.domain import Domain
from kmc.control_variates.estimate import MOST_AT_EDGE, ReplicateEstimate
from kmc.control_variates.means import SurrogateChains, chains_of, mass_by
from kmc.control_variates.replicate import Replicate

_CHECKED = 10_000  # draws from the surrogate that are compared with those of the target


class Verdict(NamedTuple):
    """Doubts about a surrogate, and what the verdict is based on."""

    doubts: str  # sentences about "it", without the last period; empty if there are none
    caution: str  # the same of mass where it is not used: far from all draws, or where the density is zero
    domain: Domain | None
    chains: list[SurrogateChains]  # of each mode
    masses: list[Mass]  # of each mode


def judge(replicate: Replicate, seed: np.random.SeedSequence) -> Verdict:
    """Compare the surrogate's mass from both ends, its draws with those of the target, and its proposals with both.

    Raises
    ------
    UnknownMode
        A mode of the surrogate has too few draws.
    """
    check, anneal = seed.spawn(2)
    rng = np.random.default_rng(anneal)
    domain = replicate.domain()
    chains = chains_of(replicate, rng, domain)
    masses = [mass_by(own, rng) for own in chains]
    doubts = [
        f"annealed from draws it has a log-mass of {mass.down:.2f}, and from above one of {mass.up:.2f}: it has a mode "
        "that the draws do not have, or none where they have one"
        for mass in masses
        if abs(mass.gap) > GAP and abs(mass.up - mass.down) > LEAST_GAP
    ]

    def quantities(points: np.ndarray) -> np.ndarray:
        rows = points.reshape(-1, points.shape[-1])
        found = np.column_stack([rows, replicate.density.log_density(rows)])
        return found.reshape(*points.shape[:-1], found.shape[1])

    estimate = ReplicateEstimate(replicate, quantities, check, _CHECKED, np.inf, nearby=True)
    caution = "it has mass far from all draws" if estimate.restricted else ""
    if estimate.doubts and replicate.at_edge() > MOST_AT_EDGE:
        caution = estimate.doubts
    elif estimate.doubts:
        doubts.append(estimate.doubts)
    return Verdict("; ".join(doubts), caution, domain, chains, masses)
