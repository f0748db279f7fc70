"""Pairs of a state and its proposal: the identities behind expectations and evidence.

Inner chains on the surrogate s are reversible for s: with x from p, y from the inner chain and h = p/s, the pair (x, y)
has the density h(x) S(x, y), where S is symmetric with marginals s. So for any functions f and g, exactly, for any s,

    E[a (g(x) + g(y)) / 2] = E_s g · E[a]       with a = 2 / (h(x) + h(y)),
    E[(h(x) f(x) + h(y) f(y)) / (h(x) + h(y))] = E_p f,
    E[a] = Z_s / Z_p.

This is the estimator of mixture weights ("bridge sampling", Meng and Wong 1996, Statistica Sinica 6; MBAR, Shirts and
Chodera 2008, Journal of Chemical Physics 129) for the mixture of a state and its proposal. Weights are bounded if
either of the two is a typical draw from p: neither a region that s misses nor one that only s has ruins them. The
identities hold for noisy values as well, as an estimate is kept with its state and drawn anew for each proposal: then h
is the ratio of the estimate and s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize
from scipy.special import logsumexp

_DEEP = 700.0  # nats: practically zero


@dataclass(frozen=True)
class Transitions:
    """Arrays (chains, n) of pairs in the order of sweeps; pairs that are not from inner chains on s are not used.

    Attributes
    ----------
    start, end : ndarray
        log h at x and at y, up to one constant.
    run : ndarray of bool
        Whether y was proposed by an inner chain on s.
    shift : float
        The constant that was subtracted from log h.
    """

    start: np.ndarray
    end: np.ndarray
    run: np.ndarray
    shift: float

    @classmethod
    def of(cls, start: np.ndarray, end: np.ndarray, run: np.ndarray) -> Transitions:
        """From log p - log s at both ends, minus the median at the states."""
        shift = float(np.median(start[run])) if np.any(run) else 0.0
        return cls(start - shift, end - shift, run, shift)

    @property
    def share(self) -> float:
        """Fraction of the sweeps that are inner chains on s."""
        return float(self.run.mean())

    def ratio(self) -> tuple[float, np.ndarray]:
        """Z_s / Z_p, up to the shift, and a series (chains, n) with mean zero whose error is that of the ratio.

        The number of pairs is random as well, but a mean over them does not vary with it.
        """
        inverse = self._inverse()
        mean = float(inverse[self.run].mean())
        return mean, np.where(self.run, inverse - mean, 0.0) / self.share

    def of_target(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """A series with the mean E_p f, from f at both ends (chains, n, k)."""
        weight = np.exp(self.start - np.logaddexp(self.start, self.end))[..., None]  # of x; the rest is that of y
        return self._on_runs(weight * x + (1.0 - weight) * y)

    def of_surrogate(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """A series with the mean E_s g, from g at both ends (chains, n, k)."""
        inverse = self._inverse()
        scale = inverse[self.run].mean()
        return self._on_runs((inverse / scale)[..., None] * 0.5 * (x + y))

    def only(self, sweeps: np.ndarray) -> Transitions:
        """The pairs of some of the sweeps."""
        return Transitions(self.start[:, sweeps], self.end[:, sweeps], self.run[:, sweeps], self.shift)

    def mass_gap(self) -> float:
        """log Z_s / Z_p by the pairs, minus Bennett's estimate from states and proposals separately."""
        start, end = self.start[self.run], np.maximum(self.end[self.run], -_DEEP)
        return float(np.log(self._inverse()[self.run].mean()) - bennett(-end, -start))

    def _inverse(self):
        return 2.0 * np.exp(-np.logaddexp(self.start, self.end))

    def _on_runs(self, values):
        return np.where(self.run[..., None], values, 0.0) / self.share


def bennett(first: np.ndarray, second: np.ndarray) -> float:
    """log Z_1 / Z_2 from log f_1 - log f_2 at draws of 1 (n,) and of 2 (m,).

    Bennett (1976), "Efficient estimation of free energy differences from Monte Carlo data", Journal of Computational
    Physics 22: the mean probability of density 1 in the mixture, over all draws, equals its fraction of the draws.
    """
    offset = np.log(len(first) / len(second))

    def imbalance(c):
        return logsumexp(-np.logaddexp(0.0, first - c + offset)) - logsumexp(-np.logaddexp(0.0, c - offset - second))

    low = min(first.min(), second.min()) - abs(offset) - 1.0
    high = max(first.max(), second.max()) + abs(offset) + 1.0
    return float(optimize.brentq(imbalance, low, high, xtol=1e-10))
