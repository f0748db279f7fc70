"""Budgets of a few hundred evaluations: an earlier first fit, and a shorter burn-in, as with many chains.

By default a first fit waits for so many values that the warm-up of a small budget would end without a surrogate. A
quadratic is determined by fewer.
"""

from __future__ import annotations

from kmc.mcmc.base import SamplerSetup
from kmc.mcmc.many_chains import FEW_CHAINS
from kmc.surrogates import values_needed

# Tried: docs/what-was-tried.md, small budgets.
_SMALL = 2.5  # times the values of a first fit
_FIRST_FIT = 6  # the first fit is at this fraction of a small budget, ...
_VALUES_PER_TERM = 2  # ... but not before there are so many values for each term of a quadratic: fewer did not help ...
_LATEST = 1 / 3  # ... and if that is before this fraction of the budget, as warm-up ends at half of it
_BURN_IN = 16  # fraction of the budget that burn-in may then take
_LEAST_SWEEPS = 5  # of burn-in with many chains, which make as many evaluations there as few do


def first_fit(dim: int, budget: int | None) -> int:
    """Evaluations before the first fit.

    Examples
    --------
    >>> from kmc.mcmc.small_budget import first_fit
    >>> first_fit(2, None), first_fit(2, 300), first_fit(2, 200), first_fit(5, 200), first_fit(8, 200)
    (120, 120, 33, 42, 180)
    """
    if budget is not None and budget < _SMALL * values_needed(dim):
        terms = (dim + 1) * (dim + 2) // 2
        early = max(budget // _FIRST_FIT, _VALUES_PER_TERM * terms)
        if early <= _LATEST * budget:
            return early
    return values_needed(dim)


def burn_in(sweeps: int, budget: int | None, setup: SamplerSetup) -> int:
    """Sweeps between warm-up and the first draw: at most those of a given warm-up, and few after an early first fit.

    ``sweeps`` is that of few chains; many chains make fewer sweeps and as many evaluations.
    """
    sweeps = min(sweeps, max(_LEAST_SWEEPS, -(-sweeps * FEW_CHAINS // setup.chains)))
    if setup.warmup is not None:
        return min(sweeps, setup.warmup)
    if budget is None or first_fit(setup.dim, budget) == values_needed(setup.dim):
        return sweeps
    return min(sweeps, budget // (_BURN_IN * setup.chains))
