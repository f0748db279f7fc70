"""Many cheap moves on the surrogate, before one true evaluation.

Each move leaves a power of the surrogate invariant and is reversible; kinds and lengths are drawn independently of the
state. A sequence of them, the inner chain, therefore satisfies detailed balance with respect to the surrogate. Its end
is accepted as a proposal for the true target p with probability min(1, p(x') s(x) / (p(x) s(x'))): the surrogate
transition method of Liu (2001), "Monte Carlo Strategies in Scientific Computing", chapter 9.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.jitted import value_and_gradient, wall, workspace
from kmc.mcmc.integrators import leapfrog
from kmc.mcmc.local_mixture import draw_from, log_density_of
from kmc.njit import njit

DIVERGENCE = 1000.0  # largest spread of H along a path, in nats


class InnerChainOptions(NamedTuple):
    """How an inner chain moves."""

    step_size: float  # of leapfrog, in whitened coordinates
    trajectory_length: float  # longest integration time; times are uniform on [.2, 1] of it
    independence_probability: float  # probability of a draw from a mixture instead of a trajectory
    small_step_probability: float  # probability that a trajectory takes steps smaller by exp(-2 U), for narrow places


class InnerChainResult(NamedTuple):
    """The end of an inner chain, with statistics."""

    position: np.ndarray
    start_value: float  # log s at the start
    value: float  # log s at the end
    start_wall: float  # term of a learned wall in log s, the same at any power, at the start
    wall: float  # at the end
    n_steps: int  # leapfrog steps
    energy: float  # H at the end of the last trajectory
    acceptance_rate: float  # mean over the trajectories, on the surrogate
    poor: int  # trajectories with an acceptance probability under .3
    diverging: bool
    moved: bool


@njit()
def copy_to(out, x):
    """``out[:] = x``, which takes three seconds to compile, for the message of an error."""
    for i in range(x.size):
        out[i] = x[i]


@njit()
def acceptance_probability(change):
    """The acceptance probability for a change of the log-density; 0 if that is NaN."""
    if change < 0.0:
        return np.exp(change)
    return 1.0 if change >= 0.0 else 0.0  # in numba, min(0.0, nan) is 0.0


@njit()
def inner_chain(state, power, rng, start, n_moves, options, mixture):
    """``n_moves`` moves on s^power from ``start`` (d,): trajectories, and draws from a mixture if it is not empty."""
    d = start.size
    work = workspace(state)
    z = start.copy()
    trial = np.empty(d)
    momentum = np.empty(d)
    gradient = np.empty(d)
    trial_gradient = np.empty(d)
    normal = np.empty(d)
    start_value = value = value_and_gradient(state, z, gradient, work)
    start_wall, behind = wall(state, z, normal, work)
    if behind:
        gradient[:] = 0.0
    now_wall = start_wall
    total_steps = 0
    trajectories = 0
    acceptance = 0.0
    poor = 0
    diverging = False
    moved = False
    last_energy = -power * value
    density = np.nan  # of the mixture at z: not known
    for _ in range(n_moves):
        target = power * value
        copy_to(trial, z)
        jump = len(mixture.heights) > 0 and rng.random() < options.independence_probability
        trial_density = np.nan
        if jump:
            draw_from(mixture, rng, trial)
            if np.isnan(density):
                density = log_density_of(mixture, z)
            trial_density = log_density_of(mixture, trial)
            trial_value = value_and_gradient(state, trial, trial_gradient, work)
            trial_wall, behind = wall(state, trial, normal, work)
            if behind:
                trial_gradient[:] = 0.0
            change = power * trial_value - target + (trial_wall - now_wall) + (density - trial_density)
            probability = acceptance_probability(change)
        else:
            time = options.trajectory_length * (0.2 + 0.8 * rng.random())
            step_size = options.step_size * (0.7 + 0.6 * rng.random())
            if rng.random() < options.small_step_probability:
                step_size *= np.exp(-2.0 * rng.random())
            n_steps = max(1, int(np.round(time / step_size)))
            kinetic = 0.0
            for k in range(d):
                momentum[k] = rng.standard_normal()
                kinetic += momentum[k] * momentum[k]
            copy_to(trial_gradient, gradient)
            trial_value, energy, spread = leapfrog(
                state, power, trial, momentum, trial_gradient, value, step_size, n_steps, normal, work
            )
            trial_wall, _ = wall(state, trial, normal, work)
            total_steps += n_steps
            trajectories += 1
            probability = 0.0
            if spread > DIVERGENCE:
                diverging = True
            else:
                change = 0.5 * kinetic - target - energy + (trial_wall - now_wall)
                probability = acceptance_probability(change)
                last_energy = energy
            acceptance += probability
            if probability < 0.3:
                poor += 1
        if rng.random() < probability:
            copy_to(z, trial)
            copy_to(gradient, trial_gradient)
            value = trial_value
            now_wall = trial_wall
            density = trial_density
            moved = True
    rate = acceptance / trajectories if trajectories else 1.0
    return InnerChainResult(
        z, start_value, value, start_wall, now_wall, total_steps, last_energy, rate, poor, diverging, moved
    )
