"""All outcomes of random code, with their exact probabilities, and requirements on a transition
matrix.

:func:`outcomes` calls a function repeatedly with a double of ``numpy.random.Generator`` that takes
another branch each time: comparisons of a uniform number with a threshold, choices without
replacement and integers are forks with known probabilities. Continuous numbers are replaced by a
few values (``nodes``) of equal probability, and normal noise by zero, which makes a discrete
analogue of a move on a lattice. The enumerated code is the package's own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

EXACT = 1e-12
"""Rounding of sums of some thousand probabilities, with room for the solution of a linear system of
100 equations.
"""

Nodes = dict[tuple[float, float], tuple[float, ...]]


def outcomes(
    function: Callable[[ForkingGenerator], Any],
    nodes: Nodes | None = None,
    kind: Callable[[list[int], Nodes], ForkingGenerator] | None = None,
) -> Iterator[tuple[float, Any]]:
    """(probability, result) of every branch of ``function(rng)``; those of probability zero are
    left out.

    ``nodes[low, high]`` are the values that stand for a uniform number between the two; by default
    their middle does.
    """
    path: list[int] | None = []
    while path is not None:
        rng = (kind or ForkingGenerator)(path, nodes or {})
        result = function(rng)
        yield rng.probability, result
        path = rng.next_path()


class ForkingGenerator:
    """A ``Generator`` that repeats the decisions of a path, and from there on takes the first
    possible branch.
    """

    def __init__(self, path: list[int], nodes: Nodes):
        self.probability = 1.0
        self._path, self._nodes = path, nodes
        self._forks: list[tuple[np.ndarray, int]] = []

    def fork(self, weights) -> int:
        """Which branch is taken of those with these probabilities."""
        weights = np.asarray(weights, float)
        assert abs(weights.sum() - 1.0) < 1e-14
        depth = len(self._forks)
        index = self._path[depth] if depth < len(self._path) else int(np.flatnonzero(weights)[0])
        self._forks.append((weights, index))
        self.probability *= float(weights[index])
        return index

    def next_path(self) -> list[int] | None:
        """The decisions of the next branch, None after the last one."""
        forks = list(self._forks)
        while forks:
            weights, index = forks.pop()
            later = index + 1 + np.flatnonzero(weights[index + 1 :])
            if len(later):
                return [i for _, i in forks] + [int(later[0])]
        return None

    def random(self) -> Uniform:
        """A number that is decided when it is compared."""
        return Uniform(self)

    def uniform(self, low: float, high: float) -> float:
        """One of the nodes."""
        nodes = self._nodes.get((float(low), float(high)), (0.5 * (low + high),))
        return nodes[self.fork(np.full(len(nodes), 1 / len(nodes)))]

    def integers(self, low: int, high: int | None = None, size: int | None = None) -> Any:
        """An integer below ``high``, or so many."""
        if size is not None:
            return np.array([self.integers(low, high) for _ in range(size)])
        low, high = (0, low) if high is None else (low, high)
        return low + self.fork(np.full(high - low, 1 / (high - low)))

    def choice(self, count: int, size: int, replace: bool) -> np.ndarray:
        """Distinct indices, in order."""
        assert not replace
        every = list(itertools.permutations(range(count), size))
        return np.array(every[self.fork(np.full(len(every), 1 / len(every)))])

    def standard_normal(self, size: int) -> np.ndarray:
        """No noise."""
        return np.zeros(size)


class Uniform:
    """A uniform number on [0, size) that has not been used yet; it may be used once.

    After a comparison that it was not below, the rest may be compared, too: see ``__sub__``.
    """

    def __init__(self, rng: ForkingGenerator, size: float = 1.0):
        self._rng: ForkingGenerator | None = rng
        self._size = size
        self._not_below: tuple[ForkingGenerator, float] | None = None

    def __lt__(self, threshold: float) -> bool:
        """With the probability ``threshold / size``, clipped to [0, 1]; a NaN is never above."""
        p = float(np.clip(threshold / self._size, 0.0, 1.0)) if threshold == threshold else 0.0
        rng = self._once()
        below = rng.fork([p, 1.0 - p]) == 0
        self._not_below = None if below else (rng, threshold)
        return below

    def __sub__(self, threshold: float) -> Uniform:
        """The rest, uniform again, of a number that was found to be at least ``threshold``."""
        assert self._not_below is not None and self._not_below[1] == threshold, (
            "only the threshold may be subtracted"
        )
        (rng, _), self._not_below = self._not_below, None
        return Uniform(rng, self._size - threshold)

    def __mul__(self, count: int) -> Scaled:
        """For an index: ``int(rng.random() * count)``."""
        return Scaled(self._once(), count)

    def log(self) -> Logarithm:
        """What ``np.log`` calls."""
        return Logarithm(self)

    def _once(self) -> ForkingGenerator:
        rng, self._rng = self._rng, None
        assert rng is not None, "a uniform number was used twice"
        return rng


class Scaled:
    """A uniform number times an integer."""

    def __init__(self, rng: ForkingGenerator, count: int):
        self._rng, self._count = rng, count

    def __int__(self) -> int:
        return self._rng.integers(self._count)


class Logarithm:
    """The logarithm of a uniform number."""

    def __init__(self, uniform: Uniform):
        self._uniform = uniform

    def __lt__(self, threshold: float) -> bool:
        return self._uniform < np.exp(min(float(threshold), 0.0))


# Transition matrices


def transition_matrix(
    step: Callable[[ForkingGenerator, int], int],
    size: int,
    nodes: Nodes | None = None,
    kind: Callable[[list[int], Nodes], ForkingGenerator] | None = None,
) -> np.ndarray:
    """The probabilities with which ``step(rng, i)`` is j, shape (size, size)."""
    matrix = np.zeros((size, size))
    for i in range(size):
        for probability, j in outcomes(lambda rng, i=i: step(rng, i), nodes, kind):
            matrix[i, j] += probability
    return matrix


def stationary_distribution(matrix: np.ndarray, support: np.ndarray) -> np.ndarray:
    """The solution π of π T = π, Σ π = 1 on the states of the support, and zero elsewhere.

    LinAlgError, or AssertionError, unless it is unique there.
    """
    inside = np.flatnonzero(support)
    block = matrix[np.ix_(inside, inside)]
    equations = np.vstack([block.T - np.eye(len(inside)), np.ones(len(inside))])
    assert np.linalg.matrix_rank(equations, tol=1e-9) == len(inside), (
        "the chain cannot reach every state"
    )
    right = np.append(np.zeros(len(inside)), 1.0)
    out = np.zeros(len(matrix))
    out[inside] = np.linalg.lstsq(equations, right, rcond=None)[0]
    return out


def assert_stationary(matrix: np.ndarray, mass: np.ndarray, reversible: bool = True) -> None:
    """T has the normalized ``mass`` as its one stationary distribution, and is reversible, all to
    ``EXACT``.
    """
    target = mass / mass.sum()
    support = target > 0
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=EXACT)
    assert not np.any(matrix[np.ix_(support, ~support)]), "a state of mass zero was entered"
    np.testing.assert_allclose(stationary_distribution(matrix, support), target, rtol=0, atol=EXACT)
    if reversible:
        flow = target[:, None] * matrix
        np.testing.assert_allclose(flow, flow.T, rtol=0, atol=EXACT)
