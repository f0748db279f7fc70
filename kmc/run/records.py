"""The record of progress that displays and callbacks receive."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is.

    Attributes
    ----------
    phase : {"start", "warmup", "sampling", "done"}
        "start" once, before the first evaluation; "done" once, at the end.
    draw : int
        Draws kept so far, per chain (0 during warm-up).
    draws : int or None
        Draws per chain asked for; None when the budget of evaluations decides.
    n_evaluations : int
        True evaluations so far.
    max_evaluations : int or None
    ess : float
        Bulk effective sample size of the worst parameter when last looked at, over all chains. It is looked at after 10
        draws, then each time they have grown by half (more if there are many parameters), and at the end:
        ``benchmarks/run.py`` measures what that costs. NaN before there is one, and while a parameter has never moved.
    acceptance_rate : float
        Mean acceptance probability over the last 100 sweeps; NaN before there is one.
    n_divergences : int
        Divergent transitions since warm-up.
    n_refits : int
        Fits of the surrogate so far.
    elapsed : float
        Seconds since the start.
    remaining : float or None
        Seconds to the end at the pace of this phase, without the time that numba compiled; at most what ``max_time``
        leaves. None where nothing tells (a warm-up that no budget bounds).
    planned_evaluations : int or None
        What the run will have evaluated at the most, warm-up included, as far as it is known at the start: where no
        ``max_evaluations`` bounds it, about what the longest warm-up and the draws take.
    """

    phase: str
    draw: int
    draws: int | None
    n_evaluations: int
    max_evaluations: int | None
    ess: float
    acceptance_rate: float
    n_divergences: int
    n_refits: int
    elapsed: float
    remaining: float | None
    planned_evaluations: int | None = None

    @property
    def fraction(self) -> float | None:
        """How much of the phase's work is done, from 0 to 1; None in a warm-up that no budget bounds."""
        return fraction(self.phase, self.draw, self.draws, self.n_evaluations, self.max_evaluations)


def fraction(phase: str, draw: int, draws: int | None, n_evaluations: int, max_evaluations: int | None) -> float | None:
    """How much of a phase's work is done; parameters as in :class:`Progress`."""
    if phase == "done":
        return 1.0
    parts = []
    if max_evaluations:
        parts.append(n_evaluations / max_evaluations)
    if draws and phase == "sampling":
        parts.append(draw / draws)
    return min(max(parts), 1.0) if parts else None
