"""The progress record that displays and callbacks receive."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """State of a run.

    Attributes
    ----------
    phase : {"start", "warmup", "sampling", "done"}
        "start" once, before the first evaluation; "done" once, at the end.
    draw : int
        Draws kept so far, per chain (0 during warm-up).
    draws : int or None
        Draws per chain asked for; None if the budget of evaluations decides.
    n_evaluations : int
        True evaluations so far.
    max_evaluations : int or None
    ess : float
        Bulk effective sample size of the worst parameter over all chains, at its last computation: after 10 draws, then
        each time the draws have grown by half (by more if there are many parameters), and at the end.
        ``benchmarks/run.py`` measures the cost. NaN before the first one, and while a parameter has never moved.
    acceptance_rate : float
        Mean acceptance probability over the last 100 sweeps; NaN before the first sweep.
    n_divergences : int
        Divergent transitions since warm-up.
    n_refits : int
        Fits of the surrogate so far.
    elapsed : float
        Seconds since the start.
    remaining : float or None
        Seconds to the end at the pace of this phase, without the time of numba's compilation; limited by ``max_time``.
        None if unknown (a warm-up that no budget limits).
    planned_evaluations : int or None
        Evaluations of the whole run at most, warm-up included, as known at the start. Without ``max_evaluations``:
        approximately the cost of the longest warm-up and of the draws.
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
        """Completed fraction of the phase, from 0 to 1; None in a warm-up that no budget limits."""
        return fraction(self.phase, self.draw, self.draws, self.n_evaluations, self.max_evaluations)


def fraction(phase: str, draw: int, draws: int | None, n_evaluations: int, max_evaluations: int | None) -> float | None:
    """Completed fraction of a phase; parameters as in :class:`Progress`."""
    if phase == "done":
        return 1.0
    parts = []
    if max_evaluations:
        parts.append(n_evaluations / max_evaluations)
    if draws and phase == "sampling":
        parts.append(draw / draws)
    return min(max(parts), 1.0) if parts else None
