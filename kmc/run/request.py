"""What a run was asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kmc.mcmc.base import Sampler
from kmc.run.given import Given
from kmc.targets.model import Model


@dataclass(frozen=True)
class Request:
    """All that decides which draws are made, after the checks; see :func:`kmc.sample` for what each means.

    Attributes
    ----------
    model : Model
    sampler : Sampler
        Options of an algorithm.
    chains, independent_runs : int
        The first is a multiple of the second.
    draws, max_evaluations : int or None
        Not both are None.
    warmup : int or None
    seed : SeedSequence
    initial : ndarray, shape (k, d), or None
        Unconstrained.
    history : Given or None
        Evaluations that were made elsewhere.
    """

    model: Model
    sampler: Sampler
    chains: int
    independent_runs: int
    draws: int | None
    warmup: int | None
    max_evaluations: int | None
    seed: np.random.SeedSequence
    initial: np.ndarray | None
    history: Given | None = None
