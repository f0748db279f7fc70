"""The mass of a surrogate by annealing between it and a Student-t density, in both directions.

Particles follow the path log π_b = (1 - b) log q + b log s (Neal 2001, "Annealed importance sampling", Statistics and
Computing 11), where q is a Student-t density with the moments of draws from s. Temperatures are chosen so that
neighbors overlap, and each ratio of neighboring masses is estimated as by Bennett (1976, Journal of Computational
Physics 22), from particles of both. On the way down they begin as draws from s, and on the way up as draws from q.
Particles that go down know only the modes of s that contain draws; particles that go up find all modes that are wide
enough. So the two estimates differ if s has a mode without draws.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from scipy import linalg, optimize
from scipy.special import gammaln, logsumexp

from kmc.jitted import value_and_gradient, wall, workspace
from kmc.readout.transitions import bennett
from kmc.surrogates import Component

ISLANDS = 8  # independent groups of particles
_DOF = 6.0
_OVERLAP = 0.8  # effective fraction of the particles after one step
_MOVES = 3  # trajectories per temperature
_LENGTH = 1.6  # length of a trajectory, in units of the longest scale
_MOST_STEPS = 200


class Base(NamedTuple):
    """log q(z) = constant - (dof + d)/2 log(1 + |root (z - mean)|² / dof)."""

    mean: np.ndarray
    root: np.ndarray  # (d, d)
    dof: float
    constant: float

    @classmethod
    def of(cls, z: np.ndarray) -> Base:
        """The base with the mean and approximate covariance of draws (n, d)."""
        d = z.shape[1]
        covariance = np.atleast_2d(np.cov(z.T)) + 1e-12 * np.eye(d)
        factor = np.linalg.cholesky(covariance)
        root = linalg.solve_triangular(factor, np.eye(d), lower=True)
        constant = gammaln(0.5 * (_DOF + d)) - gammaln(0.5 * _DOF) - 0.5 * d * np.log(_DOF * np.pi)
        return cls(z.mean(axis=0), root, _DOF, float(constant + np.log(np.diag(root)).sum()))

    def draws(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws (n, d)."""
        normal = rng.standard_normal((n, len(self.mean))) / np.sqrt(rng.chisquare(self.dof, (n, 1)) / self.dof)
        return self.mean + linalg.solve_triangular(self.root, normal.T, lower=True).T


class Mass(NamedTuple):
    """log of the integral of s over x.

    Attributes
    ----------
    down, up : float
        From particles that began as draws from s, and as draws from the Student-t density.
    down_se, up_se : float
    temperatures : int
    particles : ndarray, shape (n, d)
        Approximate draws from s, at the last temperature on the way up, in its coordinates z.
    path : ndarray, shape (3, temperatures)
        Inverse temperatures from 0 to 1, and the log-mass at each of them by the particles that go down, and up.
    """

    down: float
    up: float
    down_se: float
    up_se: float
    temperatures: int
    particles: np.ndarray
    path: np.ndarray

    @property
    def gap(self) -> float:
        """Difference of the two, in standard errors."""
        return (self.up - self.down) / max(np.hypot(self.down_se, self.up_se), 1e-3)

    @property
    def log_mass(self) -> float:
        """Both combined if they agree, otherwise that of the modes that contain draws."""
        if abs(self.gap) > GAP:
            return self.down
        weights = np.array([self.down_se, self.up_se]) ** -2.0 if min(self.down_se, self.up_se) > 0 else np.ones(2)
        return float(np.average([self.down, self.up], weights=weights))

    @property
    def se(self) -> float:
        """Of ``log_mass``."""
        if abs(self.gap) > GAP or min(self.down_se, self.up_se) == 0:
            return self.down_se
        return float((self.down_se**-2.0 + self.up_se**-2.0) ** -0.5)


GAP = 4.0
"""Largest difference between the two directions, in standard errors."""


def mass_of(component: Component, z: np.ndarray, step_size: float, rng: np.random.Generator) -> Mass:
    """The mass of a surrogate, from draws z (n, d) from it in its own coordinates; n is a multiple of the islands."""
    base = Base.of(z)
    size = len(z) // ISLANDS
    z = np.ascontiguousarray(rng.permutation(z)[: size * ISLANDS])
    path = _Path(component.jit_state, base, step_size, rng)

    betas, levels, particles = [1.0], [path.log_ratios(z)], z
    while betas[-1] > 0.0:
        beta = _next(levels[-1], betas[-1])
        particles = _resampled(particles, (beta - betas[-1]) * levels[-1], rng)
        betas.append(beta)
        if beta > 0.0:
            particles, log_ratios = path.moved(particles, beta)
        else:
            particles = base.draws(rng, len(z))
            log_ratios = path.log_ratios(particles)
        levels.append(log_ratios)
    down_path = _log_masses(betas, levels)

    levels = levels[-1:]
    for before, beta in zip(betas[:0:-1], betas[-2::-1]):
        particles = _resampled(particles, (beta - before) * levels[-1], rng)
        particles, log_ratios = path.moved(particles, beta)
        levels.append(log_ratios)
    up_path = _log_masses(betas, levels[::-1])
    volume, root = component.log_volume, np.sqrt(ISLANDS)
    down, up = down_path[0], up_path[0]
    return Mass(
        down=float(np.mean(down)) + volume,
        up=float(np.mean(up)) + volume,
        down_se=float(np.std(down, ddof=1) / root),
        up_se=float(np.std(up, ddof=1) / root),
        temperatures=len(betas),
        particles=particles,
        path=np.array([betas, down_path.mean(axis=1) + volume, up_path.mean(axis=1) + volume])[:, ::-1],
    )


