"""Sums over all pairs of a state and its proposal, of a chain with a few states, by their
definitions.
"""

from __future__ import annotations

import numpy as np


def metropolis(s, steps):
    """The matrix of a number of Metropolis steps for s (k,), between neighbors on a line."""
    k = len(s)
    one = np.zeros((k, k))
    for i in range(k):
        for j in (i - 1, i + 1):
            if 0 <= j < k:
                one[i, j] = 0.5 * min(1.0, s[j] / s[i])
        one[i, i] = 1.0 - one[i].sum()
    return np.linalg.matrix_power(one, steps)


def pairs(p, kernel):
    """(i, j, probability) of every pair: i from p, j from its row of the kernel."""
    return [(i, j, p[i] / sum(p) * kernel[i, j]) for i in range(len(p)) for j in range(len(p))]


def target_mean(p, f):
    """E_p f."""
    return sum(p[i] * f[i] for i in range(len(p))) / sum(p)


def unseen(p, s, kernel, inside, g):
    """U(g): the sum over dead x in the region and dead y of s(x) K(x, y) g(x)."""
    dead = [i for i in range(len(p)) if p[i] == 0]
    return sum(s[i] * kernel[i, j] * g[i] for i in dead for j in dead if inside[i])


def reached(p, s, kernel, inside, g):
    """V(g): the sum over living x and dead y in the region of s(x) K(x, y) g(y)."""
    states = range(len(p))
    return sum(
        s[i] * kernel[i, j] * g[j]
        for i in states
        for j in states
        if p[i] > 0 and p[j] == 0 and inside[j]
    )


def mass(s, inside, g):
    """The sum of s g in the region."""
    return sum(s[i] * g[i] for i in range(len(s)) if inside[i])
