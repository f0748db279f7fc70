"""A repair of the surrogate where it is shallow but the truth is deep: evaluated points there are added to the data."""

from __future__ import annotations

import numpy as np

from kmc.surrogates import jit_state
from kmc.surrogates.depth import NEGLIGIBLE, depth_weights
from kmc.surrogates.expansion import Data, Expansion, fit_expansion
from kmc.surrogates.fit_task import FitTask
from kmc.surrogates.surrogate import Surrogate, make_jit_state
from kmc.surrogates.terms import TermExpansion, fit_terms

# "Tried" is docs/what-was-tried.md; the others were set by hand.
_REPAIRS = 4  # passes in which violators are added
_MOST_VIOLATORS = 50  # at a time
_REPAIR_DEPTH = 10.0  # nats below the edge: value assigned to violators (tried: edge + 10)
_REPAIR_WEIGHT = 0.02  # their weight, relative to the largest
_SPOILT = 1.3  # times the error: a repair that increases it more is undone (tried: 1.3)
_SPOILT_NOISY = 1.2  # the same for noisy values (tried: noisy targets)
_HARMLESS = 0.1  # nats: repairs that leave a smaller error are never undone


def repaired(surrogate: Surrogate, data: Data, task: FitTask) -> Surrogate:
    """Add evaluated points that the surrogate puts in the bulk but the truth far outside, while the bulk allows it.

    They become centers and lightly weighted data at a depth where no chain would go.
    """
    n, weights = len(data.z), data.weights
    target = task.top - task.edge - _REPAIR_DEPTH - task.necks.correction(task.x)
    bare = make_jit_state(surrogate.trend, task.edge)
    for _ in range(_REPAIRS):
        bad = _violators(surrogate, task)
        if not len(bad):
            break
        z = np.ascontiguousarray(surrogate.whitening(task.x[bad]))
        light = np.concatenate([data.weights, np.full(len(z), _REPAIR_WEIGHT * data.weights.max())])
        slopes = data.slopes
        if slopes:
            slopes = slopes._replace(weights=slopes.weights / light.sum())
        data = data._replace(
            slopes=slopes,
            z=np.vstack([data.z, z]),
            residual=np.concatenate([data.residual, target[bad] - jit_state.values(bare, z)]),
            weights=light / light.sum(),
            centers=np.vstack([data.centers, z]),
        )
        old = surrogate.expansion
        if isinstance(old, TermExpansion):
            new: Expansion | TermExpansion = fit_terms(data, old.terms, n_searched=old.n_searched)
        else:
            new = fit_expansion(data, old.metric, (old.factor,), jitter=task.options.jitter)
        error_before, error = (float(np.sqrt(weights @ e.residuals[:n] ** 2)) for e in (old, new))
        if error > max((_SPOILT_NOISY if data.noisy else _SPOILT) * error_before, _HARMLESS):
            break  # a wall that a smooth kernel can represent only at the expense of the bulk
        surrogate = surrogate.with_expansion(new)
    return surrogate


def _violators(surrogate: Surrogate, task: FitTask) -> np.ndarray:
    """Indices of points, the worst first."""
    deep = np.flatnonzero(depth_weights(task.depth, task.edge) <= NEGLIGIBLE)
    if not len(deep):
        return deep
    claimed = task.top - surrogate.log_density(task.x[deep]) - task.necks.correction(task.x[deep])
    order = np.argsort(claimed)
    return deep[order[claimed[order] < task.edge]][:_MOST_VIOLATORS]
