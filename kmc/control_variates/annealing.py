"""The mass of a surrogate by annealing between it and a Student-t density, in both directions.

Particles follow the path log π_b = (1 - b) log q + b log s (Neal 2001, "Annealed importance
sampling", Statistics and Computing 11), where q is a Student-t density whose location and scale are
the mean and covariance of draws from s. The first temperature is reached by importance sampling
from many draws of q, which cost an evaluation of s each: so its particles have the tails of q,
which moves alone would miss. Temperatures are chosen on the way up, where weights are bounded as q
has heavy tails, so that neighbors overlap. Each ratio of neighboring masses is estimated as by
Bennett (1976, Journal of Computational Physics 22), from particles of both, with the controls of
:mod:`kmc.control_variates.chain_means` for the gradient of π_b.

On the way down particles begin as draws from s, and on the way up as weighted draws from q. Moves
are Hamiltonian trajectories, and on the way up jumps to weighted draws from q. Particles that go
down know only the modes of s that contain draws; particles that go up find all modes that are wide
enough. So the two estimates differ if s has a mode without draws. Otherwise the estimate is that on
the way up: particles that go down are late in filling the tails.

Far from all of its draws s counts as zero: no proposal of a run comes there, and a surrogate can be
anything. It also counts as zero outside of a region, if only the mass in that region is asked for.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize
from scipy.special import expit, gammaln, logsumexp

from kmc.control_variates.chain_means import ChainMeans, SteinControls, most_controls
from kmc.control_variates.domain import EVERYWHERE, Region, holds
from kmc.control_variates.replicate import bennett
from kmc.interrupts import uninterrupted
from kmc.jitted import value_and_gradient, wall, workspace
from kmc.njit import dot, njit
from kmc.samplers.inner_chains import copy_to
from kmc.surrogate.covariance import terms_of
from kmc.surrogate.density import Component
from kmc.surrogate.jit_state import gradients

ISLANDS = 32  # independent groups of particles, whose spread is the stated error
_DOF = 6.0
_FARTHEST = 1.5  # radius beyond which s counts as zero, relative to that of the farthest draw
_ZERO = -1e9  # log of s there, relative to q
_OVERLAP = 0.8  # effective fraction of the particles after one step
_UP, _DOWN = (3, 8), (6, 0)  # trajectories per temperature, and jumps after each of them
_POOL, _MOST_NUMBERS = 2**18, 2**23  # draws from q; fewer, if these would be more numbers
# effective fraction of these at the first temperature, and the highest one
_FIRST_OVERLAP, _MOST_FIRST = 0.5, 0.5
_KEPT = 4  # of these are for each weighted one, that particles jump to
_PILOT = 8192  # further ones, for the coefficients of control variates
_LENGTH = 1.6  # length of a trajectory, in units of the longest scale
_MOST_STEPS = 200


class Base(NamedTuple):
    """log q(z) = constant - (dof + d)/2 log(1 + |root (z - mean)|² / dof).

    Where it is below ``least``, s is zero.
    """

    mean: np.ndarray
    root: np.ndarray  # (d, d)
    dof: float
    constant: float
    least: float

    @classmethod
    def of(cls, z: np.ndarray) -> Base:
        """Return the base with the mean of draws (n, d).

        Its scale matrix is their covariance.
        """
        d = z.shape[1]
        covariance = np.atleast_2d(np.cov(z.T)) + 1e-12 * np.eye(d)
        factor = np.linalg.cholesky(covariance)
        root = linalg.solve_triangular(factor, np.eye(d), lower=True)
        constant = gammaln(0.5 * (_DOF + d)) - gammaln(0.5 * _DOF) - 0.5 * d * np.log(_DOF * np.pi)
        constant = float(constant + np.log(np.diag(root)).sum())
        farthest = np.max(np.sum(((z - z.mean(axis=0)) @ root.T) ** 2, axis=1))
        least = constant - 0.5 * (_DOF + d) * np.log1p(_FARTHEST**2 * farthest / _DOF)
        return cls(z.mean(axis=0), root, _DOF, constant, float(least))

    def draws(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return draws (n, d)."""
        normal = rng.standard_normal((n, len(self.mean))) / np.sqrt(
            rng.chisquare(self.dof, (n, 1)) / self.dof
        )
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
        Inverse temperatures from 0 to 1, and the log-mass at each of them by the particles that go
        down, and up.
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
        """The estimate on the way up if the two agree, otherwise that of the modes with draws."""
        return self.down if self._disagree else self.up

    @property
    def se(self) -> float:
        """The error of ``log_mass``.

        A difference of the two that is small, but not by chance, is a part of it.
        """
        own = self.down_se if self._disagree else self.up_se
        if abs(self.gap) > GAP:
            return float(np.hypot(own, 0.5 * min(abs(self.up - self.down), LEAST_GAP)))
        return own

    @property
    def _disagree(self) -> bool:
        return abs(self.gap) > GAP and abs(self.up - self.down) > LEAST_GAP


