"""Chains that share a frozen surrogate: pairs of state and proposal for expectations and evidence.

Inner chains on the surrogate s are reversible for s: with x from p, y from the inner chain and h =
p/s, the pair (x, y) has the density h(x) S(x, y), where S is symmetric with marginals s. So for any
functions f and g, exactly, for any s,

    E[a (g(x) + g(y)) / 2] = E_s g · E[a]       with a = 2 / (h(x) + h(y)),
    E[(h(x) f(x) + h(y) f(y)) / (h(x) + h(y))] = E_p f,
    E[a] = Z_s / Z_p.

They need that some pair begins wherever s has mass. Where p is zero none does: a pair with h = 0 at
both ends is never seen, and the sums above lack its part of S. So they are used on a region A, with
1 its indicator,

    E[a (1(x) g(x) + 1(y) g(y)) / 2] = (∫_A s g - U(g)) / Z_p,     U(g) = ∫∫ S(x, y) 1(x) g(x) over
    dead x and y,

where A has hardly any dead points, so that U is small: means under s become those of s restricted
to A, and E[a] its mass there. Of the dead mass of A the pairs show the part that begins at a living
x,

    V(g) = ∫∫ S(x, y) 1(y) g(y) over living x and dead y = Z_p E[a 1(y) g(y) / 2, y dead],

so that U is V times the odds that a chain from there ends at a dead point; see
:meth:`Transitions.unseen`.

This is the estimator of mixture weights ("bridge sampling", Meng and Wong 1996, Statistica Sinica
6; MBAR, Shirts and Chodera 2008, Journal of Chemical Physics 129) for the mixture of a state and
its proposal. Weights are bounded if either of the two is a typical draw from p: neither a region
that s misses nor one that only s has ruins them. The identities hold for noisy values as well, as
an estimate is kept with its state and drawn anew for each proposal: then h is the ratio of the
estimate and s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import optimize, stats
from scipy.special import logsumexp

from kmc.control_variates.domain import Domain
from kmc.convergence import ENOUGH_DRAWS, worst_bulk_ess
from kmc.samplers.base import MOVES
from kmc.surrogate.density import Density

_RUN = MOVES.index("surrogate")
_CHANCE = 0.001  # that noise of the same size everywhere counts as growing
_DEEP = 700.0  # nats: practically zero
_DEAD = 30.0  # nats that p/s is below its median at the states: no state is ever there


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
        start, end = (
            value - self._log_surrogate(x)
            for value, x in zip(values, (self.starts, self.ends), strict=True)
        )
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
        alive = np.concatenate(
            [self.draws.reshape(-1, self.draws.shape[2]), self.ends[~pairs.dead]]
        )
        return Domain(self.density, alive, self.ends[pairs.dead])

    def transitions_in(self, domain: Domain | None) -> Transitions:
        """Return the transitions with a domain as their region; without one, it is everything."""
        pairs = self.transitions()
        if domain is None:
            return pairs
        return pairs.within(
            *(domain.contains_points(x, by_others=True) for x in (self.starts, self.ends))
        )

    def at_edge(self) -> float:
        """Return the share, of all moves, of dead proposals next to the draws.

        They count where s is as large as at some draw. There the surrogate has mass that no pair of
        its own need have shown.

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

    @cached_property
    def _effective(self) -> float:
        n = self.log_density.size
        return min(n, np.nan_to_num(worst_bulk_ess(self.draws), nan=n))

    @property
    def is_few(self) -> bool:
        """Return whether the draws count as too few for their errors to be stated well."""
        return self._effective < ENOUGH_DRAWS

    @property
    def cautions(self) -> list[str]:
        """Sentences, without periods, about errors larger than stated, whatever is estimated."""
        said = [self.missed] if self.missed else []
        if self.is_few:
            said.append(
                f"The draws count as {self._effective:.0f} independent ones in the worst "
                f"parameter: the stated errors are rough with fewer than {ENOUGH_DRAWS}"
            )
        if self.noisy and (sds := self._noise_that_grows()):
            said.append(
                "The noise of the log-density grows towards the tails: around the surrogate the "
                f"values have a sd of {sds[0]:.1f} nats at the higher half of the proposals and of "
                f"{sds[1]:.1f} at the lowest quarter; true errors of sds, quantiles and the "
                "evidence may be larger than the stated ones; average more simulations in each "
                "estimate there"
            )
        return said

    def _noise_that_grows(self) -> tuple[float, float] | None:
        """Return the sds of log p/s at high and low s, if the second is larger (Levene's test)."""
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


