"""Emulated outputs at one point: the formulas of :mod:`kmc.surrogate.emulator.jit_state`, term by
term.
"""

from __future__ import annotations

import math

import numpy as np


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


def value(groups, state, z):
    """log s(z) where there are normal data alone, whose sd may be a parameter, and no prior."""
    x = state.origin + z @ state.back
    eta, data, total = np.concatenate([outputs(group, x) for group in groups]), state.data, 0.0
    for i in range(len(eta)):
        variance = data.variances[i] + sum(
            x[column] ** 2 for column in data.scales[i] if column >= 0
        )
        square = (data.observed[i] - eta[i]) ** 2 / variance
        total += data.constants[i] - 0.5 * (
            (1 + data.repeats[i]) * math.log(2 * math.pi * variance) + square
        )
    outside = max(z @ z - state.reach**2, 0.0)
    return total / state.temperature - state.fall * outside
