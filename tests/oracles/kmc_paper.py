"""Kernel Hamiltonian Monte Carlo with a fixed surrogate, literally: Strathmann and others (2015),
algorithm 1.

In the coordinates of the target and with a mass matrix M, where :mod:`kmc.samplers.score_field` has
whitened coordinates and unit mass: momenta are N(0, M), and H(x, p) = -log π(x) + pᵀ M⁻¹ p / 2 with
the true π decides.
"""

import numpy as np


def leapfrog(gradient, inverse_mass, x, p, step_size, n_steps):
    """Half a kick, a drift and half a kick, n_steps times."""
    for _ in range(n_steps):
        p = p + 0.5 * step_size * gradient(x)
        x = x + step_size * inverse_mass @ p
        p = p + 0.5 * step_size * gradient(x)
    return x, p


def chain(
    log_density, gradient, whitener, x, rng, n, walk_probability, largest_step, steps=(5, 20)
):
    """n draws (n, d) from x on, with the probabilities of acceptance (n,).

    Parameters
    ----------
    gradient : callable
        The surrogate's, in x.
    whitener : ndarray, shape (d, d)
        The root W of the mass matrix M = WᵀW; z = W x is white.
    """
    d = len(x)
    mass = whitener.T @ whitener
    inverse_mass = np.linalg.inv(mass)
    root = np.linalg.inv(whitener)  # of the covariance M⁻¹
    draws, probabilities = [], []
    for _ in range(n):
        if rng.random() < walk_probability:
            scale = 2.38 / np.sqrt(d) * 10.0 ** -rng.random()
            proposed = x + scale * root @ rng.standard_normal(d)
            log_ratio = log_density(proposed) - log_density(x)
        else:
            n_steps = rng.integers(steps[0], steps[1] + 1)
            step_size = largest_step * rng.uniform(0.7, 1.0)
            p = whitener.T @ rng.standard_normal(d)
            proposed, end = leapfrog(gradient, inverse_mass, x, p, step_size, n_steps)
            before = -log_density(x) + 0.5 * p @ inverse_mass @ p
            after = -log_density(proposed) + 0.5 * end @ inverse_mass @ end
            log_ratio = before - after
        probability = min(1.0, np.exp(min(log_ratio, 0.0)))
        if rng.random() < probability:
            x = proposed
        draws.append(x)
        probabilities.append(probability)
    return np.array(draws), np.array(probabilities)
