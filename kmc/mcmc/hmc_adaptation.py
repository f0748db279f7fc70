"""Step size and metric of HMC and NUTS, learned in warm-up and fixed afterwards.

The step size follows dual averaging (Hoffman and Gelman 2014, "The No-U-Turn sampler", Journal of Machine Learning
Research 15, section 3.2) on the mean acceptance statistic of all chains. The metric is diagonal: variances of the
states of all chains in windows of doubling length, as in Stan.
"""

from __future__ import annotations

import math

import numpy as np

_GAMMA, _T0, _KAPPA = 0.05, 10.0, 0.75  # of dual averaging, as in the paper
_FIRST_STEP = 0.5  # times d^(-1/4), in units of the start points' spread
_FIRST, _LAST = (75, 0.15), (50, 0.2)  # sweeps before the first and after the last window: at most, and of warm-up
_WINDOW = 25  # sweeps of the first window
_LEAST = 25  # sweeps of all windows
_PRIOR_WEIGHT = 5.0  # of small variances, in states


class DualAveraging:
    """log ε such that the acceptance statistic has the target as its mean.

    It is drawn to the first log ε; the paper has ten times as much, for a rough first value.

    Attributes
    ----------
    step_size : float
        In use while it adapts.
    average : float
        To be used afterwards.
    """

    def __init__(self, step_size: float, target: float):
        self.step_size = self.average = step_size
        self._target, self._center = target, math.log(step_size)
        self._sum, self._t = 0.0, 0

    def learn(self, acceptance: float) -> None:
        """Take the mean acceptance statistic of a sweep."""
        self._t += 1
        rate = 1.0 / (self._t + _T0)
        self._sum = (1.0 - rate) * self._sum + rate * (self._target - acceptance)
        log_step = self._center - math.sqrt(self._t) / _GAMMA * self._sum
        weight = self._t**-_KAPPA
        self.step_size = math.exp(log_step)
        self.average = math.exp(weight * log_step + (1.0 - weight) * math.log(self.average))


class Adaptation:
    """Step size and standard deviations.

    Parameters
    ----------
    spread : ndarray, shape (d,)
        Of the start points: the first standard deviations.
    target : float
        Of the acceptance statistic.
    warmup : int
        Sweeps.

    Attributes
    ----------
    sd : ndarray, shape (d,)
        The coordinates x / sd have the unit metric.
    """

    def __init__(self, spread: np.ndarray, target: float, warmup: int):
        self.sd = spread.copy()
        self._target = target
        self._averaging = DualAveraging(_FIRST_STEP * len(spread) ** -0.25, target)
        self._frozen = False
        self._begin = min(_FIRST[0], int(_FIRST[1] * warmup))
        self._stop = warmup - min(_LAST[0], int(_LAST[1] * warmup))
        if self._stop - self._begin < _LEAST:
            self._begin = self._stop
        self._window = _WINDOW
        self._end = self._end_of_window(self._begin)
        self._n, self._mean, self._squares = 0, np.zeros_like(spread), np.zeros_like(spread)

    @property
    def step_size(self) -> float:
        """ε, in the coordinates x / sd."""
        return self._averaging.average if self._frozen else self._averaging.step_size

    def learn(self, x: np.ndarray, acceptance: float, sweep: int) -> None:
        """Take the states (k, d) after a sweep, the first of which is 1, and its mean acceptance statistic."""
        self._averaging.learn(acceptance)
        if not self._begin < sweep <= self._stop:
            return
        for row in x:  # Welford's recursion
            self._n += 1
            deviation = row - self._mean
            self._mean = self._mean + deviation / self._n
            self._squares = self._squares + deviation * (row - self._mean)
        if sweep == self._end:
            self._renew(sweep)

    def freeze(self) -> None:
        """Use the averaged step size from now on."""
        self._frozen = True

    def _renew(self, sweep: int) -> None:
        variances = self._squares / max(self._n - 1, 1)
        share = self._n / (self._n + _PRIOR_WEIGHT)
        kept = np.where(variances > 0, share * variances + 1e-3 * (1.0 - share) * self.sd**2, self.sd**2)
        factor = float(np.exp(np.mean(np.log(self.sd) - 0.5 * np.log(kept))))  # as ε is relative to them
        self.sd = np.sqrt(kept)
        self._averaging = DualAveraging(min(self._averaging.average * factor, 1.0), self._target)
        self._window *= 2
        self._end = self._end_of_window(sweep)
        self._n, self._mean, self._squares = 0, np.zeros_like(kept), np.zeros_like(kept)

    def _end_of_window(self, begin: int) -> int:
        """The last window takes what is left for it."""
        end = begin + self._window
        return self._stop if end + 2 * self._window > self._stop else end
