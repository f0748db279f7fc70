"""Which coordinates are worth a fit: those in which the log-density is closer to a quadratic."""

from __future__ import annotations

import numpy as np

from kmc.surrogate.coordinates.bends import bends
from kmc.surrogate.coordinates.funnels import funnels
from kmc.surrogate.coordinates.tails import heavy_tails
from kmc.surrogate.coordinates.transport import CURVED, IDENTITY, Misfit, Transport, is_wide
from kmc.threads import each_in_threads

# largest part of the misfit of a quadratic left by a transport that was fitted and is tried: each
# costs a search for hyperparameters
_GAIN = 0.4


def find_transports(x: np.ndarray, log_density: np.ndarray, states: np.ndarray) -> list[Transport]:
    """Return a funnel, heavy tails and a bend that may bring the log-density closer to a quadratic.

    There is none where it is one already. Funnels of hierarchies are among them if they bring it
    any closer: nothing in them was fitted to the values, so that the likelihood alone may judge.

    Parameters
    ----------
    x : ndarray, shape (n, d)
    log_density : ndarray, shape (n,)
    states : ndarray, shape (k, d)
        Draws of the last surrogate.
    """
    dim = x.shape[1]
    plain = Misfit.of(IDENTITY, x, log_density)
    if dim < 2 or plain.sd < CURVED:
        return []
    found = funnels(x, log_density, states)
    if not is_wide(dim):
        tails = each_in_threads(
            lambda tail: Misfit.of(tail, x, log_density),
            heavy_tails(plain.x, plain.log_density, plain.weights, states=states),
        )
        found += sorted(tails, key=lambda m: m.sd)[:1]
        found += bends(x, log_density, states)
    return [m.transport for m in found if m.sd < (_GAIN if m.transport.size else 1.0) * plain.sd]
