"""Local searches for high values of the true log-density, in step: a batch of points at a time.

A search climbs by BFGS with forward differences. It does not stop at the maximum but where a chain would be: within the
bulk of the mode, judged by the remaining gain that its quadratic model predicts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Set by hand.
_STEPS = np.array([2.0, 1.0, 0.5, 0.2, 0.05, 0.01])  # of a line search, in quasi-Newton steps
_LONGEST = 10.0  # largest step, in units of sqrt(d)
_RESOLUTION = 0.1  # step of the differences, in units of the local spread
_SPREADS = 1e-3, 10.0  # range of that spread, in units of the first one
_MOST_STEPS = 20
_IN_BULK = 1.0  # nats of expected gain, plus half the dimension, below which a search ends
_MOST_GAIN = 3.0  # nats, plus one per dimension: largest expected gain at its end that is trusted
_LEAST_GAIN = 0.1  # nats gained by a step; with less there is no increase along this line
_FLATTEST = 1e-2  # smallest curvature of the quadratic model
_SAME_DIRECTION = 1e-10  # cosine of step and change of gradient below which BFGS does not update


class Summit(NamedTuple):
    """The end of a search."""

    position: np.ndarray  # (d,)
    value: float
    spread: np.ndarray  # (d,) along each coordinate, from second differences
    gain: float  # nats to the maximum, by the quadratic model
    log_volume: float = 0.0  # of a unit cube of these coordinates, in the user's coordinates

    @property
    def top(self) -> float:
        """The log-density at the mode, by the quadratic model."""
        return self.value + self.gain

    @property
    def log_mass(self) -> float:
        """Log-mass of the Gaussian with this maximum and these spreads, relative to (2 pi)^(d/2)."""
        return self.top + float(np.log(self.spread).sum()) + self.log_volume


class Climb:
    """One search, in coordinates in which spreads of about one are expected.

    ``ask`` gives the points (k, d) to evaluate next, none once it has ended, and ``tell`` takes their values.
    """

    def __init__(self, start: np.ndarray, value: float):
        d = len(start)
        self.position, self.value = start.copy(), float(value)
        self.summit: Summit | None = None
        self._inverse = np.eye(d)  # inverse of minus the Hessian
        self._gradient = np.zeros(d)
        self._last: tuple[np.ndarray, np.ndarray] | None = None  # position and gradient before the last step
        self._forward = np.zeros(d)
        self._stage, self._n_steps = "gradient", 0
        self._direction = np.zeros(d)
        self._widths = np.full(d, _RESOLUTION)  # of the differences

    def ask(self) -> np.ndarray:
        """Points to evaluate next."""
        if self._stage == "gradient":
            return self.position + np.diag(self._widths)
        if self._stage == "line":
            return self.position + _STEPS[:, None] * self._direction
        if self._stage == "curvature":
            return self.position - np.diag(self._widths)
        return np.empty((0, len(self.position)))

    def tell(self, values: np.ndarray) -> None:
        """Continue with the values of the requested points."""
        {"gradient": self._slope, "line": self._step, "curvature": self._end}[self._stage](values)

    def _slope(self, values: np.ndarray) -> None:
        self._forward = np.where(np.isfinite(values), values, self.value)
        gradient = (self._forward - self.value) / self._widths
        if self._last is not None:
            self._update(self.position - self._last[0], self._last[1] - gradient)
        self._gradient = gradient
        self._direction = self._inverse @ gradient
        length = np.linalg.norm(self._direction)
        longest = _LONGEST * np.sqrt(len(gradient))
        if length > longest:
            self._direction *= longest / length
        close = self._gain() < 0.5 * len(gradient) + _IN_BULK and self._n_steps > 0
        self._stage = "curvature" if close or self._n_steps >= _MOST_STEPS else "line"

    def _gain(self) -> float:
        return 0.5 * float(self._gradient @ self._inverse @ self._gradient)

    def _step(self, values: np.ndarray) -> None:
        values = np.where(np.isnan(values), -np.inf, values)
        best = int(np.argmax(values))
        self._n_steps += 1
        if values[best] <= self.value + _LEAST_GAIN:  # no increase along this line
            self._stage = "curvature"
            return
        self._last = (self.position, self._gradient)
        if self._n_steps == 1:  # the first line search gives the scale
            self._inverse = (
                self._inverse
                * _STEPS[best]
                * np.linalg.norm(self._direction)
                / max(np.linalg.norm(self._inverse @ self._gradient), 1e-300)
            )
        self.position = self.position + _STEPS[best] * self._direction
        self.value = float(values[best])
        self._widths = _RESOLUTION * np.clip(np.sqrt(np.diag(self._inverse)), *_SPREADS)
        self._stage = "gradient"

    def _update(self, step: np.ndarray, change: np.ndarray) -> None:
        """BFGS on the inverse of minus the Hessian."""
        along = float(step @ change)
        if along <= _SAME_DIRECTION * np.linalg.norm(step) * np.linalg.norm(change):
            return
        if self._n_steps == 1:
            self._inverse = np.eye(len(step)) * along / float(change @ change)
        left = np.eye(len(step)) - np.outer(step, change) / along
        self._inverse = left @ self._inverse @ left.T + np.outer(step, step) / along

    def _end(self, values: np.ndarray) -> None:
        backward = np.where(np.isfinite(values), values, self.value)
        curvature = (2.0 * self.value - self._forward - backward) / self._widths**2
        model = np.sqrt(np.maximum(np.diag(self._inverse), 1e-300))
        known = curvature > _FLATTEST / np.maximum(model, 1e-150) ** 2
        spread = np.where(known, 1.0 / np.sqrt(np.maximum(curvature, 1e-300)), model)
        self.summit = Summit(self.position, self.value, spread, min(self._gain(), len(spread) + _MOST_GAIN))
        self._stage = "ended"
