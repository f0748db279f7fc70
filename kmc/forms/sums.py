"""Sums of forms over samples, which can be added and subtracted; those of time-lagged pairs, too.

Second moments are kept centered, Σ w (a - ā)(b - b̄)ᵀ. Computing them as the raw moment Σ w a bᵀ
minus the product of means loses digits if functions hardly vary around a large mean, as a wide
kernel's sections do, or log-densities of -1e6. Merging centered parts by the formula of Chan, Golub
and LeVeque (1983) does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from kmc.bases.general import FEW, few

FORMS = ("mass", "values", "dirichlet", "gradients", "linear", "lagged")


@dataclass(frozen=True, eq=False)
class Forms:
    r"""Sums over samples x with weights w, of p basis functions φ; forms not requested are None.

    They can be added and subtracted: parts add to the whole, and the whole minus a fold is the
    rest, up to rounding. Second moments are stored centered, so that a large mean of the functions
    or of the values costs no digits.

    Attributes
    ----------
    weight : float
        Σ w.
    mean : ndarray, shape (p,)
        Σ w φ.
    mass : ndarray, shape (p, p)
        Σ w φ φᵀ.
    values : ndarray, shape (p,)
        Σ w φ y.
    value_sum : float
        Σ w y.
    dirichlet : ndarray, shape (p, p)
        Σ w <∇φ, ∇φᵀ>.
    gradients : ndarray, shape (p,)
        Σ w <∇φ, t>, for given vectors t.
    gradient_square : float
        Σ w |t|².
    linear : ndarray, shape (p,)
        Σ w (Δφ + <∇φ, ∇log q0>), the linear term of score matching.
    lagged : Lagged
        Moments of the pairs φ(x_t), φ(x_{t+τ}); of the form "reversible" in both directions.
    mass_scatter, value_scatter, square_scatter : ndarray (p, p), ndarray (p,), float
        Σ w (φ - Eφ)(φ - Eφ)ᵀ, Σ w (φ - Eφ)(y - Ey) and Σ w (y - Ey)².
    """

    weight: float
    mean: np.ndarray | None = None
    mass_scatter: np.ndarray | None = None
    value_sum: float | None = None
    value_scatter: np.ndarray | None = None
    square_scatter: float | None = None
    dirichlet: np.ndarray | None = None
    gradients: np.ndarray | None = None
    gradient_square: float | None = None
    linear: np.ndarray | None = None
    lagged: Lagged | None = None

    def __add__(self, other: Forms) -> Forms:
        return self._combine(other, 1.0)

    def __sub__(self, other: Forms) -> Forms:
        return self._combine(other, -1.0)

    @property
    def mass(self) -> np.ndarray | None:
        """Σ w φ φᵀ, (p, p)."""
        if self.mass_scatter is None or self.mean is None:
            return None
        return self.mass_scatter + _product(self.mean, self.mean, self.weight)

    @property
    def values(self) -> np.ndarray | None:
        """Σ w φ y, (p,)."""
        if self.value_scatter is None or self.mean is None or self.value_sum is None:
            return None
        return self.value_scatter + self.mean * (
            self.value_sum / self.weight if self.weight > 0 else 0.0
        )

    def centered_mass(self) -> np.ndarray:
        """Return E[(φ - Eφ)(φ - Eφ)ᵀ], (p, p), centered as constants lie outside a kernel's span.

        It is never negative, and zero up to rounding along a combination of functions that is
        constant.
        """
        return self.get("mass_scatter") / self._positive_weight()

    def centered_values(self) -> np.ndarray:
        """Return the covariance E[(φ - Eφ)(y - Ey)], (p,)."""
        return self.get("value_scatter") / self._positive_weight()

    def value_variance(self) -> float:
        """Return the variance E[(y - Ey)²]."""
        return float(self.get("square_scatter") / self._positive_weight())

    def get(self, name: str) -> Any:
        """Return a sum by name; ValueError if it was not accumulated."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"{name} was not accumulated: name its form in accumulate(..., forms)")
        return value

    def _positive_weight(self):
        if not self.weight > 0:
            raise ValueError(f"weight={self.weight}: a mean needs samples of positive weight")
        return self.weight

    def _combine(self, other, sign):
        if not isinstance(other, Forms):
            return NotImplemented
        if self._held() != other._held():
            raise ValueError(
                "forms can be added or subtracted only when both hold the same forms, not "
                f"{self._held()} and {other._held()}"
            )
        return Forms(
            weight=self.weight + sign * other.weight,
            mean=_signed(self.mean, other.mean, sign),
            mass_scatter=_merged(self, other, sign, "mean", "mean", "mass_scatter"),
            value_sum=_signed(self.value_sum, other.value_sum, sign),
            value_scatter=_merged(self, other, sign, "mean", "value_sum", "value_scatter"),
            square_scatter=_merged(self, other, sign, "value_sum", "value_sum", "square_scatter"),
            dirichlet=_signed(self.dirichlet, other.dirichlet, sign),
            gradients=_signed(self.gradients, other.gradients, sign),
            gradient_square=_signed(self.gradient_square, other.gradient_square, sign),
            linear=_signed(self.linear, other.linear, sign),
            lagged=_signed(self.lagged, other.lagged, sign),
        )

    def _held(self):
        fields = {"mass": "mass_scatter", "values": "value_scatter"}
        return tuple(name for name in FORMS if getattr(self, fields.get(name, name)) is not None)


