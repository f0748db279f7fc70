"""What is known of a model with a simulator, as arrays that jitted loops read.

These are priors, transforms, data and likelihoods.

There may also be a cheap simulator of the same outputs, which may be called at any point.

Log-likelihoods of single numbers are functions of η, the output on the scale that suits its
likelihood: the output itself for normal and Student-t errors, its logarithm for log-normal errors
and for counts, and the logit of a probability. So outputs that have to be positive are positive
wherever the emulator goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kmc.njit import njit
from kmc.surrogate.coordinates.noncentered import NonCentered
from kmc.surrogate.known import Splines, Transforms

FRESH = 50
"""Draws at which the cheap simulator is called for each search for hyperparameters."""

NORMAL, STUDENT_T, POISSON, NEGATIVE_BINOMIAL, BINOMIAL = range(5)
"""Log-normal data are normal data, of logarithms."""

LARGEST = 60.0  # of |η| for counts and probabilities
SMALLEST = 1e-300  # of variances and shapes: nothing is divided by zero
_STEP = 1e-4  # of differences of log Γ, relative
_DRAWS = 2000  # of the prior, for its scales


class Parameters(NamedTuple):
    """The parameters θ_i and the log-density that does not need the simulator.

    Each θ_i is a function of one coordinate x_i. The log-density is the prior with the
    log-Jacobian. It is a sum of functions of one number each, of x_i or of u_i = (x_i - m_i) / s_i,
    where a hierarchical prior has the mean m_i and the standard deviation s_i.
    """

    transforms: Transforms
    # (d,) of int, as the next two see :class:`kmc.surrogate.coordinates.noncentered.NonCentered`
    means: np.ndarray
    sds: np.ndarray  # (d,) of int
    numbers: np.ndarray  # (d, 2)
    known: Splines  # of u
    quantiles: np.ndarray  # (d, k) of u in the prior, from 0 to 1 at equal distances

    @property
    def noncentered(self) -> NonCentered:
        """The map from x to u."""
        return NonCentered(self.transforms, self.means, self.sds, self.numbers)

    @property
    def scales(self) -> np.ndarray:
        """About the standard deviations of x in the prior, (d,)."""
        quantiles = self.quantiles
        if self.noncentered.size:
            quantiles = np.sort(self.draw(np.random.default_rng(0), _DRAWS), axis=0).T
        levels = np.linspace(0.0, 1.0, quantiles.shape[1])
        return np.array(
            [0.5 * np.diff(np.interp([0.16, 0.84], levels, own))[0] for own in quantiles]
        )

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw points x (n, d) from the prior, about."""
        levels = np.linspace(0.0, 1.0, self.quantiles.shape[1])
        u = np.column_stack([np.interp(rng.random(n), levels, own) for own in self.quantiles])
        return self.noncentered.back(u)


class Data(NamedTuple):
    """Data y, and their distribution.

    Variances are sums of constants and of squares of parameters. ``shapes`` are degrees of freedom,
    dispersions, or numbers of trials. Of the columns, -1 means none.
    """

    kinds: np.ndarray  # (n,) of int
    observed: np.ndarray  # (n,)
    constants: np.ndarray  # (n,), of the log-likelihood
    variances: np.ndarray  # (n,)
    scales: np.ndarray  # (n, k), columns of θ
    relative: np.ndarray  # (n,), variances relative to the square of the output
    relative_scales: np.ndarray  # (n, l), columns of θ
    shapes: np.ndarray  # (n,)
    shape_columns: np.ndarray  # (n,), columns of θ, or -1
    repeats: np.ndarray  # (n,), how often the term -log(2π variance)/2 of normal data is repeated

    def at(self, rows: np.ndarray) -> Data:
        """Return some of the data."""
        return Data(*(column[rows] for column in self))


def joined(parts: Sequence[Data]) -> Data:
    """Join the data of several outputs; unequal numbers of terms are filled up."""

    def together(name):
        arrays = [getattr(part, name) for part in parts]
        if arrays[0].ndim == 1:
            return np.concatenate(arrays)
        width = max(array.shape[1] for array in arrays)
        return np.concatenate(
            [np.pad(a, ((0, 0), (0, width - a.shape[1])), constant_values=-1) for a in arrays]
        )

    return Data(*(np.ascontiguousarray(together(name)) for name in Data._fields))


