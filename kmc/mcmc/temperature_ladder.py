"""The inverse temperatures of parallel tempering, given or tuned by the rates of swaps."""

from __future__ import annotations

import math

import numpy as np

from kmc.mcmc.tuning_rate import RobbinsMonro

SWAP_RATE = 0.234  # to which neighbors are tuned (Kone and Kofke 2005; Atchadé, Roberts and Rosenthal 2011)
_FIRST_GAP = 2.0  # T' / T - 1 at first, over sqrt(d); set by hand
_WIDEST = math.log(1e4)  # largest log of the factor on it: a swap rate may exceed the target for any gap


class TemperatureLadder:
    """Temperatures T_0 = 1 < T_1 < ..., as inverse temperatures β = 1 / T.

    A tuned ladder has T_{k+1} = T_k (1 + 2 f_k / sqrt(d)). The factor f_k follows a Robbins–Monro recursion on the rate
    of swaps between k and k + 1 (Miasojedow, Moulines and Vihola 2013, "An adaptive parallel tempering algorithm",
    Journal of Computational and Graphical Statistics 22), so that the top of the ladder is found as well.

    Parameters
    ----------
    temperatures : int or tuple of float
        Their number, or the temperatures.
    dim : int
        d.

    Attributes
    ----------
    tuned : bool
        Whether :meth:`learn` changes it.
    betas : ndarray, shape (n,)
        Decreasing, the first is 1.
    """

    def __init__(self, temperatures: int | tuple[float, ...], dim: int):
        self.tuned = not isinstance(temperatures, tuple)
        if isinstance(temperatures, tuple):
            self.betas = 1.0 / np.array(temperatures)
            return
        self._gap = _FIRST_GAP / math.sqrt(dim)
        self._factors = [RobbinsMonro(SWAP_RATE) for _ in range(temperatures - 1)]
        self.betas = self._new_betas()

    @property
    def temperatures(self) -> list[float]:
        """1 / β of each."""
        return [1.0 / beta if beta > 0 else math.inf for beta in self.betas.tolist()]

    def learn(self, rates: np.ndarray, sweep: int) -> None:
        """Take the acceptance probabilities (n - 1, chains) of a sweep's swaps; NaN for those not offered."""
        for factor, offered in zip(self._factors, rates, strict=True):
            if not np.isnan(offered[0]):
                factor.learn(float(offered.mean()), sweep)
                factor.log_value = min(factor.log_value, _WIDEST)
        self.betas = self._new_betas()

    def _new_betas(self) -> np.ndarray:
        return 1.0 / np.cumprod([1.0, *(1.0 + self._gap * factor.value for factor in self._factors)])
