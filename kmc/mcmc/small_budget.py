"""Budgets of a few hundred evaluations: a local search first, an earlier first fit, and a shorter burn-in.

By default a first fit waits for so many values that the warm-up of a small budget would end without a surrogate. A
quadratic is determined by fewer, if they are where the density is high: a search leads there from the best start point.
"""

from __future__ import annotations

import numpy as np

from kmc.mcmc.base import SamplerSetup
from kmc.mcmc.quadratic_search import StartSearch
from kmc.mcmc.schedule import FEW_CHAINS
from kmc.surrogates import values_needed
from kmc.surrogates.depth import bulk_depth
from kmc.surrogates.wide_trend import terms_of

# Tried: docs/what-was-tried.md, small budgets.
_SMALL = 2.5  # times the values of a first fit
_FIRST_FIT = 6  # the first fit is at this fraction of a small budget, ...
_VALUES_PER_TERM = 2  # ... but not before there are so many values for each term of a quadratic: fewer did not help ...
_LATEST = 1 / 3  # ... and if that is before this fraction of the budget, as warm-up ends at half of it
_BURN_IN = 16  # fraction of the budget that burn-in may then take
_LEAST_SWEEPS = 5  # of burn-in with many chains, which make as many evaluations there as few do
_SEARCHED = 4.0  # times the values of a first fit: budgets with a search ...
_MOST_SEARCHED = 1000  # ... are smaller than that, and than this
_SEARCHED_FROM = 4  # dimensions: in fewer the early fit is as good, and a search would see one mode alone
_FAR_BELOW = 2.0  # times the bulk's depth: with a median of start points so far below the best one, a search pays
_OF_SEARCH = 4  # fraction of the budget at which the search ends
_VALUES_PER_TERM_AFTER = 1.5  # for each term of a quadratic, if there was a search
_LONG = 1 / 2, 2 / 3  # of the budget: when acceptance suffices, and the end of warm-up, if the first fit is early ...
_LEFT = 60  # ... and it leaves so many evaluations, ...
_DRAWS = 100  # ... or so many draws where half of the budget would: kmc.evidence needs them


def start_search(setup: SamplerSetup) -> StartSearch | None:
    """A local search before warm-up; None if the budget is not small, or if something else is given to learn from.

    With many chains there is none, as its evaluations come one after the other, nor in few dimensions. It pays if the
    start points are of very different height, or if there would be no fit in the first half of the budget. Otherwise
    points around all of the start points show more of the density, such as a funnel.
    """
    plain = setup.warmup is None and setup.history is None and not setup.noisy and setup.chains <= FEW_CHAINS
    budget = setup.max_evaluations
    if not plain or budget is None or budget >= min(_SEARCHED * values_needed(setup.dim), _MOST_SEARCHED):
        return None
    if setup.dim < _SEARCHED_FROM or budget // _OF_SEARCH < 3 * setup.dim:  # the first 2 d of them are a cross
        return None
    depth = setup.initial_log_density.max() - float(np.median(setup.initial_log_density))
    if depth <= _FAR_BELOW * bulk_depth(setup.dim) and first_fit(setup.dim, budget) <= budget // 2:
        return None
    return StartSearch(setup.initial, setup.initial_log_density, budget // _OF_SEARCH)


def first_fit(dim: int, budget: int | None, *, searched: bool = False) -> int:
    """Evaluations before the first fit.

    Examples
    --------
    >>> from kmc.mcmc.small_budget import first_fit
    >>> first_fit(2, None), first_fit(2, 300), first_fit(2, 200), first_fit(5, 200), first_fit(8, 200)
    (120, 120, 33, 42, 180)
    >>> first_fit(8, 200, searched=True)
    67
    """
    if searched:
        return int(_VALUES_PER_TERM_AFTER * terms_of(dim))
    if budget is not None and budget < _SMALL * values_needed(dim):
        terms = (dim + 1) * (dim + 2) // 2
        early = max(budget // _FIRST_FIT, _VALUES_PER_TERM * terms)
        if early <= _LATEST * budget:
            return early
    return values_needed(dim)


def long_warmup(setup: SamplerSetup, *, searched: bool = False) -> tuple[int, int] | None:
    """If the first fit is early: the evaluations from which acceptance may end warm-up, and those that end it anyway.

    Few values are better spent on the surrogate than on draws, whose averages it corrects. None for other budgets, with
    many chains, with noise, and if something is given to learn from.
    """
    budget = setup.max_evaluations
    if budget is None:
        return None
    plain = setup.history is None and not setup.noisy and setup.chains <= FEW_CHAINS
    if not searched and not (plain and first_fit(setup.dim, budget) < values_needed(setup.dim)):
        return None
    passable, latest = (int(share * budget) for share in _LONG)
    settle = budget // _BURN_IN
    left = _DRAWS + settle if budget - budget // 2 >= _DRAWS + settle else _LEFT
    return passable, max(min(latest, budget - left), budget // 2)


def burn_in(sweeps: int, budget: int | None, setup: SamplerSetup, *, searched: bool = False) -> int:
    """Sweeps between warm-up and the first draw: at most those of a given warm-up, and few after an early first fit.

    ``sweeps`` is that of few chains; many chains make fewer sweeps and as many evaluations.
    """
    sweeps = min(sweeps, max(_LEAST_SWEEPS, -(-sweeps * FEW_CHAINS // setup.chains)))
    if setup.warmup is not None:
        return min(sweeps, setup.warmup)
    early = searched or first_fit(setup.dim, budget) < values_needed(setup.dim)
    if budget is None or not early:
        return sweeps
    return min(sweeps, budget // (_BURN_IN * setup.chains))
