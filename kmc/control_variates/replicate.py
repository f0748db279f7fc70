"""Chains that share a frozen surrogate: their states and proposals, with the values of both densities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from kmc.control_variates.domain import Domain
from kmc.control_variates.transitions import Transitions
from kmc.convergence import ENOUGH_DRAWS, worst_bulk_ess
from kmc.samplers.base import MOVES
from kmc.surrogate.density import Density

_RUN = MOVES.index("surrogate")
_CHANCE = 0.001  # that noise of the same size everywhere counts as growing


@dataclass(frozen=True)
class Replicate:
    """Chains that share a surrogate.

    Attributes
    ----------
    draws, proposals : ndarray, shape (chains, n, d)
        States after each sweep, and the proposals of the sweep.
    log_density, proposal_log_density : ndarray, shape (chains, n)
    move : ndarray, shape (chains, n)
    density : Density
    noisy : bool
        Whether the values are noisy.
    missed : str
        The run's warnings that its draws are not those of the posterior, without the last period.
    """

    draws: np.ndarray
    log_density: np.ndarray
    proposals: np.ndarray
    proposal_log_density: np.ndarray
    move: np.ndarray
    density: Density
    noisy: bool = False
    missed: str = ""

    @property
    def starts(self) -> np.ndarray:
        """The states from which all proposals but the first were made: (chains, n - 1, d)."""
        return self.draws[:, :-1]

    @property
    def ends(self) -> np.ndarray:
        """These proposals: (chains, n - 1, d)."""
        return self.proposals[:, 1:]

    def transitions(self) -> Transitions:
        """Return the states and proposals, with p/s at both."""
        values = self.log_density[:, :-1], self.proposal_log_density[:, 1:]
        start, end = (value - self._log_surrogate(x) for value, x in zip(values, (self.starts, self.ends), strict=True))
        return Transitions.of(start, end, self.move[:, 1:] == _RUN)

    def domain(self) -> Domain | None:
        """Return the region without dead mass of the surrogate; None if no proposal of it is dead.

        Raises
        ------
        UnknownMode
            A mode of the surrogate has too few draws.
        """
        pairs = self.transitions()
        if not np.any(pairs.dead & pairs.run):
            return None
        alive = np.concatenate([self.draws.reshape(-1, self.draws.shape[2]), self.ends[~pairs.dead]])
        return Domain(self.density, alive, self.ends[pairs.dead])

    def transitions_in(self, domain: Domain | None) -> Transitions:
        """Return the transitions with a domain as their region; without a domain, the region is everything."""
        pairs = self.transitions()
        if domain is None:
            return pairs
        return pairs.within(*(domain.contains_points(x, by_others=True) for x in (self.starts, self.ends)))

    def at_edge(self) -> float:
        """Return the share of the dead proposals, of all moves, next to the draws and where s is as large as at some.

        There the surrogate has mass that no pair of its own need have shown.

        Raises
        ------
        UnknownMode
            A mode of the surrogate has too few draws.
        """
        dead = self.ends[self.transitions().dead]
        dead = dead[self.density.log_density(dead) >= self._log_surrogate(self.draws).min()]
        if not len(dead):
            return 0.0
        draws = self.draws.reshape(-1, self.draws.shape[2])
        return float(Domain(self.density, draws, dead).beside(dead).sum() / self.ends[..., 0].size)

    @property
    def cautions(self) -> list[str]:
        """Sentences, without periods, about errors that are larger than the stated ones, whatever is estimated."""
        n = self.log_density.size
        effective = min(n, np.nan_to_num(worst_bulk_ess(self.draws), nan=n))
        said = [self.missed] if self.missed else []
        if effective < ENOUGH_DRAWS:
            said.append(
                f"The draws count as {effective:.0f} independent ones in the worst parameter: the stated errors are "
                f"rough with fewer than {ENOUGH_DRAWS}"
            )
        if self.noisy and (sds := self._noise_that_grows()):
            said.append(
                "The noise of the log-density grows towards the tails: around the surrogate the values have a sd of "
                f"{sds[0]:.1f} nats at the higher half of the proposals and of {sds[1]:.1f} at the lowest quarter; "
                "true errors of sds, quantiles and the evidence may be larger than the stated ones; average more "
                "simulations in each estimate there"
            )
        return said

    def _noise_that_grows(self) -> tuple[float, float] | None:
        """Return the sds of log p/s where s is high and where it is low, if the second is larger (Levene's test)."""
        pairs = self.transitions()
        used = pairs.run & ~pairs.dead
        off, depth = pairs.end[used], self.density.log_density(self.ends[used])
        if len(off) < ENOUGH_DRAWS:
            return None
        lowest, middle = np.quantile(depth, [0.25, 0.5])
        high, low = off[depth >= middle], off[depth <= lowest]
        grows = low.std() > high.std() and stats.levene(high, low).pvalue < _CHANCE
        return (float(high.std()), float(low.std())) if grows else None

    def _log_surrogate(self, x):
        return self.density.log_density(x.reshape(-1, x.shape[2])).reshape(x.shape[:2])
