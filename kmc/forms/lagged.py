"""Time-lagged moments of a basis along trajectories."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kmc.forms.scatter import centered, merged


@dataclass(frozen=True, eq=False)
class Lagged:
    r"""Moments over the pairs (x_t, x_{t+τ}) of trajectories, each pair with the weight of its first sample.

    Stored centered; the raw sums are properties. They can be added and subtracted.

    Attributes
    ----------
    weight : float
        Σ w over the pairs.
    first_sum, second_sum : ndarray, shape (p,)
        Σ w φ(x_t) and Σ w φ(x_{t+τ}).
    first_scatter, second_scatter : ndarray, shape (p, p)
        Σ w (φ - mean)(φ - mean)ᵀ of the first and of the second samples.
    cross_scatter : ndarray, shape (p, p)
        The same for first samples (rows) with second samples (columns).
    """

    weight: float
    first_sum: np.ndarray
    second_sum: np.ndarray
    first_scatter: np.ndarray
    second_scatter: np.ndarray
    cross_scatter: np.ndarray

    def __add__(self, other: Lagged) -> Lagged:
        return self._combine(other, 1.0)

    def __sub__(self, other: Lagged) -> Lagged:
        return self._combine(other, -1.0)

    @property
    def cross(self) -> np.ndarray:
        """Σ w φ(x_t) φ(x_{t+τ})ᵀ, shape (p, p)."""
        return self.cross_scatter + self._square(self.first_sum, self.second_sum)

    def covariances(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Covariances C00, C0τ and Cττ, each sample centered by the mean of its own side, as in VAMP."""
        weight = self._positive_weight()
        return self.first_scatter / weight, self.cross_scatter / weight, self.second_scatter / weight

    def reversible(self) -> tuple[np.ndarray, np.ndarray]:
        """Covariances C0 and Cτ of the pairs taken in both directions, centered by their common mean.

        Both are symmetric, and |Cτ| <= C0: the estimate of a reversible chain has eigenvalues in [-1, 1].
        """
        weight = self._positive_weight()
        half = 0.5 * (self.first_sum - self.second_sum) / weight
        apart = np.outer(half, half)  # difference of either side's mean from the common one
        mass = 0.5 * (self.first_scatter + self.second_scatter) / weight + apart
        lagged = 0.5 * (self.cross_scatter + self.cross_scatter.T) / weight - apart
        return mass, lagged

    def within(self, w: np.ndarray) -> Lagged:
        """Return the moments of combinations of the functions, the columns of w (p, k)."""
        scatters = (w.T @ s @ w for s in (self.first_scatter, self.second_scatter, self.cross_scatter))
        return Lagged(self.weight, self.first_sum @ w, self.second_sum @ w, *scatters)

    def about(self, mean: np.ndarray) -> Lagged:
        """Return the moments of the functions minus the constants ``mean`` (p,)."""
        return replace(
            self, first_sum=self.first_sum - self.weight * mean, second_sum=self.second_sum - self.weight * mean
        )

    def _square(self, a, b):
        return np.outer(a, b) / self.weight if self.weight > 0 else np.zeros((len(a), len(b)))

    def _positive_weight(self):
        if not self.weight > 0:
            raise ValueError(f"weight={self.weight}: there is no pair of samples, all trajectories are too short")
        return self.weight

    def _combine(self, other, sign):
        def scatters(of, a, b, both):
            return of.weight, getattr(of, a), getattr(of, b), getattr(of, both)

        names = {
            "first_scatter": ("first_sum", "first_sum"),
            "second_scatter": ("second_sum", "second_sum"),
            "cross_scatter": ("first_sum", "second_sum"),
        }
        return Lagged(
            weight=self.weight + sign * other.weight,
            first_sum=self.first_sum + sign * other.first_sum,
            second_sum=self.second_sum + sign * other.second_sum,
            **{
                both: merged(scatters(self, *sums, both), scatters(other, *sums, both), sign)
                for both, sums in names.items()
            },
        )


def lagged_sums(first: np.ndarray, second: np.ndarray, weights: np.ndarray | None) -> Lagged:
    """Moments of n pairs φ(x_t), φ(x_{t+τ}), the rows of ``first`` and ``second`` (n, p); n may be zero."""
    first_sum, first = centered(weights, first)
    second_sum, second = centered(weights, second)
    return Lagged(
        weight=float(len(first) if weights is None else weights.sum()),
        first_sum=first_sum,
        second_sum=second_sum,
        first_scatter=first.T @ first,
        second_scatter=second.T @ second,
        cross_scatter=first.T @ second,
    )


def consecutive_sums(rows: np.ndarray, lagtime: int) -> Lagged:
    """Moments of all pairs φ(x_t), φ(x_{t+τ}) of consecutive rows (n, p), more than τ of them.

    The second samples are the first ones without the head and with the tail of the rows, and so is their scatter.
    The rows are overwritten.
    """
    count = len(rows) - lagtime
    shift = rows.mean(axis=0)
    rows -= shift
    first, second, head, tail = rows[:count], rows[lagtime:], rows[:lagtime], rows[count:]
    first_square = first.T @ first
    if 2 * lagtime < count:
        second_square = first_square + tail.T @ tail - head.T @ head
    else:
        second_square = second.T @ second
    first_sum, second_sum = first.sum(axis=0), second.sum(axis=0)
    return Lagged(
        weight=float(count),
        first_sum=first_sum + count * shift,
        second_sum=second_sum + count * shift,
        first_scatter=first_square - np.outer(first_sum, first_sum / count),
        second_scatter=second_square - np.outer(second_sum, second_sum / count),
        cross_scatter=first.T @ second - np.outer(first_sum, second_sum / count),
    )


class Pairs:
    """Pairs of rows a lagtime apart, from consecutive blocks: they cross the boundaries of blocks, not of trajectories.

    Memory is that of one block and of ``lagtime`` rows.
    """

    def __init__(self, lagtime: int):
        self._lagtime = lagtime
        self._kept: tuple[np.ndarray, ...] | None = None
        self._buffer = np.empty((0, 0))  # a new array for every block would double the time of writing it

    def push(self, phi: np.ndarray, trajectory: np.ndarray, *companions: np.ndarray) -> tuple[np.ndarray, ...]:
        """Take the next rows and return those of φ that are in new pairs, in order, and companions of the first ones.

        Parameters
        ----------
        phi : ndarray, shape (n, p)
        trajectory : ndarray of int, shape (n,)
            The trajectory of each row.
        *companions : ndarray, shape (n,)
            Weights, labels and similar arrays.

        Returns
        -------
        rows : ndarray, shape (m + lagtime, p)
            Pairs are ``lagtime`` rows apart; fewer rows if there is none. The next call overwrites them.
        within : ndarray of bool, shape (m,)
            Whether a pair is within a trajectory.
        *companions : ndarray, shape (m,)
        """
        new = (phi, trajectory, *companions)
        kept = tuple(array[:0] for array in new) if self._kept is None else self._kept
        n, start = len(kept[0]) + len(phi), len(kept[0])
        if n > len(self._buffer):
            self._buffer = np.empty((n, phi.shape[1]))
        rows = self._buffer[:n]
        rows[:start], rows[start:] = kept[0], phi
        others = [np.concatenate(both) for both in zip(kept[1:], new[1:], strict=True)]
        self._kept = tuple(array[-self._lagtime :].copy() for array in (rows, *others))
        count = max(n - self._lagtime, 0)
        number = others[0]
        within = number[:count] == number[self._lagtime : self._lagtime + count]
        return rows, within, *(other[:count] for other in others[1:])
