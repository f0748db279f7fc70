"""When kernel HMC's warm-up refits and when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kmc.mcmc.base import SamplerSetup
from kmc.surrogates.noise import attainable_acceptance

# A good round, and the end of warm-up. "Tried" is docs/what-was-tried.md; the others were set by hand.
_SURPRISE = 2.0  # nats between the target and the surrogate
_GOOD_COLD = 0.6  # smallest acceptance of inner chains at temperature one
_GOOD_HOT = 0.45  # and of those at other temperatures
_MANY_LOW = 0.025  # fraction of proposals at which the surrogate was too low
_MANY_SURPRISES = 0.1  # fraction of the probes
_GOOD_ROUNDS = 2  # successive good rounds end warm-up
_PASSABLE = 0.4  # acceptance that suffices at a third of the budget
_SETTLED = 2  # times the evaluations at the surrogate's last change: earliest end (tried: twisted Gaussian)
_WITH_HISTORY = 5  # divides the least evaluations if a history is given
_BUDGET = 2  # planned evaluations per draw, if nothing limits them
_BUDGET_OF_FITS = 4  # at least so many times the values of a first fit
_BUDGET_OF_WARMUP = 3  # at least so many times the least evaluations of warm-up


@dataclass
class Round:
    """Statistics between two fits.

    A new point is a surprise if the truth and the surrogate differ by more than two nats and one of them is shallow
    enough to matter; ``low`` counts proposals at which the surrogate was more than two nats too low. Both allow for
    noise in the values, and so does the acceptance, which is relative to the acceptance that the noise allows.
    """

    cold: list[float] = field(default_factory=list)  # acceptance probabilities of inner chains at temperature one
    hot: list[float] = field(default_factory=list)
    archive: list[float] = field(default_factory=list)
    n_points: int = 0
    low: int = 0
    probes: int = 0
    surprises: int = 0
    noise_sd: float = 0.0

    @property
    def surprising(self) -> float:
        """The difference between truth and surrogate, in nats, that counts as a surprise."""
        return _SURPRISE * float(np.hypot(1.0, self.noise_sd))

    def note(self, errors: np.ndarray, matters: np.ndarray, n_proposed: int) -> int:
        """Count new points, proposals first and then probes; how many probes were surprises.

        ``errors`` (n,) are values minus the surrogate's predictions, ``matters`` (n,) selects the points that count.
        """
        surprises = int(np.sum((np.abs(errors) > self.surprising)[n_proposed:] & matters[n_proposed:]))
        self.n_points += n_proposed
        self.low += int(np.sum(errors[:n_proposed] > self.surprising))
        self.probes += len(errors) - n_proposed
        self.surprises += surprises
        return surprises

    def acceptance(self) -> float:
        """Mean over all inner chains; NaN before the first."""
        rates = self.cold + self.hot
        return self.served(rates) if rates else float("nan")

    def served(self, acceptance: list[float]) -> float:
        """Mean acceptance, relative to the acceptance that the noise allows."""
        return float(np.mean(acceptance)) / attainable_acceptance(self.noise_sd)

    def good(self) -> bool:
        """Whether the surrogate performed well enough to be frozen."""
        return bool(
            len(self.cold) > 0
            and self.served(self.cold) > _GOOD_COLD
            and (not self.hot or self.served(self.hot) > _GOOD_HOT)
            and self.low < _MANY_LOW * max(self.n_points, 1)
            and self.surprises <= _MANY_SURPRISES * self.probes
        )


def default_budget(*, first_fit: int, earliest: int, draws: int | None, chains: int) -> int:
    """The budget that warm-up assumes if nothing limits the evaluations: twice the cost of the draws.

    It is at least the budget whose half suffices for two fits in this dimension.
    """
    return max(_BUDGET_OF_WARMUP * earliest, _BUDGET * (draws or 0) * chains, _BUDGET_OF_FITS * first_fit)


@dataclass
class Schedule:
    """Evaluation counts at which warm-up refits, and the rule that ends it.

    Counts are of the run's own evaluations. With a given history it can fit at once and end sooner: after two good
    rounds, each with half the values that a fit needs, and a fifth of ``earliest``.

    Warm-up ends after two good rounds in succession and ``earliest`` evaluations; or at a third of the budget if
    acceptance exceeds .4; in both cases not before it has lasted twice as long as the surrogate took to settle, because
    the ends of a curved ridge are found after its middle. It ends at half of the budget in any case. A small budget has
    other fractions (:mod:`kmc.mcmc.small_budget`). A number of warm-up sweeps given by the user overrides all this.
    """

    next_fit: int
    refit_growth: float
    earliest: int
    third: int
    half: int
    sweeps: int | None
    least_round: int = 0
    budget: int = 0
    good_rounds: int = 0

    @classmethod
    def of(
        cls,
        setup: SamplerSetup,
        *,
        first_fit: int,
        refit_growth: float,
        earliest: int,
        post_freeze_burn_in: int,
        long: tuple[int, int] | None = None,
    ) -> Schedule:
        """The schedule of a setup; ``long``: when acceptance suffices, and the end, in place of a third and a half."""
        default = default_budget(first_fit=first_fit, earliest=earliest, draws=setup.draws, chains=setup.chains)
        budget = setup.max_evaluations or default
        sweeps = None if setup.warmup is None else max(setup.warmup - post_freeze_burn_in, 0)
        earliest = min(earliest, budget // 3)
        given = 0 if setup.history is None else len(setup.history[0])
        least_round = 0
        if given:  # the first fits have many values, and each has to prove itself on evaluations of this run
            first_fit, least_round = max(first_fit - given, 0), first_fit // 2
            earliest = max(earliest - given, earliest // _WITH_HISTORY)
        return cls(
            next_fit=first_fit,
            refit_growth=refit_growth,
            earliest=earliest,
            third=budget // 3 if long is None else long[0],
            half=budget // 2 if long is None else long[1],
            sweeps=sweeps,
            least_round=least_round,
            budget=budget,
        )

    def due(self, n_evaluations: int) -> bool:
        """Whether it is time for a fit."""
        return n_evaluations >= self.next_fit

    def finish(self, n_evaluations: int, last: Round, settled_at: int) -> bool:
        """Close a round: whether warm-up ends here; if not, the next fit is scheduled.

        ``settled_at`` is the number of evaluations at which a fit last changed the surrogate much.
        """
        self.good_rounds = self.good_rounds + 1 if last.good() else 0
        proven = n_evaluations >= self.earliest and self.good_rounds >= _GOOD_ROUNDS
        passable = n_evaluations >= self.third and last.acceptance() > _PASSABLE
        settled = n_evaluations >= _SETTLED * settled_at
        if self.sweeps is None and ((settled and (proven or passable)) or n_evaluations >= self.half):
            return True
        upcoming = [max(int(self.refit_growth * n_evaluations) + 1, n_evaluations + self.least_round)]
        upcoming += [limit for limit in (self.earliest, self.third, self.half) if limit > n_evaluations]
        self.next_fit = min(upcoming)
        return False

    def end(self) -> None:
        """End warm-up at the next check, whether a fit is due or not."""
        self.half, self.sweeps = 0, None if self.sweeps is None else 0

    def exhausted(self, sweep: int, n_evaluations: int) -> bool:
        """Whether warm-up must end now, whether a fit is due or not."""
        return n_evaluations >= self.half if self.sweeps is None else sweep >= self.sweeps


# Warm-up of many chains: more walkers than chains, so that a round has more evaluations than there are workers.
#
# A round lasts as long as its slowest evaluation. Workers that have ended theirs have others to do meanwhile, if a
# round
# has more evaluations than there are chains, and fewer rounds make the evaluations that the first fits need.

FEW_CHAINS = 16  # up to so many chains, each has one walker
# Tried: docs/what-was-tried.md, warm-up of many chains.
_WALKERS = 3  # for each further chain ...
_ROUNDS = 8  # ... if there are at least so many rounds before the earliest end of warm-up


def walkers_of(setup: SamplerSetup, *, least: int, earliest: int) -> int:
    """Walkers in warm-up: at least ``least``, and as many as chains.

    ``earliest`` is the number of evaluations before which warm-up does not end. If the user fixes the number of sweeps
    of warm-up, no chain has more than one walker.
    """
    walkers = max(setup.chains, least)
    if setup.warmup is not None or setup.chains <= FEW_CHAINS:
        return walkers
    return max(walkers, min(setup.chains + (_WALKERS - 1) * (setup.chains - FEW_CHAINS), earliest // _ROUNDS))
