"""How many evaluations a run that was warned of would have needed, about."""

from __future__ import annotations

import math
from typing import NamedTuple

from kmc.surrogates import values_needed

ENOUGH_TAIL_ESS = 400.0  # of the quantiles, in the worst coordinate
_LEAST, _MOST = 2.0, 10.0  # times the evaluations that were made: what a short run says of its own rate is rough


class Spent(NamedTuple):
    """What a run was and has cost."""

    evaluations: int = 0  # 0: not known
    warmup: int = 0  # of them
    dim: int = 1
    learns: bool = False  # whether its sampler fits a surrogate


UNKNOWN = Spent()


class Remedies(NamedTuple):
    """Parts of sentences: "allow about 12,000 evaluations", and in words where nothing is known."""

    more: str
    several: str
    draws: str  # that the quantiles need
    first_fit: str  # for a surrogate to be learned at all

    @classmethod
    def of(cls, spent: Spent, made: int, tail_ess: float) -> Remedies:
        """For a run of so many draws per chain.

        At the rate at which the tails have gained effective draws so far, it would take so many times as many to have
        enough; a run with other faults is given at least twice as many, and what the dimension asks for.
        """
        first = f"give it at least {_rounded(evaluations_needed(spent.dim)):,} evaluations"
        if not spent.evaluations:
            return cls("allow more evaluations", "allow several times as many", "make more draws", first)
        times = min(ENOUGH_TAIL_ESS / tail_ess, _MOST) if tail_ess > 0 else _LEAST
        least = evaluations_needed(spent.dim) if spent.learns else 0
        more, several = (
            f"allow about {_rounded(max(spent.evaluations * max(times, factor), least)):,} evaluations"
            for factor in (_LEAST, 2 * _LEAST)
        )
        in_all = spent.warmup + (spent.evaluations - spent.warmup) * max(times, 1.0)
        draws = (
            f"make about {_rounded(made * max(times, 1.0)):,} draws per chain (about {_rounded(in_all):,} evaluations "
            "in all)"
        )
        return cls(more, several, draws, first)


def draws_cost(spent: Spent, made: int, draws: int) -> str:
    """What is added to "raise max_evaluations" if so many draws are to be made; nothing if that is not known."""
    if not spent.evaluations:
        return ""
    return f" to about {_rounded(spent.warmup + (spent.evaluations - spent.warmup) * draws / made):,}"


def evaluations_needed(dim: int) -> int:
    """The least sensible budget for a surrogate of so many parameters: half of it is warm-up, and fits it twice."""
    return 4 * values_needed(dim)


def _rounded(number: float) -> int:
    """Up, to two digits.

    Examples
    --------
    >>> _rounded(11_201), _rounded(950.0), _rounded(7)
    (12000, 950, 7)
    """
    unit = 10 ** max(math.floor(math.log10(max(number, 1))) - 1, 0)
    return math.ceil(number / unit) * unit
