"""Plan a run by its budget and the precision asked for, and tell what it would have needed."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np

from kmc.convergence import squared_error
from kmc.model.model import Model
from kmc.run.arguments import RunRequest
from kmc.run.trace import Trace
from kmc.samplers.ask_tell import Startable, traits_of
from kmc.surrogate.covariance import terms_of

WARMUP_SHARE = 1 / 2  # of the time, as of the evaluations, after which warm-up is told to end
ENOUGH_TAIL_ESS = 400.0  # of the quantiles, in the worst coordinate
_FEWEST = 50  # evaluations, in no dimension (set by hand)
# limits for the factor on the evaluations: a short run's estimate of its own rate is rough
_LEAST, _MOST = 2.0, 10.0

_FIRST = 25  # draws per chain
# of the number of draws between two looks: many looks would find an error that is small by chance
_GROWTH = 1.1


def planned_evaluations(request: RunRequest) -> int | None:
    """Return how many evaluations the whole run takes; None if this is not known.

    It is their largest number, or approximately so if no budget bounds them.
    """
    sampler = request.sampler
    if (
        request.max_evaluations is not None
        or request.draws is None
        or not isinstance(sampler, Startable)
    ):
        return request.max_evaluations
    chains = request.chains // request.independent_runs
    starts = request.chains if request.initial is None else len(request.initial)
    warmup = sampler._longest_warmup(request.model.dim, chains, request.draws, request.warmup)
    return int(starts + request.independent_runs * warmup + request.draws * request.chains)


def short_budget(request: RunRequest) -> str | None:
    """Return a warning if ``max_evaluations`` is too small for a surrogate of so many parameters.

    Otherwise, return None; also for a sampler that takes no history, if a history is given, which
    supplies the values, or if the user has set the length of warm-up.
    """
    if request.max_evaluations is None or not traits_of(request.sampler).history:
        return None
    dim, share = request.model.dim, request.max_evaluations // request.independent_runs
    if (
        request.warmup is not None
        or request.history is not None
        or share >= evaluations_needed(dim)
    ):
        return None
    each = (
        ""
        if request.independent_runs == 1
        else f", divided among {request.independent_runs} independent runs,"
    )
    return (
        f"max_evaluations={request.max_evaluations}{each} is few for {dim} parameters: most "
        "posteriors are learned from more values. Give it at least "
        f"{request.independent_runs * evaluations_needed(dim):,}."
    )


class TimeLimit:
    """Seconds from the first evaluation of this call; a resumed run gets all of them again.

    Parameters
    ----------
    seconds : float or None
        None: no limit.
    """

    def __init__(self, seconds: float | None):
        self.seconds = seconds
        self._began: float | None = None

    def start(self) -> None:
        """Start the clock."""
        self._began = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds that are left; inf without a limit."""
        if self.seconds is None or self._began is None:
            return math.inf
        return max(0.0, self.seconds - (time.monotonic() - self._began))

    @property
    def over(self) -> bool:
        """Whether the run has to stop."""
        return self.left <= 0.0

    @property
    def warmup_over(self) -> bool:
        """Whether warm-up has to end."""
        return self.seconds is not None and self.left <= (1.0 - WARMUP_SHARE) * self.seconds


class Spent(NamedTuple):
    """Kind and cost of a run."""

    evaluations: int = 0  # 0: not known
    warmup: int = 0  # of them
    dim: int = 1
    learns: bool = False  # whether its sampler fits a surrogate


