"""Whether few draws contradict the frozen surrogate, which has mass where they are missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kmc.control_variates.correction import FEW
from kmc.control_variates.estimate import ReplicateEstimate
from kmc.control_variates.replicate import Replicate
from kmc.run.trace import Trace
from kmc.surrogates import Density

_SURROGATE_DRAWS = 2000  # several times as many as there are effective draws
_STREAM = 2**31 + 1  # a key that no SeedSequence of the run spawns: the check does not change the draws


def contradiction(traces: Sequence[Trace], densities: Sequence[Density | None], seed: np.random.SeedSequence) -> str:
    """How draws and surrogate differ, in words; empty if they do not, or if it is not known.

    Means and squares of the parameters under the surrogate are known in two ways: from its own draws, and from the
    run's draws with weights. They differ if the surrogate has a tail or a mode that the draws have not. With 400 draws
    and more this is not looked at: the surrogate is then more often too high somewhere than the draws are wrong.

    Parameters
    ----------
    traces, densities : sequence
        Of each independent run; the traces with their proposals.
    seed : SeedSequence
        That of the run.
    """
    own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, _STREAM))
    for trace, density, each in zip(traces, densities, own.spawn(len(traces)), strict=True):
        if density is None or not trace.proposals or trace.log_density.size >= FEW:
            continue
        values, proposals, move = trace.log_density, trace.proposals, trace.stats["move"]
        replicate = Replicate(trace.positions, values, proposals["x"], proposals["lp"], move, density)
        found = ReplicateEstimate(replicate, _unchanged, each, _SURROGATE_DRAWS, np.inf)
        if found.contradicted:
            return found.doubts
    return ""


def _unchanged(x: np.ndarray) -> np.ndarray:
    return x
