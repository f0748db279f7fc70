"""Many Markov chains on a surrogate, at several powers: trajectories and exchanges, jitted.

Chain c samples s(z)^β_c. A trajectory of leapfrog steps in the coordinates z, whitened so that the
momenta are standard normal, is accepted by its energy. Then two chains of different powers may
exchange their places, with probability min(1, exp((β - β')(log s' - log s))): those at small powers
pass from mode to mode, and hand on what they find (Geyer 1991, Markov chain Monte Carlo maximum
likelihood).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kmc.njit import njit
from kmc.surrogate.covariance import Coordinates
from kmc.surrogate.density import Doubt, JitState, deviation, value_and_gradient


@dataclass(frozen=True)
class ChainSettings:
    """Numbers of the trajectories."""

    length: tuple[float, float] = (0.5, 2.5)
    """Shortest and longest time of a trajectory at power 1: a quarter of a period of a standard
    normal is 1.6.
    """
    steps: tuple[int, int] = (3, 20)
    """Fewest and most leapfrog steps."""
    first_step: float = 0.3
    """Step size before tuning, in standard deviations."""
    largest_step: float = 1.0
    """Largest one; beyond 2 leapfrog is unstable for a normal."""
    tuned: tuple[float, float] = (0.08, 0.12)
    """Increase of the log step size after an acceptance, and decrease after a rejection: 60 % are
    accepted.
    """

    trusted: float = 2.0
    """Standard deviations of the regression, in nats, above which what exceeds it is subtracted from its mean: a
    mean without knowledge is often high, and would be taken for mass."""


SETTINGS = ChainSettings()


@dataclass(frozen=True, eq=False)
class Chains:
    """Where chains stand, and how they move."""

    positions: np.ndarray  # (k, d), in x
    powers: np.ndarray  # (k,)
    steps: np.ndarray  # (k,), step sizes of each power's dynamics


class Box(NamedTuple):
    """The region that chains do not leave, in x."""

    lower: np.ndarray  # (d,)
    upper: np.ndarray  # (d,)


class Draws(NamedTuple):
    """States after each iteration, in x, with the log-density of the surrogate."""

    positions: np.ndarray  # (n, k, d)
    log_densities: np.ndarray  # (n, k)
    acceptance: float


def started(positions: np.ndarray, powers: np.ndarray, settings: ChainSettings = SETTINGS) -> Chains:
    """Return chains at these positions (k, d), not tuned."""
    return Chains(positions, powers, np.full(len(positions), settings.first_step))


def sample(
    state: JitState,
    doubt: Doubt,
    coordinates: Coordinates,
    chains: Chains,
    *,
    box: Box,
    iterations: int,
    rng: np.random.Generator,
    tune: bool = True,
    settings: ChainSettings = SETTINGS,
) -> tuple[Draws, Chains]:
    """Run all chains for so many iterations; step sizes are tuned in the first half.

    Starts outside the box are moved to its edge. All random numbers are drawn from ``rng`` first.
    """
    start = np.clip(chains.positions, box.lower, box.upper)
    z = np.ascontiguousarray(coordinates.map(start))
    k, dim = z.shape
    steps = chains.steps.copy()
    positions = np.empty((iterations, k, dim))
    log_densities = np.empty((iterations, k))
    accepted = _run(
        state,
        doubt,
        z,
        np.ascontiguousarray(chains.powers, dtype=float),
        steps,
        rng.standard_normal((iterations, k, dim)),
        rng.random((iterations, k, 5)),
        iterations // 2 if tune else 0,
        np.ascontiguousarray(coordinates.center),
        np.ascontiguousarray(coordinates.inverse),
        np.ascontiguousarray(box.lower, dtype=float),
        np.ascontiguousarray(box.upper, dtype=float),
        _numbers(settings),
        positions,
        log_densities,
    )
    # Rounding must not put a state outside the box.
    x = np.clip(coordinates.back(positions.reshape(-1, dim)), box.lower, box.upper).reshape(positions.shape)
    return Draws(x, log_densities, accepted), replace(chains, positions=x[-1], steps=steps)


def _numbers(settings):
    numbers = *settings.length, *settings.steps, settings.largest_step, *settings.tuned, settings.trusted
    return tuple(map(float, numbers))


@njit()
def _run(
    state,
    doubt,
    z,
    powers,
    steps,
    normals,
    uniforms,
    tuned,
    center,
    inverse,
    lower,
    upper,
    numbers,
    positions,
    log_densities,
):
    iterations, k, dim = normals.shape
    work = np.empty(max(state.centers.shape[1], len(doubt.points)) + 2 * dim)
    gradients, values = np.empty((k, dim)), np.empty(k)
    for c in range(k):
        values[c] = value_and_gradient(state, z[c], gradients[c], work)
        values[c] -= max(deviation(doubt, state, z[c], work) - numbers[7], 0.0)
    shortest, longest, fewest, most, largest, up, down, trusted = numbers
    place, slope, momentum = np.empty(dim), np.empty(dim), np.empty(dim)
    accepted = 0
    for n in range(iterations):
        for c in range(k):
            # A trajectory; time runs slower where the density is flattened.
            power = powers[c]
            step = steps[c] * (0.7 + 0.6 * uniforms[n, c, 0])
            time = shortest + (longest - shortest) * uniforms[n, c, 1]
            count = int(min(max(np.ceil(time / steps[c]), fewest), most))
            step /= np.sqrt(power)
            energy = -power * values[c]
            for i in range(dim):
                place[i] = z[c, i]
                slope[i] = gradients[c, i]
                momentum[i] = normals[n, c, i]
                energy += 0.5 * momentum[i] ** 2
            value = values[c]
            for _ in range(count):
                for i in range(dim):
                    momentum[i] += 0.5 * step * power * slope[i]
                    place[i] += step * momentum[i]
                value = value_and_gradient(state, place, slope, work)
                for i in range(dim):
                    momentum[i] += 0.5 * step * power * slope[i]
            end = -power * value
            for i in range(dim):
                end += 0.5 * momentum[i] ** 2
            taken = np.log(uniforms[n, c, 2]) < energy - end and _inside(place, center, inverse, lower, upper)
            if taken:
                # Doubt lowers the value, so it matters only here.
                penalty = max(deviation(doubt, state, place, work) - trusted, 0.0)
                value -= penalty
                taken = np.log(uniforms[n, c, 2]) < energy - end - power * penalty
            if taken:
                accepted += 1
                values[c] = value
                z[c] = place
                gradients[c] = slope
            if n < tuned:
                factor = np.exp(up) if taken else np.exp(-down)
                steps[c] = min(max(steps[c] * factor, 1e-3), largest)

        # Exchanges with a chain at another power.
        for c in range(k):
            other = int(uniforms[n, c, 3] * k)
            gain = (powers[c] - powers[other]) * (values[other] - values[c])
            if powers[c] != powers[other] and np.log(uniforms[n, c, 4]) < gain:
                values[c], values[other] = values[other], values[c]
                for i in range(dim):
                    z[c, i], z[other, i] = z[other, i], z[c, i]
                    gradients[c, i], gradients[other, i] = gradients[other, i], gradients[c, i]
        positions[n] = z
        log_densities[n] = values
    return accepted / (iterations * k)


@njit()
def _inside(z, center, inverse, lower, upper):
    """Whether x of z is in the box; False for NaN."""
    dim = z.size
    for j in range(dim):
        x = center[j]
        for i in range(dim):
            x += z[i] * inverse[i, j]
        if not lower[j] <= x <= upper[j]:
            return False
    return True
