"""Forms by their definitions, one sample and one pair of functions at a time."""

from __future__ import annotations

import numpy as np


def mass(phi, weights):
    """Σ w φ φᵀ from phi[b][a]."""
    p = len(phi[0])
    total = np.zeros((p, p))
    for at_sample, w in zip(phi, weights):
        for a in range(p):
            for c in range(p):
                total[a, c] += w * at_sample[a] * at_sample[c]
    return total


def covariance(phi, psi, weights):
    """E[(φ - Eφ)(ψ - Eψ)ᵀ] over samples with these weights, in two passes."""
    weight = sum(weights)
    mean_phi = sum(w * np.asarray(row) for w, row in zip(weights, phi)) / weight
    mean_psi = sum(w * np.asarray(row) for w, row in zip(weights, psi)) / weight
    return (
        sum(w * np.outer(a - mean_phi, b - mean_psi) for w, a, b in zip(weights, phi, psi)) / weight
    )


def pairs(trajectories, weights, lagtime):
    """All (φ(x_t), φ(x_{t+τ}), w_t) from trajectories[k][t] = φ(x_t) and weights[k][t]."""
    found = []
    for trajectory, w in zip(trajectories, weights):
        for t in range(len(trajectory)):
            if t + lagtime < len(trajectory):
                found.append((trajectory[t], trajectory[t + lagtime], w[t]))
    return found


def lagged(found):
    """Σ w φ(x_t) φ(x_{t+τ})ᵀ over pairs."""
    p = len(found[0][0])
    total = np.zeros((p, p))
    for first, second, w in found:
        for a in range(p):
            for c in range(p):
                total[a, c] += w * first[a] * second[c]
    return total


def reversible(found):
    """C0 = (aᵀa + bᵀb)/2n and Cτ = (aᵀb + bᵀa)/2n for the first and second samples a and b, common
    mean taken off.
    """
    both = [(a, b, w) for a, b, w in found] + [(b, a, w) for a, b, w in found]
    weights = [w for _, _, w in both]
    first = [a for a, _, _ in both]
    second = [b for _, b, _ in both]
    return covariance(first, first, weights), covariance(first, second, weights)