GAP, LEAST_GAP = 4.0, 0.05
"""Largest difference between the two directions, in standard errors; and in nats.

Smaller differences in nats are no other mode.
"""


def mass_of(
    component: Component,
    z: np.ndarray,
    step_size: float,
    rng: np.random.Generator,
    *,
    others: np.ndarray | None = None,
    region: Region = EVERYWHERE,
) -> Mass:
    """Estimate the mass of a surrogate in a region from draws z (n, d) there, in its coordinates.

    Of n draws, a multiple of ``ISLANDS`` are particles. With further draws, ``others`` (m, d),
    there are control variates, but only for the mass everywhere: at the border of a region they
    would have other means than zero.
    """
    base = Base.of(z)
    size = len(z) // ISLANDS
    z = np.ascontiguousarray(rng.permutation(z)[: size * ISLANDS])
    path = _Path(component, base, step_size, rng, others, region)
    pool, first = path.first()

    levels = [pool.some(len(z), rng)]
    while levels[-1].beta < 1.0:
        levels.append(
            path.next(
                levels[-1], _next(levels[-1].log_ratios, levels[-1].beta, _OVERLAP), _UP, pool
            )
        )
    particles, betas = levels[-1].particles, [level.beta for level in levels]
    up_path = path.log_masses(levels[::-1]) + first

    levels = [path.level(z, 1.0)]
    for beta in betas[-2:0:-1]:
        levels.append(path.next(levels[-1], beta, _DOWN, pool))
    levels.append(pool.some(len(z), rng))
    down_path = path.log_masses(levels) + first
    betas.insert(0, 0.0)
    down_path, up_path = (np.vstack([own, np.zeros((1, ISLANDS))]) for own in (down_path, up_path))
    volume, root = component.log_volume, np.sqrt(ISLANDS)
    down, up = down_path[0], up_path[0]
    return Mass(
        down=float(np.mean(down)) + volume,
        up=float(np.mean(up)) + volume,
        down_se=float(np.std(down, ddof=1) / root),
        up_se=float(np.std(up, ddof=1) / root),
        temperatures=len(betas),
        particles=particles,
        path=np.array(
            [betas, down_path.mean(axis=1)[::-1] + volume, up_path.mean(axis=1)[::-1] + volume]
        ),
    )


class _Level(NamedTuple):
    """Particles at one temperature."""

    beta: float
    particles: np.ndarray  # (n, d)
    log_ratios: np.ndarray  # (n,), log s - log q

    def some(self, n: int, rng: np.random.Generator) -> _Level:
        """Return the level with n of its particles, chosen at random."""
        chosen = np.sort(rng.choice(len(self.particles), n, replace=False))
        return _Level(
            self.beta, np.ascontiguousarray(self.particles[chosen]), self.log_ratios[chosen]
        )


