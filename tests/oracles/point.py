"""The surrogate at one point: the formulas of :class:`kmc.surrogate.jit_state.SurrogateJitState`,
term by term.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.interpolate import CubicHermiteSpline

SHARPNESS = 0.2  # nats over which the bound takes over


def radial(state, u, c):
    """(1 + r + r²/3) exp(-r), r² = rate |u - c|²."""
    r = math.sqrt(state.rate * ((u - c) @ (u - c)))
    return (1 + r + r**2 / 3) * math.exp(-r)


def radial_slope(state, u, c):
    """Its gradient in c, (d,)."""
    r = math.sqrt(state.rate * ((u - c) @ (u - c)))
    return state.rate / 3 * (1 + r) * math.exp(-r) * (u - c)


def features(state, z):
    """metric z, or z followed by exp(ρ·z) and exp(ρ·z) z for each row ρ of rates."""
    if not len(state.rates):
        return state.metric @ z
    found = list(z)
    for rate in state.rates:
        scale = math.exp(rate @ z)
        found += [scale, *(scale * z)]
    return np.array(found)


def free_value(state, z):
    """log s(z) without its bound."""
    r = z - state.location
    u, psi, power = state.metric @ z, features(state, z), 2 if len(state.rates) else 4
    total = state.constant + state.slope @ z - 0.5 * (r @ state.precision @ r)
    for coefficient, center, bent in zip(state.coefficients, state.centers.T, state.bent_centers.T):
        total += coefficient * (
            radial(state, u, center) + state.both * (1 + (psi @ bent) / state.spread) ** power
        )
    for slope, end, bent_slope, bent in zip(
        state.slopes, state.ends, state.bent_slopes, state.bent_ends
    ):
        total += slope @ radial_slope(state, u, end)
        t = 1 + (psi @ bent) / state.spread
        total += state.both * power * t ** (power - 1) * (psi @ bent_slope) / state.spread
    return total + known(state.known, state.origin + z @ state.back)


def known(splines, x):
    """The sum of Hermite splines, which go on with the slopes of their ends."""
    total = 0.0
    for at, nodes, values, slopes in zip(x, *splines):
        if len(nodes):
            inside = np.clip(at, nodes[0], nodes[-1])
            total += CubicHermiteSpline(nodes, values, slopes)(inside)
            total += (at - inside) * (slopes[0] if at < inside else slopes[-1])
    return total


def bound(state, z):
    """Ceiling - fall (|z|² - reach²)+."""
    return state.ceiling - state.fall * max(z @ z - state.reach**2, 0.0)


def value(state, z):
    """log s(z), the bound included: a soft minimum of both."""
    return -SHARPNESS * float(
        np.logaddexp(-free_value(state, z) / SHARPNESS, -bound(state, z) / SHARPNESS)
    )