class Group(NamedTuple):
    """Outputs that depend on the same inputs."""

    rows: np.ndarray  # (n,) of int, which outputs
    inputs: np.ndarray  # (p,) of int, which coordinates


class Structure(NamedTuple):
    """A model with a simulator; each output is of a group."""

    inputs: np.ndarray  # (k,) of int: the coordinates on which the outputs depend
    parameters: Parameters
    data: Data
    group: np.ndarray  # (n,) of int, from 0, each number at least once
    depends: np.ndarray  # (g, k) of bool: on which of the inputs a group depends, at least one

    @property
    def groups(self) -> list[Group]:
        """The groups, in order."""
        return [
            Group(np.flatnonzero(self.group == g), self.inputs[own])
            for g, own in enumerate(self.depends)
        ]

    @property
    def most_inputs(self) -> int:
        """Largest number of inputs of a group."""
        return int(self.depends.sum(axis=1).max())


def candidates(structure: Structure, points: np.ndarray, outputs: np.ndarray) -> list[Structure]:
    """Return the structure, after one with fewer inputs if evaluations show that there are fewer.

    Two points that differ in one input alone show which outputs it moves: none of the others
    depends on it, as far as they show. What outputs of one group depend on differs then. Those
    whose inputs are among another's share the group of that one.

    Parameters
    ----------
    structure : Structure
    points : ndarray, shape (m, d)
        An input that never differs alone moves what the structure says.
    outputs : ndarray, shape (m, n)
        An output that nothing moves does not tell on what it depends.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> from kmc.run.structure import structured
    >>> from kmc.surrogate.emulator.structure import candidates
    >>> model = kmc.Model(
    ...     simulator=lambda p: p["x"] ** 2,
    ...     likelihood=kmc.likelihoods.Normal(np.ones(2), sd=1.0),
    ...     parameters={"x": kmc.Normal(0, 1, shape=2)},
    ... )
    >>> points = np.array([[1.0, 2.0], [3.0, 2.0], [1.0, 0.0]])
    >>> [own.depends.astype(int).tolist() for own in candidates(
    ...     structured(model).structure, points, points**2)]
    [[[0, 1], [1, 0]], [[1, 1]]]
    """
    declared = structure.depends[structure.group]
    moved, x = declared.copy(), points[:, structure.inputs]
    for j in range(x.shape[1]):
        _, alike = np.unique(np.delete(x, j, axis=1), axis=0, return_inverse=True)
        order = np.argsort(alike.ravel(), kind="stable")
        pairs = np.flatnonzero(np.diff(alike.ravel()[order]) == 0)
        before, after = order[pairs], order[pairs + 1]
        different = x[before, j] != x[after, j]
        if different.any():
            changed = outputs[before[different]] != outputs[after[different]]
            moved[:, j] &= changed.any(axis=0)
    own = declared.copy()
    for g in range(len(structure.depends)):
        rows = structure.group == g
        sets = np.unique(moved[rows], axis=0)
        within = np.all(sets[:, None] <= sets[None], axis=2)
        largest = sets[within.sum(axis=1) == 1]
        if largest.any():
            own[rows] = largest[np.argmax(np.all(moved[rows][:, None] <= largest, axis=2), axis=1)]
    if np.array_equal(own, declared):
        return [structure]
    depends, group = np.unique(own, axis=0, return_inverse=True)
    return [structure._replace(group=group.ravel(), depends=depends), structure]


