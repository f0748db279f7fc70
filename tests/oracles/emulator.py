"""Emulated outputs at one point: the formulas of :mod:`kmc.surrogate.emulator.jit_state`, term by
term.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from kmc.surrogate.known import ABOVE


def outputs(group, x):
    """η of a group at x (d,)."""
    v = (x[group.inputs] - group.center) @ group.whitening
    w = v @ group.metric
    p = len(v)
    phi = [*v, *(v[i] * v[j] for i in range(p) for j in range(i, p))]
    a = group.constant + group.polynomial @ phi
    for weights, center in zip(group.sections.T, group.centers.T):
        r = math.sqrt(group.rate * ((w - center) @ (w - center)))
        kernel = group.matern * (1 + r + r**2 / 3) * math.exp(-r)
        kernel += group.bent * (1 + w @ center / group.spread) ** 4
        a = a + kernel * weights
    return group.offset + group.basis @ a


def spline(splines, i, u):
    """f_i(u), with the straight lines beyond the nodes."""
    nodes, values, slopes = splines.nodes[i], splines.values[i], splines.slopes[i]
    inside = min(max(u, nodes[0]), nodes[-1])
    end = slopes[0] if u < nodes[0] else slopes[-1]
    return CubicHermiteSpline(nodes, values, slopes)(inside) + end * (u - inside)


def prior_of(prior, noncentered, u):
    """x (d,), and the log-density of u that is known: parameters are x_i, or exp(x_i) if they are
    positive.
    """
    x, theta, total = u.copy(), u.copy(), 0.0
    for i in range(len(u)):
        mean, sd = prior.numbers[i]
        if prior.means[i] >= 0:
            mean = theta[prior.means[i]]
        if prior.sds[i] >= 0:
            sd = theta[prior.sds[i]]
        if noncentered[i]:
            x[i] = mean + sd * u[i]
            total += spline(prior.known, i, u[i])
        else:
            total += spline(prior.known, i, (x[i] - mean) / sd) - math.log(sd)
        theta[i] = math.exp(x[i]) if prior.transforms.kinds[i] == ABOVE else x[i]
    return x, theta, total


def value(groups, state, z):
    """log s(z) where there are normal data alone, whose sd may be a parameter."""
    u = state.origin + z @ state.back
    x, theta, total = prior_of(state.parameters, state.noncentered, u)
    eta, data = np.concatenate([outputs(group, x) for group in groups]), state.data
    total *= state.temperature
    for i in range(len(eta)):
        variance = data.variances[i] + sum(
            theta[column] ** 2 for column in data.scales[i] if column >= 0
        )
        square = (data.observed[i] - eta[i]) ** 2 / variance
        total += data.constants[i] - 0.5 * (
            (1 + data.repeats[i]) * math.log(2 * math.pi * variance) + square
        )
    outside = max(z @ z - state.reach**2, 0.0)
    return total / state.temperature - state.fall * outside
