"""Synthetic sweeps in which every number encodes its draw, chain and component."""

import numpy as np

from kmc.run.trace import Trace
from kmc.samplers.base import MOVES, STATS, Step


def sweep(draw: int, chains: int, dim: int) -> Step:
    code = 100.0 * draw + 10.0 * np.arange(chains)
    stats = {name: (code % 7).astype(dtype) for name, dtype in STATS.items()}
    stats["move"] = ((draw + np.arange(chains)) % len(MOVES)).astype(np.int8)
    return Step(draw < 0, code[:, None] + np.arange(dim), -code, stats)


def trace(draws: int, chains: int = 3, dim: int = 2) -> Trace:
    result = Trace(chains, dim)
    for draw in range(draws):
        result.append(sweep(draw, chains, dim))
    return result
