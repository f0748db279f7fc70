"""The checked arguments of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kmc.mcmc.base import Sampler
from kmc.run.given import Given
from kmc.targets.model import Model


@dataclass(frozen=True)
class Request:
    """All arguments that determine the draws, after the checks; see :func:`kmc.sample` for their meaning.

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
        Existing evaluations.
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
