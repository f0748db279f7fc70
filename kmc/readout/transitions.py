"""Transitions of a state and what was proposed from it: the identities that expectations and the evidence rest on.

Runs on the surrogate s are reversible for s: with x from p, y from the run and h = p/s, the pair (x, y) has the density
h(x) S(x, y), and S is symmetric with the marginals s. For any functions f and g therefore, exactly, whatever s is,

    E[a (g(x) + g(y)) / 2] = E_s g · E[a]       with a = 2 / (h(x) + h(y)),
    E[(h(x) f(x) + h(y) f(y)) / (h(x) + h(y))] = E_p f,
    E[a] = Z_s / Z_p.

This is the estimator of mixture weights ("bridge sampling", Meng and Wong 1996, Statistica Sinica 6; MBAR, Shirts and
Chodera 2008, Journal of Chemical Physics 129) for the mixture of a state and its proposal. Weights are bounded where
either of the two is a fair draw of p: neither a region that s has missed nor one that s has invented ruins them. It
holds for noisy values as well, as an estimate is kept with its state and made anew for each proposal: then h is the
ratio of the estimate and s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kmc.readout.bennett import bennett

_DEEP = 700.0  # nats: as good as zero


@dataclass(frozen=True)
class Transitions:
    """Arrays (chains, n) of pairs in the order of sweeps; those that are no runs on the surrogate count for nothing.

    Attributes
    ----------
    start, end : ndarray
        log h at x and at y, up to one constant.
    run : ndarray of bool
        Whether y was proposed by a run on s.
    shift : float
        The constant that was taken off log h.
    """

    start: np.ndarray
    end: np.ndarray
    run: np.ndarray
    shift: float

    @classmethod
    def of(cls, start: np.ndarray, end: np.ndarray, run: np.ndarray) -> Transitions:
        """From log p - log s at both ends, with the median at states taken off."""
        shift = float(np.median(start[run])) if np.any(run) else 0.0
        return cls(start - shift, end - shift, run, shift)

    @property
    def share(self) -> float:
        """Of the sweeps that are runs on s."""
        return float(self.run.mean())

    def ratio(self) -> np.ndarray:
        """A series (chains, n) with the mean Z_s / Z_p, but for the shift."""
        return np.where(self.run, self._inverse(), 0.0) / self.share

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
        """Those of some of the sweeps."""
        return Transitions(self.start[:, sweeps], self.end[:, sweeps], self.run[:, sweeps], self.shift)

    def mass_gap(self) -> float:
        """log Z_s / Z_p by the pairs, less what Bennett's estimator makes of states and proposals, each by itself."""
        start, end = self.start[self.run], np.maximum(self.end[self.run], -_DEEP)
        return float(np.log(self._inverse()[self.run].mean()) - bennett(-end, -start))

    def _inverse(self):
        return 2.0 * np.exp(-np.logaddexp(self.start, self.end))

    def _on_runs(self, values):
        return np.where(self.run[..., None], values, 0.0) / self.share