class _Path:
    """Moves and values along the path."""

    def __init__(self, state, base: Base, step_size: float, rng: np.random.Generator):
        self._state, self._base, self._rng = state, base, rng
        self._step_size = step_size
        self._steps = max(1, int(min(_LENGTH / step_size, _MOST_STEPS)))

    def log_ratios(self, particles: np.ndarray) -> np.ndarray:
        """log s - log q, (n,)."""
        return _move(self._state, self._base, self._rng, particles.copy(), 1.0, 0, 1, 1.0)

    def moved(self, particles: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
        """Particles after a few trajectories, and their log s - log q."""
        particles = np.ascontiguousarray(particles)
        ratios = _move(self._state, self._base, self._rng, particles, beta, _MOVES, self._steps, self._step_size)
        return particles, ratios


def _next(log_ratios: np.ndarray, beta: float) -> float:
    """The next lower temperature: the one with the required effective fraction of particles."""

    def shortfall(lower):
        weights = (lower - beta) * log_ratios
        share = np.exp(2 * logsumexp(weights) - logsumexp(2 * weights)) / len(weights)
        return share - _OVERLAP

    if shortfall(0.0) >= 0:
        return 0.0
    return float(optimize.brentq(shortfall, 0.0, beta, xtol=1e-6))


def _resampled(particles, log_weights, rng):
    """Systematic resampling of each island."""
    size = len(particles) // ISLANDS
    kept = []
    for island in range(ISLANDS):
        rows = slice(island * size, (island + 1) * size)
        weights = np.exp(log_weights[rows] - log_weights[rows].max())
        ends = np.cumsum(weights) / weights.sum()
        chosen = np.searchsorted(ends, (rng.random() + np.arange(size)) / size)
        kept.append(particles[rows][np.minimum(chosen, size - 1)])
    return np.vstack(kept)


def _log_masses(betas, levels):
    """log of the mass at each temperature relative to that of q, by each island: (temperatures, islands)."""
    steps = np.zeros((len(betas), ISLANDS))
    split = [np.split(level, ISLANDS) for level in levels]
    for k, (higher, lower, step) in enumerate(zip(split, split[1:], -np.diff(betas))):
        steps[k] = [bennett(step * up, step * down) for up, down in zip(higher, lower)]
    found = np.cumsum(steps[::-1], axis=0)[::-1]
    found[0] = np.cumsum(steps, axis=0)[-1]  # added from the other end, as ever
    return found


@numba.njit(cache=True)
def _base_value(base, z, gradient):
    """log q(z); its gradient is written into ``gradient``."""
    w = base.root @ (z - base.mean)
    square = 0.0
    for i in range(w.size):
        square += w[i] * w[i]
    gradient[:] = base.root.T @ w
    for i in range(w.size):
        gradient[i] *= -(base.dof + w.size) / (base.dof + square)
    return base.constant - 0.5 * (base.dof + w.size) * np.log1p(square / base.dof)


@numba.njit(cache=True)
def _move(state, base, rng, particles, beta, n_moves, n_steps, step_size):
    """Hamiltonian moves of the particles (n, d) in place, on log q + b (log s - log q); returns log s - log q there."""
    n, d = particles.shape
    work = workspace(state)
    gradient, of_base, normal = np.empty(d), np.empty(d), np.empty(d)
    z, momentum, force, start_force = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    out = np.empty(n)
    for i in range(n):
        z[:] = particles[i]
        smooth = value_and_gradient(state, z, gradient, work)
        barrier, _ = wall(state, z, normal, work)
        q = _base_value(base, z, of_base)
        force[:] = beta * gradient + (1.0 - beta) * of_base
        now = beta * (smooth + barrier) + (1.0 - beta) * q
        ratio = smooth + barrier - q
        for _ in range(n_moves):
            start_force[:] = force
            z[:] = particles[i]
            kinetic = 0.0
            for k in range(d):
                momentum[k] = rng.standard_normal()
                kinetic += momentum[k] * momentum[k]
            step = step_size * (0.4 + 0.8 * rng.random())
            for _ in range(1 + int(rng.random() * n_steps)):
                for k in range(d):
                    momentum[k] += 0.5 * step * force[k]
                    z[k] += step * momentum[k]
                smooth = value_and_gradient(state, z, gradient, work)
                q = _base_value(base, z, of_base)
                for k in range(d):
                    force[k] = beta * gradient[k] + (1.0 - beta) * of_base[k]
                    momentum[k] += 0.5 * step * force[k]
            barrier, _ = wall(state, z, normal, work)
            then = beta * (smooth + barrier) + (1.0 - beta) * q
            end = 0.0
            for k in range(d):
                end += momentum[k] * momentum[k]
            if np.log(rng.random()) < then - now + 0.5 * (kinetic - end):
                particles[i] = z
                now, ratio = then, smooth + barrier - q
            else:
                force[:] = start_force
        out[i] = ratio
    return out
