"""The record of progress that displays and callbacks receive."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is.

    Attributes
    ----------
    phase : {"start", "warmup", "sampling", "done"}
    draw : int
        Draws kept so far, per chain (0 during warm-up).
    draws : int or None
        Draws per chain asked for; None when the budget of evaluations decides.
    n_evaluations : int
        True evaluations so far.
    max_evaluations : int or None
    acceptance_rate : float
        Mean acceptance probability over the last 100 sweeps.
    n_divergences : int
        Divergent transitions since warm-up.
    n_refits : int
        Fits of the surrogate so far.
    elapsed : float
        Seconds since the start.
    """

    phase: str
    draw: int
    draws: int | None
    n_evaluations: int
    max_evaluations: int | None
    acceptance_rate: float
    n_divergences: int
    n_refits: int
    elapsed: float
