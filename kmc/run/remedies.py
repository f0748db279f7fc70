"""Estimate how many evaluations a run with warnings would have needed."""

from __future__ import annotations

import math
from typing import NamedTuple

from kmc.surrogates import values_needed

ENOUGH_TAIL_ESS = 400.0  # of the quantiles, in the worst coordinate
_LEAST, _MOST = 2.0, 10.0  # limits for the factor on the evaluations: a short run's estimate of its own rate is rough


class Spent(NamedTuple):
    """Kind and cost of a run."""

    evaluations: int = 0  # 0: not known
    warmup: int = 0  # of them
    dim: int = 1
    learns: bool = False  # whether its sampler fits a surrogate


UNKNOWN = Spent()


class Remedies(NamedTuple):
    """Parts of sentences: "allow about 12,000 evaluations", or in general terms where the cost is not known."""

    more: str
    several: str
    draws: str  # that the quantiles need
    first_fit: str  # for a surrogate to be learned at all

    @classmethod
    def of(cls, spent: Spent, made: int, tail_ess: float) -> Remedies:
        """For a run of so many draws per chain.

        The rate at which the tails have gained effective draws so far gives the number of evaluations for enough of
        them; a run with other problems is given at least twice its evaluations, and what the dimension requires.
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
    """Text after "raise max_evaluations" with the cost of so many draws; empty if it is not known."""
    if not spent.evaluations:
        return ""
    return f" to about {_rounded(spent.warmup + (spent.evaluations - spent.warmup) * draws / made):,}"


def evaluations_needed(dim: int) -> int:
    """The smallest sensible budget for a surrogate of so many parameters: half is warm-up, enough for two fits."""
    return 4 * values_needed(dim)


def _rounded(number: float) -> int:
    """Round up to two digits.

    Examples
    --------
    >>> _rounded(11_201), _rounded(950.0), _rounded(7)
    (12000, 950, 7)
    """
    unit = 10 ** max(math.floor(math.log10(max(number, 1))) - 1, 0)
    return math.ceil(number / unit) * unit
