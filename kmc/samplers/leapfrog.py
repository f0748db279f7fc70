"""The leapfrog integrator of paths on the surrogate.

Paths are those of H(z, p) = |p|²/2 - b log s(z), b a power, with unit mass in whitened coordinates.
At a learned wall they are reflected as in Skilling's Galilean Monte Carlo: if a step ends behind
it, the momentum is mirrored there, without a kick, and the path continues. Each part is symmetric
in time and preserves volume, also the mirror, since it depends on the position alone. If the end of
a path is behind the wall, the acceptance test decides.
"""

from __future__ import annotations

import numpy as np

from kmc.jitted import value_and_gradient, wall
from kmc.njit import njit

HOPELESS = 1e6  # an energy spread that makes a path useless


@njit(allocates=False)
def leapfrog(state, power, z, momentum, gradient, value, step_size, n_steps, normal, work):
    """Integrate in place; reversible and volume-preserving.

    On entry ``value`` and ``gradient`` are log s and ∇ log s at z (0 behind a wall); on return
    ``gradient`` is that at the end. ``normal`` (d,) is scratch.

    Returns
    -------
    value : float
        log s at the end point.
    energy : float
        H at the end point.
    spread : float
        Largest minus smallest H along the path, both ends included: it is the same for the reversed
        path, so that a divergence test on it preserves reversibility.
    """
    d = z.size
    energy = _energy(momentum, power * value)
    lowest = highest = energy
    for step in range(n_steps):
        for i in range(d):
            momentum[i] += 0.5 * step_size * power * gradient[i]
            z[i] += step_size * momentum[i]
        value = value_and_gradient(state, z, gradient, work)
        _, behind = wall(state, z, normal, work)
        if behind:
            gradient[:] = 0.0
            if step < n_steps - 1:
                _mirror(momentum, normal)
                continue
        for i in range(d):
            momentum[i] += 0.5 * step_size * power * gradient[i]
        energy = _energy(momentum, power * value)
        lowest = min(lowest, energy)
        highest = max(highest, energy)
        if not (energy - lowest < HOPELESS and highest - energy < HOPELESS):  # also NaN
            return value, energy, np.inf
    return value, energy, highest - lowest


@njit(allocates=False)
def _mirror(momentum, normal):
    """Mirror the momentum at the plane with this normal, in place."""
    along = square = 0.0
    for i in range(momentum.size):
        along += momentum[i] * normal[i]
        square += normal[i] * normal[i]
    if square > 0.0:
        for i in range(momentum.size):
            momentum[i] -= 2.0 * along / square * normal[i]


@njit(allocates=False)
def _energy(momentum, log_density):
    kinetic = 0.0
    for i in range(momentum.size):
        kinetic += momentum[i] * momentum[i]
    return 0.5 * kinetic - log_density
