"""Seeds: what users can give, and the streams of random numbers that come from one seed."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from kmc.checks import is_whole

Seed = int | np.integer | np.random.SeedSequence | np.random.Generator | None
"""Valid values of a parameter ``seed`` or ``random_state``."""


class Stream(IntEnum):
    """Random numbers for one purpose, which leave all others as they are.

    The members are keys that no seed of a run spawns.
    """

    PRIOR = 2**31  # draws from the prior in a result
    CONTRADICTION = 2**31 + 1  # whether few draws contradict the frozen surrogate
    READ_OUT = 2**31 + 2  # posterior expectations, evidence and weighted draws
    PREDICTIVE = 2**31 + 3  # data simulated at each draw
    UNVISITED = 2**31 + 4  # the search for evaluated places where no draw is
    BY_CHANCE = 2**31 + 5  # how far means of a surrogate's draws are off by chance


def substream(seed: np.random.SeedSequence, *key: int) -> np.random.SeedSequence:
    """Return the descendant of a seed with this key, whatever has been spawned from the seed."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *map(int, key)))


def as_seed(seed: Any) -> np.random.SeedSequence:
    """Return a fresh SeedSequence for a seed.

    It is always the same for an int or a SeedSequence. A Generator advances.
    """
    if seed is None:
        return np.random.SeedSequence()
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(seed.integers(2**32, size=4, dtype=np.uint32).tolist())
    if is_whole(seed) and seed >= 0:
        return np.random.SeedSequence(int(seed))
    raise TypeError(
        f"seed={seed!r}: expected None, an int >= 0, a numpy SeedSequence or a numpy Generator"
    )


def as_generator(random_state: Any) -> np.random.Generator:
    """Make a Generator from None, an integer or a SeedSequence; return a Generator unchanged."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"random_state={random_state!r}: expected None, a non-negative whole number, a "
            f"SeedSequence or a Generator"
        ) from error