_NOWHERE = _Level(0.0, np.zeros((0, 1)), np.zeros(0))


class _Path:
    """Moves and values along the path."""

    def __init__(
        self,
        component: Component,
        base: Base,
        step_size: float,
        rng: np.random.Generator,
        others: np.ndarray | None,
        region: Region,
    ):
        self._state, self._base, self._rng = component.jit_state, base, rng
        self._step_size, self._region = step_size, region
        self._others = others if SteinControls.suits(component) and not len(region.points) else None

    def level(self, particles: np.ndarray, beta: float) -> _Level:
        """Return the level of particles (n, d) at a temperature, without moving them."""
        with uninterrupted():
            ratios = _move(
                self._state,
                self._base,
                self._region,
                self._rng,
                particles,
                beta,
                0,
                1,
                1.0,
                0,
                _NOWHERE,
            )
        return _Level(beta, particles, ratios)

    def first(self) -> tuple[_Level, np.ndarray]:
        """Return many particles at the first temperature, and each island's log-mass there.

        The log-mass is relative to that of q.
        """
        n = min(_POOL, _MOST_NUMBERS // len(self._base.mean)) // ISLANDS * ISLANDS
        drawn = self.level(self._base.draws(self._rng, n), 0.0)
        beta = min(
            _next(drawn.log_ratios[drawn.log_ratios > _ZERO], 0.0, _FIRST_OVERLAP), _MOST_FIRST
        )
        log_weights = beta * drawn.log_ratios
        shift = log_weights.max()
        log_mass = (
            np.log(self._pool_means(drawn.particles, np.exp(log_weights - shift), beta, shift))
            + shift
        )
        kept = resampled(np.arange(n), log_weights, self._rng, size=n // _KEPT)
        return _Level(
            beta, np.ascontiguousarray(drawn.particles[kept]), drawn.log_ratios[kept]
        ), log_mass

    def _pool_means(
        self, z: np.ndarray, weights: np.ndarray, beta: float, shift: float
    ) -> np.ndarray:
        """Return means of weights (n,) at draws from q, less control variates, by each island.

        The control variates are polynomials whose means under q are zero. Their coefficients are
        from further draws.
        """
        by_island = weights.reshape(ISLANDS, -1)
        plain = by_island.mean(axis=1)
        pilot = self.level(self._base.draws(self._rng, _PILOT), 0.0)
        controls = SteinControls(
            lambda rows: self._slopes(rows, 0.0), pilot.particles, self._rng, most=0
        )
        if controls.size > most_controls(_PILOT):
            return plain
        values = np.exp(beta * pilot.log_ratios - shift)
        of_pilot = controls(pilot.particles)
        coefficients = np.linalg.lstsq(
            of_pilot - of_pilot.mean(axis=0), values - values.mean(), rcond=1e-6
        )[0]
        parts = np.array_split(z, len(z) // _PILOT + 1)
        fitted = np.concatenate([controls.contract(rows, coefficients) for rows in parts])
        less = by_island - fitted.reshape(ISLANDS, -1)
        found = less.mean(axis=1)
        return found if np.all(found > 0.0) and np.var(less) < np.var(by_island) else plain

    def next(self, last: _Level, beta: float, moves: tuple[int, int], pool: _Level) -> _Level:
        """Resample a level's particles for a neighboring temperature, and move them a few times."""
        chosen = resampled(
            np.arange(len(last.particles)), (beta - last.beta) * last.log_ratios, self._rng
        )
        particles = np.ascontiguousarray(last.particles[chosen])
        steps = max(1, int(min(_LENGTH / self._step_size, _MOST_STEPS)))
        trajectories, jumps = moves
        given = self._state, self._base, self._region, self._rng, particles, beta
        with uninterrupted():
            ratios = _move(*given, trajectories, steps, self._step_size, jumps, pool)
        return _Level(beta, particles, ratios)

    def log_masses(self, levels: list[_Level]) -> np.ndarray:
        """Return log-masses from temperature one to q, relative to q's, (temperatures, islands).

        The ratio of neighbors is exp(c) E_lower[l(u - c)] / E_higher[l(c - u)] for any c, where u
        is the log of the ratio of their densities and l(u) = 1 / (1 + exp(-u)). The best c is
        Bennett's, and means have control variates.
        """
        constants: list[float] = []
        of_level: list[list[np.ndarray]] = [[] for _ in levels]
        for k, (higher, lower) in enumerate(itertools.pairwise(levels)):
            step = higher.beta - lower.beta
            c = bennett(step * higher.log_ratios, step * lower.log_ratios)
            constants.append(c)
            of_level[k].append(expit(c - step * higher.log_ratios))
            of_level[k + 1].append(expit(step * lower.log_ratios - c))
        means = [self._means(level, np.column_stack(own)) for level, own in zip(levels, of_level)]
        steps = np.zeros((len(levels), ISLANDS))
        for k, c in enumerate(constants):
            steps[k] = c + np.log(means[k + 1][:, 0]) - np.log(means[k][:, -1])
        found = np.cumsum(steps[::-1], axis=0)[::-1]
        found[0] = np.cumsum(steps, axis=0)[-1]  # added from the other end, as ever
        return found

    def _means(self, level: _Level, values: np.ndarray) -> np.ndarray:
        """Return means by island (islands, k) of positive values (n, k) at a level's particles."""
        z, by_island = level.particles, values.reshape(ISLANDS, -1, values.shape[1])
        most = most_controls(len(z))
        if self._others is None or terms_of(z.shape[1]) > most:
            return by_island.mean(axis=1)
        n = len(self._others)
        like = np.where(
            self._rng.random((n, 1)) < level.beta, self._others, self._base.draws(self._rng, n)
        )
        controls = SteinControls(
            lambda rows: self._slopes(rows, level.beta), like, self._rng, most=most
        )
        means = ChainMeans()
        means.extend(by_island, controls(z).reshape(ISLANDS, -1, controls.size))
        found = means.by_chain(lambda part: part)
        return np.where(found > 0.0, found, by_island.mean(axis=1))

    def _slopes(self, z: np.ndarray, beta: float) -> np.ndarray:
        base = self._base
        w = (z - base.mean) @ base.root.T
        of_base = (
            -(base.dof + z.shape[1])
            / (base.dof + np.sum(w**2, axis=1, keepdims=True))
            * (w @ base.root)
        )
        return (1.0 - beta) * of_base + (beta * gradients(self._state, z) if beta > 0.0 else 0.0)


def _next(log_ratios: np.ndarray, beta: float, overlap: float) -> float:
    """Return the next higher inverse temperature, at most 1.

    It has the required effective fraction of particles.
    """

    def shortfall(higher):
        weights = (higher - beta) * log_ratios
        share = np.exp(2 * logsumexp(weights) - logsumexp(2 * weights)) / len(weights)
        return share - overlap

    if shortfall(1.0) >= 0:
        return 1.0
    return float(optimize.brentq(shortfall, beta, 1.0, xtol=1e-6))


def resampled(
    particles: np.ndarray,
    log_weights: np.ndarray,
    rng: np.random.Generator,
    *,
    size: int | None = None,
) -> np.ndarray:
    """Resample systematically (n, d), in the order of the particles.

    So copies stay in the island of their original. Resampling is by the weights of all particles:
    those of small islands, normalized there, lag behind the temperature.
    """
    ends = np.cumsum(np.exp(log_weights - log_weights.max()))
    size = len(particles) if size is None else size
    at = (rng.random() + np.arange(size)) / size
    return particles[np.minimum(np.searchsorted(ends / ends[-1], at), len(particles) - 1)]


@njit(allocates=False)
def _base_value(base, z, gradient, scratch):
    """Return log q(z), and write its gradient into ``gradient``; ``scratch`` is (2, d)."""
    away, w = scratch[0], scratch[1]
    for i in range(w.size):
        away[i] = z[i] - base.mean[i]
    dot(base.root, away, w)
    square = 0.0
    for i in range(w.size):
        square += w[i] * w[i]
    dot(base.root.T, w, gradient)
    for i in range(w.size):
        gradient[i] *= -(base.dof + w.size) / (base.dof + square)
    return base.constant - 0.5 * (base.dof + w.size) * np.log1p(square / base.dof)


@njit()
def _move(state, base, region, rng, particles, beta, n_moves, n_steps, step_size, n_jumps, pool):
    """Move the particles (n, d) in place, and return log s - log q at them.

    The log-density is log q + b (log s - log q) in a region. Moves are trajectories, and after each
    of them jumps to particles of the pool that belong to the same island: so errors of islands are
    independent.
    """
    n, d = particles.shape
    vectors, work, out = np.empty((9, d)), workspace(state), np.empty(n)
    _move_all(
        state,
        base,
        region,
        rng,
        particles,
        beta,
        n_moves,
        n_steps,
        step_size,
        n_jumps,
        pool,
        vectors,
        work,
        out,
    )
    return out


@njit(allocates=False)
def _move_all(
    state,
    base,
    region,
    rng,
    particles,
    beta,
    n_moves,
    n_steps,
    step_size,
    n_jumps,
    pool,
    vectors,
    work,
    out,
):
    """Do what :func:`_move` does, and write into ``out`` (n,).

    The scratch arrays are ``vectors`` (9, d) and ``work``, those of the state.
    """
    n, d = particles.shape
    gradient, of_base, normal, z = vectors[0], vectors[1], vectors[2], vectors[3]
    momentum, force, start_force, scratch = vectors[4], vectors[5], vectors[6], vectors[7:]
    n_pool = len(pool.log_ratios) // ISLANDS
    for i in range(n):
        first = n_pool * (i * ISLANDS // n)
        copy_to(z, particles[i])
        smooth = value_and_gradient(state, z, gradient, work)
        barrier, _ = wall(state, z, normal, work)
        q = _base_value(base, z, of_base, scratch)
        for k in range(d):
            force[k] = beta * gradient[k] + (1.0 - beta) * of_base[k]
        now = beta * (smooth + barrier) + (1.0 - beta) * q
        ratio = smooth + barrier - q if q >= base.least and holds(region, z) else _ZERO
        for _ in range(n_moves):
            copy_to(start_force, force)
            copy_to(z, particles[i])
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
                q = _base_value(base, z, of_base, scratch)
                for k in range(d):
                    force[k] = beta * gradient[k] + (1.0 - beta) * of_base[k]
                    momentum[k] += 0.5 * step * force[k]
            barrier, _ = wall(state, z, normal, work)
            then = beta * (smooth + barrier) + (1.0 - beta) * q
            end = 0.0
            for k in range(d):
                end += momentum[k] * momentum[k]
            accepted = q >= base.least and np.log(rng.random()) < then - now + 0.5 * (kinetic - end)
            if accepted and holds(region, z):
                copy_to(particles[i], z)
                now, ratio = then, smooth + barrier - q
            else:
                copy_to(force, start_force)
            jumped = False
            for _ in range(n_jumps):
                j = first + int(rng.random() * n_pool)
                if np.log(rng.random()) < (beta - pool.beta) * (pool.log_ratios[j] - ratio):
                    copy_to(particles[i], pool.particles[j])
                    ratio = pool.log_ratios[j]
                    jumped = True
            if jumped:
                copy_to(z, particles[i])
                smooth = value_and_gradient(state, z, gradient, work)
                q = _base_value(base, z, of_base, scratch)
                for k in range(d):
                    force[k] = beta * gradient[k] + (1.0 - beta) * of_base[k]
                now = beta * ratio + q
        out[i] = ratio