@dataclass(frozen=True)
class Transitions:
    """Arrays (chains, n) of pairs in the order of sweeps; only pairs of inner chains on s are used.

    Attributes
    ----------
    start, end : ndarray
        log h at x and at y, up to one constant.
    run : ndarray of bool
        Whether y was proposed by an inner chain on s.
    shift : float
        The constant that was subtracted from log h.
    inside : tuple of two ndarrays of bool, optional
        Whether x and y are in the region A; by default, all are.
    """

    start: np.ndarray
    end: np.ndarray
    run: np.ndarray
    shift: float
    inside: tuple[np.ndarray, np.ndarray] | None = None

    @classmethod
    def of(cls, start: np.ndarray, end: np.ndarray, run: np.ndarray) -> Transitions:
        """Make pairs from log p - log s at both ends.

        Its median at the states where ``run`` is true is subtracted.
        """
        shift = float(np.median(start[run])) if np.any(run) else 0.0
        return cls(start - shift, end - shift, run, shift)

    @property
    def dead(self) -> np.ndarray:
        """Whether the density is zero at y, (chains, n)."""
        return self.end < -_DEAD

    def within(self, x: np.ndarray, y: np.ndarray) -> Transitions:
        """Return the same pairs with a region A, by whether x and y are in it, (chains, n)."""
        return replace(self, inside=(x, y))

    @property
    def share(self) -> float:
        """Fraction of the sweeps that are inner chains on s."""
        return float(self.run.mean())

    def ratio(self) -> tuple[float, np.ndarray]:
        """Return Z_s / Z_p, up to the shift, and a series (chains, n) with the error of the ratio.

        The series has mean zero. Z_s is the mass of s in the region, without that which
        :meth:`unseen` is about. The number of pairs is random as well, but a mean over them does
        not vary with it.
        """
        weight = sum(self._weights())
        mean = float(weight[self.run].mean())
        return mean, np.where(self.run, weight - mean, 0.0) / self.share

    def unseen(self, y: np.ndarray) -> np.ndarray:
        """Return V(g) over the mass of s in the region, from g at y (chains, n, k): (k,).

        Dead points of A are near its border, from where chains end on either side: the odds that
        they end at a dead point are about 0 to 1. So U(g) is half of it, give or take another half.
        """
        first, second = self._weights()
        lost = np.where(self.run & self.dead, second, 0.0)
        return np.einsum("ij,ijk->k", lost, y) / (first + second)[self.run].sum()

    @property
    def unseen_share(self) -> float:
        """V(1) over the mass of s in the region; 0 if no proposal is dead."""
        return float(self.unseen(np.ones((*self.end.shape, 1)))[0])

    def of_target(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return a series with the mean E_p f, from f at both ends (chains, n, k)."""
        # of x; the rest is that of y
        weight = np.exp(self.start - np.logaddexp(self.start, self.end))[..., None]
        return self._on_runs(weight * x + (1.0 - weight) * y)

    def of_surrogate(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return a series with the mean E_s g in the region, from g at both ends (chains, n, k)."""
        first, second = self._weights()
        scale = (first + second)[self.run].mean()
        return self._on_runs((first[..., None] * x + second[..., None] * y) / scale)

    def only(self, sweeps: np.ndarray) -> Transitions:
        """Return the pairs of some of the sweeps."""
        inside = (
            None if self.inside is None else (self.inside[0][:, sweeps], self.inside[1][:, sweeps])
        )
        return Transitions(
            self.start[:, sweeps], self.end[:, sweeps], self.run[:, sweeps], self.shift, inside
        )

    def mass_gap(self) -> float:
        """Return log Z_s / Z_p by pairs, minus Bennett's estimate by separate states and proposals.

        In a region, Bennett's is of the masses that both have there; NaN if no state or no proposal
        is in it.
        """
        start, end = self.start[self.run], np.maximum(self.end[self.run], -_DEEP)
        share = 1.0
        if self.inside is not None:
            x, y = (side[self.run] for side in self.inside)
            start, end, share = start[x], end[y], x.mean()
        if not (start.size and end.size):
            return np.nan
        return float(np.log(self.ratio()[0] / share) - bennett(-end, -start))

    def _weights(self):
        """Return a / 2 for x and for y, zero outside the region."""
        half = np.exp(-np.logaddexp(self.start, self.end))
        if self.inside is None:
            return half, half
        return tuple(np.where(side, half, 0.0) for side in self.inside)

    def _on_runs(self, values):
        return np.where(self.run[..., None], values, 0.0) / self.share


def bennett(first: np.ndarray, second: np.ndarray) -> float:
    """Return log Z_1 / Z_2 from log f_1 - log f_2 at draws of 1 (n,) and of 2 (m,).

    Bennett (1976), "Efficient estimation of free energy differences from Monte Carlo data", Journal
    of Computational Physics 22: the mean probability of density 1 in the mixture, over all draws,
    equals its fraction of the draws.
    """
    offset = np.log(len(first) / len(second))

    def imbalance(c):
        return logsumexp(-np.logaddexp(0.0, first - c + offset)) - logsumexp(
            -np.logaddexp(0.0, c - offset - second)
        )

    low = min(first.min(), second.min()) - abs(offset) - 1.0
    high = max(first.max(), second.max()) + abs(offset) + 1.0
    return float(optimize.brentq(imbalance, low, high, xtol=1e-10))