@dataclass(frozen=True, eq=False)
class Lagged:
    r"""Moments over pairs (x_t, x_{t+τ}) of trajectories, each with the weight of its first sample.

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
        return self.cross_scatter + _product(self.first_sum, self.second_sum, self.weight)

    def covariances(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return covariances C00, C0τ and Cττ, each side centered by its own mean, as in VAMP."""
        weight = self._positive_weight()
        return (
            self.first_scatter / weight,
            self.cross_scatter / weight,
            self.second_scatter / weight,
        )

    def reversible(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the covariances C0 and Cτ of the pairs taken in both directions.

        The pairs are centered by their common mean. Both covariances are symmetric, and |Cτ| <= C0:
        the estimate of a reversible chain has eigenvalues in [-1, 1].
        """
        weight = self._positive_weight()
        half = 0.5 * (self.first_sum - self.second_sum) / weight
        apart = np.outer(half, half)  # difference of either side's mean from the common one
        mass = 0.5 * (self.first_scatter + self.second_scatter) / weight + apart
        lagged = 0.5 * (self.cross_scatter + self.cross_scatter.T) / weight - apart
        return mass, lagged

    def within(self, w: np.ndarray) -> Lagged:
        """Return the moments of combinations of the functions, the columns of w (p, k)."""
        scatters = (
            w.T @ s @ w for s in (self.first_scatter, self.second_scatter, self.cross_scatter)
        )
        return Lagged(self.weight, self.first_sum @ w, self.second_sum @ w, *scatters)

    def about(self, mean: np.ndarray) -> Lagged:
        """Return the moments of the functions minus the constants ``mean`` (p,)."""
        return replace(
            self,
            first_sum=self.first_sum - self.weight * mean,
            second_sum=self.second_sum - self.weight * mean,
        )

    def _positive_weight(self):
        if not self.weight > 0:
            raise ValueError(
                f"weight={self.weight}: there is no pair of samples, all trajectories are too short"
            )
        return self.weight

    def _combine(self, other, sign):
        def scatters(of, a, b, both):
            return of.weight, getattr(of, a), getattr(of, b), getattr(of, both)

        def together(*names):
            return merged(scatters(self, *names), scatters(other, *names), sign)

        first = together("first_sum", "first_sum", "first_scatter")
        both_ways = (
            self.first_scatter is self.second_scatter
            and other.first_scatter is other.second_scatter
        )
        return Lagged(
            weight=self.weight + sign * other.weight,
            first_sum=self.first_sum + sign * other.first_sum,
            second_sum=self.second_sum + sign * other.second_sum,
            first_scatter=first,
            second_scatter=first
            if both_ways
            else together("second_sum", "second_sum", "second_scatter"),
            cross_scatter=together("first_sum", "second_sum", "cross_scatter"),
        )


def lagged_sums(first: np.ndarray, second: np.ndarray, weights: np.ndarray | None) -> Lagged:
    """Return the moments of n pairs φ(x_t), φ(x_{t+τ}).

    The pairs are the rows of ``first`` and ``second`` (n, p); n may be zero.
    """
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


def reversible_sums(first: np.ndarray, second: np.ndarray, weights: np.ndarray | None) -> Lagged:
    """Return the moments of n pairs, rows of ``first`` and ``second`` (n, p), in both directions.

    Each direction has half of the weight of the pair, so that the moments are those of
    :meth:`Lagged.reversible`. With u = φ(x_t) + φ(x_{t+τ}) and v = φ(x_t) - φ(x_{t+τ}) they are Σ w
    (uuᵀ ± vvᵀ) / 4: two symmetric products, where :func:`lagged_sums` needs a general one besides.
    """
    n, p = first.shape
    weight = float(n if weights is None else weights.sum())
    shift = first.mean(axis=0) if n else np.zeros(p)
    total, squares, (u, v) = (
        np.zeros(p),
        [np.zeros((p, p), order="F") for _ in range(2)],
        np.empty((2, FEW, p)),
    )
    for rows in few(n):
        a, b = first[rows], second[rows]
        both = np.add(a, b, out=u[: len(a)]), np.subtract(a, b, out=v[: len(a)])
        both[0][:] -= 2.0 * shift
        if weights is None:
            total += both[0].sum(axis=0)
        else:
            total += weights[rows] @ both[0]
            for part in both:
                part *= np.sqrt(weights[rows])[:, None]
        squares = [
            dsyrk(0.25, part.T, 1.0, square, overwrite_c=1) for part, square in zip(both, squares)
        ]
    # dsyrk leaves the lower triangle zero
    plus, minus = (square + np.triu(square, 1).T for square in squares)
    half = 0.5 * total
    if weight > 0:
        plus -= np.outer(half, half / weight)
    mass, cross = plus + minus, plus - minus
    return Lagged(weight, half + weight * shift, half + weight * shift, mass, mass, cross)


def consecutive_sums(rows: np.ndarray, lagtime: int) -> Lagged:
    """Return the moments of all pairs φ(x_t), φ(x_{t+τ}) of consecutive rows (n, p), where n > τ.

    The second samples are the first ones without the head and with the tail of the rows, and so is
    their scatter. The rows are overwritten.
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
    """Pairs of rows a lagtime apart, from consecutive blocks.

    They cross the boundaries of blocks, not of trajectories. Memory is that of one block and of
    ``lagtime`` rows.
    """

    def __init__(self, lagtime: int):
        self._lagtime = lagtime
        self._kept: tuple[np.ndarray, ...] | None = None
        # a new array for every block would double the time of writing it
        self._buffer = np.empty((0, 0))

    def push(
        self, phi: np.ndarray, trajectory: np.ndarray, *companions: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Take the next rows and return those of φ that are in new pairs, in order.

        The companions of the first rows of these pairs are returned, too.

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
            Pairs are ``lagtime`` rows apart; fewer rows if there is none. The next call overwrites
            them.
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


def centered(weights: np.ndarray | None, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Σ w a, and the rows √w (a - ā), for a (n, ...) and weights (n,); None means ones.

    Products of such rows sum to scatters. If the total weight is zero, they are zero.
    """
    total = a.sum(axis=0) if weights is None else weights @ a
    weight = len(a) if weights is None else weights.sum()
    rows = a - total / weight if weight > 0 else np.zeros_like(a)
    if weights is not None:
        rows *= np.sqrt(weights).reshape(-1, *[1] * (a.ndim - 1))
    return total, rows


def merged(
    first: tuple[float, np.ndarray, np.ndarray, np.ndarray],
    second: tuple[float, np.ndarray, np.ndarray, np.ndarray],
    sign: float,
) -> np.ndarray:
    """Return the scatter of both samples (``sign`` = 1), or of the first without the second (-1).

    Each is (Σ w, Σ w a, Σ w b, scatter). Removing a part is adding its weights with the opposite
    sign.
    """
    (w, a, b, s), (v, c, d, t) = first, second
    total = s + t if sign > 0 else s - t
    v = sign * v
    if w == 0.0 or v == 0.0 or abs(w + v) <= 1e-15 * abs(w):
        return total
    apart_a, apart_b = np.atleast_1d(a / w - sign * c / v), np.atleast_1d(b / w - sign * d / v)
    apart = np.outer(apart_a, apart_b).reshape(np.shape(total))
    apart *= w * v / (w + v)
    apart += total
    return apart


def _signed(a, b, sign):
    if a is None:
        return None
    return a + b if sign > 0 else a - b


def _merged(a, b, sign, one, two, both):
    if getattr(a, both) is None:
        return None
    first, second = ((f.weight, getattr(f, one), getattr(f, two), getattr(f, both)) for f in (a, b))
    return merged(first, second, sign)


def _product(a, b, weight):
    return np.outer(a, b) / weight if weight > 0 else np.zeros((len(a), len(b)))
