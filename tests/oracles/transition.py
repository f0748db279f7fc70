"""Transition operators by their definitions, one pair of samples at a time."""

from __future__ import annotations

import numpy as np
from scipy import linalg


def pairs(trajectories, lagtime):
    """(first, second) of every pair, and the number of the first one's row."""
    found, row = [], 0
    for x in trajectories:
        found += [(x[t], x[t + lagtime], row + t) for t in range(len(x) - lagtime)]
        row += len(x)
    return found


def counts(trajectories, states, lagtime, weights=None):
    """C_ij, the weight of the pairs from state i to state j."""
    total = np.zeros((states, states))
    for first, second, row in pairs(trajectories, lagtime):
        total[int(first[0]), int(second[0])] += 1.0 if weights is None else weights[row]
    return total


def reversible_matrix(c):
    """Row-stochastic, of the counts in both directions."""
    both = c + c.T
    return both / both.sum(axis=1, keepdims=True)


def singular_values(c):
    """Of D0^-1/2 C D1^-1/2, without the constant's 1."""
    return linalg.svdvals(c / np.sqrt(np.outer(c.sum(axis=1), c.sum(axis=0))))[1:]


def held_out_score(basis, trajectories, lagtime, fold_of_row, epsilon, count):
    """Mean over the folds of tr((P⁻¹Q)²) + 1, reversible, with the modes of the other folds."""
    found = pairs(trajectories, lagtime)
    phi = [
        (basis.values(a[None])[0], basis.values(b[None])[0], fold_of_row[row])
        for a, b, row in found
    ]
    scores = []
    for fold in sorted(set(fold_of_row)):
        rest = _moments([(a, b) for a, b, f in phi if f != fold])
        held = _moments([(a, b) for a, b, f in phi if f == fold])
        penalized = rest[0] + epsilon * np.trace(rest[0]) / len(rest[0]) * np.eye(len(rest[0]))
        vectors = linalg.eigh(rest[1], penalized)[1][:, ::-1][:, :count]
        p, q = vectors.T @ held[0] @ vectors, vectors.T @ held[1] @ vectors
        ratio = linalg.solve(p, q)
        scores.append(1.0 + np.trace(ratio @ ratio))
    return np.mean(scores)


def _moments(both):
    first = np.array([a for a, _ in both] + [b for _, b in both])
    second = np.array([b for _, b in both] + [a for a, _ in both])
    mean = first.mean(axis=0)
    return (first - mean).T @ (first - mean) / len(first), (first - mean).T @ (second - mean) / len(
        first
    )