@njit(allocates=False)
def log_likelihood(kind, y, eta, variance, relative, shape, repeats):
    """Return the log-likelihood, and its derivatives along η, the two variances and the shape.

    The variance of normal and Student-t errors is ``variance`` + ``relative`` η²; the term of
    normal ones that has its logarithm is repeated ``repeats`` times more. Terms that depend on the
    data alone are left out.
    """
    if kind <= 1:
        total = max(variance + relative * eta * eta, SMALLEST)
        error = y - eta
        square = error * error / total
        if kind == 0:
            value = -0.5 * ((1.0 + repeats) * np.log(2.0 * np.pi * total) + square)
            along, along_total, along_shape = (
                error / total,
                0.5 * (square - 1.0 - repeats) / total,
                0.0,
            )
        else:
            value = math.lgamma(0.5 * (shape + 1.0)) - math.lgamma(0.5 * shape)
            value -= 0.5 * np.log(np.pi * shape * total) + 0.5 * (shape + 1.0) * np.log1p(
                square / shape
            )
            weight = (shape + 1.0) / (shape + square)
            along, along_total = weight * error / total, 0.5 * (weight * square - 1.0) / total
            along_shape = 0.5 * (
                _digamma(0.5 * (shape + 1.0)) - _digamma(0.5 * shape) - 1.0 / shape
            )
            along_shape += 0.5 * (weight * square / shape - np.log1p(square / shape))
        return (
            value,
            along + along_total * 2.0 * relative * eta,
            along_total,
            along_total * eta * eta,
            along_shape,
        )
    inside = abs(eta) < LARGEST
    eta = min(max(eta, -LARGEST), LARGEST)
    along_shape = 0.0
    if kind == 2:
        mean = np.exp(eta)
        value, along = y * eta - mean, y - mean
    elif kind == 3:
        mean = np.exp(eta)
        value = math.lgamma(y + shape) - math.lgamma(shape) - shape * np.log1p(mean / shape)
        value += y * (eta - np.log(mean + shape))
        along = shape * (y - mean) / (mean + shape)
        along_shape = (
            _digamma(y + shape)
            - _digamma(shape)
            - np.log1p(mean / shape)
            + (mean - y) / (mean + shape)
        )
    else:
        value = y * eta - shape * (max(eta, 0.0) + np.log1p(np.exp(-abs(eta))))
        along = y - shape / (1.0 + np.exp(-eta))
    return value, along if inside else 0.0, 0.0, 0.0, along_shape


@njit(allocates=False)
def information(kind, eta, variance, relative, shape):
    """Return the Fisher information of η: the expected curvature of the log-likelihood."""
    if kind <= 1:
        total = max(variance + relative * eta * eta, SMALLEST)
        known = 1.0 / total + 2.0 * (relative * eta / total) ** 2
        return known if kind == 0 else known * (shape + 1.0) / (shape + 3.0)
    eta = min(max(eta, -LARGEST), LARGEST)
    if kind == 4:
        share = 1.0 / (1.0 + np.exp(-eta))
        return shape * share * (1.0 - share)
    mean = np.exp(eta)
    return mean if kind == 2 else mean * shape / (mean + shape)


@njit(allocates=False)
def _digamma(x):
    step = _STEP * x
    return (math.lgamma(x + step) - math.lgamma(x - step)) / (2.0 * step)


class Approximation:
    """Outputs of a cheap simulator, each computed once.

    The surrogate learns the difference from the simulator.

    Parameters
    ----------
    outputs : callable
        Returns outputs η (k, n) at points (k, d), rows of NaN where there are none.

    Attributes
    ----------
    points, outputs : ndarray, shapes (m, d) and (m, n)
        Those that were computed so far and are finite.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.surrogate.emulator.structure import Approximation
    >>> cheap = Approximation(lambda x: np.where(x > 0, 2.0 * x, np.nan))
    >>> cheap.at(np.array([[1.0], [-1.0]])).ravel(), cheap.points
    (array([ 2., nan]), array([[1.]]))
    """

    def __init__(self, outputs: Callable[[np.ndarray], np.ndarray]):
        self._outputs = outputs
        self._found: dict[bytes, np.ndarray] = {}
        self.points = self.outputs = np.empty((0, 0))

    def at(self, x: np.ndarray) -> np.ndarray:
        """Return outputs (k, n) at points (k, d)."""
        new = {row.tobytes(): row for row in x if row.tobytes() not in self._found}
        if new:
            points = np.array([*new.values()])
            outputs = self._outputs(points)
            self._found |= zip(new, outputs, strict=True)
            usable = np.isfinite(outputs).all(axis=1)
            before = (self.points, self.outputs) if self.points.size else (points[:0], outputs[:0])
            self.points, self.outputs = (
                np.vstack([old, more[usable]])
                for old, more in zip(before, (points, outputs), strict=True)
            )
        return np.array([self._found[row.tobytes()] for row in x])
