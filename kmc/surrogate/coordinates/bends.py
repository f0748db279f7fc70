"""Coordinates in which a bent ridge is straight.

Where the data determine a nonlinear combination of parameters, the posterior lies along a curve. A
kernel knows a narrow curve only as far as there are values along it, and calls the density low
beyond, so that chains never go there. Sheared by a quadratic function of one direction, such a
posterior is close to a normal one, and goes on as it should. It is a transport map (Parno and
Marzouk 2018, "Transport map accelerated Markov chain Monte Carlo", SIAM/ASA Journal on Uncertainty
Quantification 6) that keeps volumes, and whose parameters are two vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import ClassVar

import numpy as np
from scipy import optimize

from kmc.surrogate.coordinates.transport import EVALUATIONS, LARGEST_DIM, Misfit, residuals


@dataclass(frozen=True, eq=False)
class Bend:
    """u = x - b t², with t = v·(x - origin) and v·b = 0, so that t is the same at x and at u."""

    origin: np.ndarray  # (d,)
    direction: np.ndarray  # (d,), v
    bending: np.ndarray  # (d,), b

    driver: ClassVar[None] = None

    @property
    def size(self) -> int:
        """Number of learned parameters."""
        return 2 * len(self.bending) - 2

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the coordinates u of the rows of x (n, d)."""
        return x - self._along(x)[:, None] ** 2 * self.bending

    def back(self, u: np.ndarray) -> np.ndarray:
        """Return the rows of x that have the coordinates u (n, d)."""
        return u + self._along(u)[:, None] ** 2 * self.bending

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return zeros (n,)."""
        return np.zeros(len(x))

    def bent(self, more: np.ndarray, turn: np.ndarray | float = 0.0) -> Bend:
        """Return it with ``more`` (d,) added to b, and ``turn`` (d,) to v."""
        bending, direction = self.bending + more, self.direction + turn
        along = direction * (direction @ bending) / (direction @ direction)
        return replace(self, direction=direction, bending=bending - along)

    def _along(self, x: np.ndarray) -> np.ndarray:
        return (x - self.origin) @ self.direction


def bend_of(states: np.ndarray, *, along_pairs: bool = True) -> Bend | None:
    """Return the bend that straightens states (k, d) most.

    It is along a parameter t, or along a sum or difference t of two. For each such t the other
    coordinates are regressed on t and on t². The best t is that whose square most decreases the
    generalized variance of the residuals (Wilks 1932, "Certain generalizations in the analysis of
    variance", Biometrika 24). There is none where all states agree in a parameter.

    Parameters
    ----------
    states : ndarray, shape (k, d)
    along_pairs : bool
        Try sums and differences of two parameters, in units of their standard deviations.
    """
    dim = states.shape[1]
    origin, unit = states.mean(axis=0), states.std(axis=0)
    if not np.all(unit > 0):
        return None
    white, axes = (states - origin) / unit, np.eye(dim)
    pairs = combinations(axes, 2) if along_pairs else ()
    sums = [(one + sign * other) / np.sqrt(2.0) for one, other in pairs for sign in (1.0, -1.0)]
    found = [_straightened(white, direction) for direction in (*axes, *sums)]
    _, direction, slopes = min(found, key=lambda one: one[0])
    return Bend(origin, direction / unit, np.zeros(dim)).bent(slopes * unit)


def bends(x: np.ndarray, log_density: np.ndarray, states: np.ndarray) -> list[Misfit]:
    """Return the bend of the states, or of the better half of x, that is closer to a quadratic.

    It is refined to bring the log-density closest to one.
    """
    best = x[np.argsort(-log_density, kind="stable")[: max(len(x) // 2, 2)]]
    found = [_refined(x, log_density, points) for points in (states, best)]
    return sorted(chain(*found), key=lambda m: m.sd)[:1]


def _refined(x, log_density, states):
    few = states.shape[1] <= LARGEST_DIM
    bend, unit = bend_of(states, along_pairs=few), states.std(axis=0)
    if bend is None:
        return []
    guess = Misfit.of(bend, x, log_density)
    if not few:
        return [guess]
    some = guess.some()

    def with_parameters(theta: np.ndarray) -> Bend:
        more, turn = np.split(theta, 2)
        return bend.bent(more * unit, turn / unit)

    solution = optimize.least_squares(
        lambda theta: residuals(with_parameters(theta), *some[:2], weights=some[2]),
        np.zeros(2 * len(unit)),
        max_nfev=EVALUATIONS,
    )
    refined = Misfit.of(with_parameters(solution.x), x, log_density)
    return [min(guess, refined, key=lambda m: m.sd)]


def _straightened(white: np.ndarray, direction: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Return Wilks' log lambda of t² after t, the direction, and the slopes on t² (d,)."""
    t = white @ direction
    design = np.column_stack([np.ones(len(t)), t, t**2])
    log_variances = []
    for columns in (2, 3):
        slopes = np.linalg.lstsq(design[:, :columns], white, rcond=None)[0]
        left = white - design[:, :columns] @ slopes
        # Nothing is left along the direction itself: it gets a variance of its own.
        covariance = left.T @ left + np.outer(direction, direction)
        log_variances.append(np.linalg.slogdet(covariance)[1])
    return log_variances[1] - log_variances[0], direction, slopes[2]