class Remedies(NamedTuple):
    """Parts of sentences: "allow about 12,000 evaluations", or general if the cost is not known."""

    more: str
    several: str
    draws: str  # that the quantiles need
    enough: int  # of them, per chain

    @classmethod
    def of(cls, spent: Spent, made: int, tail_ess: float) -> Remedies:
        """Make the advice for a run of so many draws per chain.

        The rate at which the tails have gained effective draws so far gives the number of
        evaluations for enough of them; a run with other problems is given at least twice its
        evaluations, and what the dimension requires.
        """
        if not spent.evaluations:
            more, several = "allow more evaluations", "allow several times as many"
            return cls(more, several, f"make more draws, as with {extension(made)}", 2 * made)
        times = min(ENOUGH_TAIL_ESS / tail_ess, _MOST) if tail_ess > 0 else _LEAST
        least = evaluations_needed(spent.dim) if spent.learns else 0
        more, several = (
            f"allow about {_rounded(max(spent.evaluations * max(times, factor), least)):,} "
            f"evaluations"
            for factor in (_LEAST, 2 * _LEAST)
        )
        in_all = spent.warmup + (spent.evaluations - spent.warmup) * max(times, 1.0)
        enough = _rounded(made * max(times, 1.0))
        draws = (
            f"make about {enough:,} draws per chain (about {_rounded(in_all):,} evaluations in "
            f"all), as with {extension(max(enough - made, 1))}"
        )
        return cls(more, several, draws, enough)


def extension(draws: int) -> str:
    """Return the call that makes so many further draws.

    Examples
    --------
    >>> extension(300)
    'kmc.extend(idata, draws=300, target=...)'
    """
    return f"kmc.extend(idata, draws={draws}, target=...)"


def draws_cost(spent: Spent, made: int, draws: int) -> str:
    """Return text after "raise max_evaluations" with the cost of the draws; empty if unknown."""
    if not spent.evaluations:
        return ""
    return (
        f" to about {_rounded(spent.warmup + (spent.evaluations - spent.warmup) * draws // made):,}"
    )


def evaluations_needed(dim: int) -> int:
    """Return the smallest sensible budget: ``_FEWEST`` and three per coefficient of a quadratic."""
    return _FEWEST + 3 * terms_of(dim)


def _rounded(number: float) -> int:
    """Round up to two digits.

    Examples
    --------
    >>> _rounded(11_201), _rounded(950.0), _rounded(7)
    (12000, 950, 7)
    """
    unit = 10 ** max(math.floor(math.log10(max(number, 1))) - 1, 0)
    return math.ceil(number / unit) * unit


UNKNOWN = Spent()


def is_look(draws: int) -> bool:
    """Return whether errors are looked at after so many draws per chain.

    The numbers are the same for a run that is resumed.

    Examples
    --------
    >>> [n for n in range(40) if is_look(n)]
    [25, 28, 31, 34, 37]
    """
    if draws < _FIRST:
        return False
    k = math.floor(math.log(draws / _FIRST) / math.log(_GROWTH) + 1e-9)
    return draws == math.ceil(_FIRST * _GROWTH**k - 1e-9)


def error_of(model: Model, trace: Trace) -> float:
    """Return the largest error of a parameter's mean or standard deviation.

    It is in units of the standard deviation.
    """
    chains, n, dim = trace.positions.shape
    parameters = model.constrain(trace.positions.reshape(-1, dim)).values()
    return largest_error(
        np.concatenate([np.reshape(values, (chains, n, -1)) for values in parameters], axis=2)
    )


def largest_error(values: np.ndarray) -> float:
    """Return the largest standard error of a mean or a standard deviation, in standard deviations.

    Parameters
    ----------
    values : ndarray, shape (chains, n, k)
        Columns that have one value are ignored; inf if all have.

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(1).standard_normal((4, 2500, 3))
    >>> 0.008 < largest_error(draws) < 0.014
    True
    """
    variances = values.var(axis=(0, 1))
    values, variances = values[..., variances > 0.0], variances[variances > 0.0]
    if not len(variances):
        return math.inf
    squares = (values - values.mean(axis=(0, 1))) ** 2
    of_means = np.sqrt(squared_error(values) / variances)
    of_sds = 0.5 * np.sqrt(squared_error(squares)) / variances
    return float(np.maximum(of_means, of_sds).max())
