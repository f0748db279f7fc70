"""Step size and length of inner chains, chosen on the surrogate alone, without true evaluations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.samplers.inner_chains import InnerChainOptions, InnerChainsResult, inner_chains
from kmc.samplers.local_mixture import LocalMixture
from kmc.surrogate.density import JitState

# "Tried" is docs/what-was-tried.md; the others were set by hand.
STEP_SIZES = (0.5, 0.4, 0.3, 0.23, 0.17, 0.12, 0.08, 0.05, 0.03, 0.02)  # candidates
MOST_STEPS = 300  # of a trajectory
# mean acceptance on the surrogate; fraction of trajectories with less than .3
GOOD, POOR = 0.93, 0.05
# a path that ends behind a wall is lost, however small its steps
GOOD_AT_WALLS, POOR_AT_WALLS = 0.65, 0.35
INNER_CHAIN_LENGTHS = (6, 12, 25, 50, 100)  # candidates
_FORGOTTEN = 0.05  # correlation with the start, beyond chance (tried: run length)
_TRIALS = 2  # trajectories from each start, for a step size


class Trials(NamedTuple):
    """Starts and mixture for trial inner chains, in whitened coordinates."""

    state: JitState
    starts: np.ndarray  # (n, d)
    mixture: LocalMixture


def longest_axis(z: np.ndarray) -> float:
    """Return the standard deviation of draws (n, d) along their widest direction, at least 1.

    Draws on a curved ridge are wider than the unit of z, in which the quadratic is white;
    trajectories should go along.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.samplers.tuning import longest_axis
    >>> ridge = np.random.default_rng(0).standard_normal((10_000, 2)) @ [[3.0, 3.0], [-0.1, 0.1]]
    >>> round(longest_axis(ridge), 1)
    4.2
    """
    covariance = np.cov(z.T).reshape(z.shape[1], -1)
    return max(float(np.sqrt(np.linalg.eigvalsh(covariance)[-1])), 1.0)


def with_step_size(
    trials: Trials, options: InnerChainOptions, rng: np.random.Generator
) -> InnerChainOptions:
    """Return the options with the largest candidate step of mean surrogate acceptance above 0.93.

    Fewer than 5 % of the trajectories may have an acceptance under 0.3. For a surrogate with a wall
    the limits are 0.65 and 35 %. If no step is good enough, it is the smallest one. Trajectories
    are as long as 300 of the steps at most: a few draws far from the others make an axis of any
    length.
    """
    walled = len(trials.state.wall.bias) > 0
    good, most_poor = (GOOD_AT_WALLS, POOR_AT_WALLS) if walled else (GOOD, POOR)
    for step_size in STEP_SIZES:
        length = min(options.trajectory_length, MOST_STEPS * step_size)
        chosen = options._replace(step_size=step_size, trajectory_length=length)
        trial = chosen._replace(independence_probability=0.0, small_step_probability=0.0)
        found = _run(trials, trials.starts, _TRIALS, options=trial, rng=rng)
        if np.mean(found.acceptance_rate) > good and np.mean(found.poor) / _TRIALS < most_poor:
            break
    return chosen


def choose_inner_chain_length(
    trials: Trials, options: InnerChainOptions, rng: np.random.Generator
) -> int:
    """Return the smallest candidate K for which inner chains forget their start, or the largest.

    The chains make K/2 to K moves. The largest |corr(z_0, z_{K/2})| over coordinates must be under
    0.05 plus the effect of chance: for n independent chains in d coordinates the largest
    correlation is about sqrt(2 log(2d) / n).
    """
    z = starts = trials.starts
    dim = starts.shape[1]
    limit = _FORGOTTEN + np.sqrt(2 * np.log(2 * dim) / len(starts))
    done = 0
    for length in INNER_CHAIN_LENGTHS:
        z = ends_of(trials, z, length // 2 - done, options=options, rng=rng)
        done = length // 2
        if max(abs(_correlation(starts[:, j], z[:, j])) for j in range(dim)) < limit:
            return length
    return INNER_CHAIN_LENGTHS[-1]


def ends_of(
    trials: Trials,
    z: np.ndarray,
    n_moves: int,
    *,
    options: InnerChainOptions,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the end points (n, d) of inner chains from the rows of z (n, d)."""
    return _run(trials, z, n_moves, options=options, rng=rng).position


def _run(
    trials: Trials,
    z: np.ndarray,
    n_moves: int,
    *,
    options: InnerChainOptions,
    rng: np.random.Generator,
) -> InnerChainsResult:
    return inner_chains(
        trials.state,
        np.ascontiguousarray(z),
        [n_moves] * len(z),
        powers=np.ones(len(z)),
        rngs=rng.spawn(len(z)),
        options=options,
        mixture=trials.mixture,
    )


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    return (a @ b) / scale if scale > 0 else 1.0
