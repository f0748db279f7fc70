"""Many chains on the surrogate, at several powers, for learning.

They move by the inner chains of the main phase, in blocks. Between two blocks, pairs of chains at
different powers β exchange their states with probability min(1, exp((β - β')(log s' - log s))):
those at small powers pass from mode to mode, and hand on what they find (Geyer 1991, Markov chain
Monte Carlo maximum likelihood).

They are compiled beside the first evaluations: it takes twenty seconds when nothing is in the cache
yet.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kmc.kernel_hmc.kinds import Kind, kinds_of
from kmc.kernel_hmc.modes import Modes
from kmc.samplers.inner_chains import InnerChainOptions, inner_chains
from kmc.samplers.local_mixture import local_mixture
from kmc.samplers.tuning import Trials, longest_axis, with_step_size
from kmc.surrogate.emulator.jit_state import log_densities
from kmc.surrogate.emulator.structure import Structure
from kmc.surrogate.jit_state import gradients
from kmc.surrogate.process import Process, Seen

TRUSTED = 2.0
"""Nats above which the excess of a standard deviation is subtracted from the log-density.

A mean without knowledge is often high, and would be taken for mass.
"""

MOVES = InnerChainOptions(
    step_size=0.3, trajectory_length=2.5, independence_probability=0.5, small_step_probability=0.4
)
"""How chains move, in learning and after it, in units of their draws' standard deviation."""

# number of draws from above, their degrees of freedom, and relative radius
_WIDE, _DOF, _BEYOND = 8192, 6.0, 2.0

_lock = threading.Lock()
_threads: dict[type, threading.Thread] = {}  # by the kind of surrogate that they compile first


@dataclass(frozen=True, eq=False)
class Chains:
    """Where chains stand, and how they move."""

    positions: np.ndarray  # (k, d), in x
    powers: np.ndarray  # (k,)
    archive: np.ndarray  # (n, d), in x: the mixture is around its points
    options: InnerChainOptions
    # share of the last blocks at power 1 that ended where the density is not known
    lost: float = 0.0


def tuned(process: Process, chains: Chains, rng: np.random.Generator) -> Chains:
    """Return the chains with trajectories and a step size that suit the process."""
    archive = process.coordinates(chains.archive)
    trials = Trials(
        process.jit_state, process.coordinates(chains.positions), local_mixture(archive)
    )
    return replace(chains, options=tuned_moves(trials, archive, rng))


def tuned_moves(trials: Trials, archive: np.ndarray, rng: np.random.Generator) -> InnerChainOptions:
    """Return moves with trajectories and a step size that suit draws (n, d) of the surrogate."""
    length = MOVES.trajectory_length * longest_axis(archive)
    return with_step_size(trials, MOVES._replace(trajectory_length=length), rng)


def sample(
    process: Process,
    chains: Chains,
    rng: np.random.Generator,
    *,
    blocks: int,
    moves: int = 2,
    ratio: float = 1.0,
    slope: float = 1.0,
    modes: Modes | None = None,
) -> tuple[np.ndarray, Chains]:
    """Return states (blocks, k, d) after each block of so many moves, in x, and the final chains.

    Starts outside the ball of the process are moved to its edge. Errors are taken to be ``ratio``
    times the process's standard deviation, and ``slope`` times what they are above ``TRUSTED`` is
    subtracted. With modes, chains jump between these after each block.
    """
    powers, z = chains.powers, process.coordinates(chains.positions)
    x = process.back(z * np.minimum(process.reach / np.linalg.norm(z, axis=1, keepdims=True), 1.0))
    mixture, rngs = local_mixture(process.coordinates(chains.archive)), rng.spawn(len(x))

    def moved(x):
        start, lengths = process.coordinates(x), [moves] * len(x)
        found = inner_chains(
            process.jit_state,
            start,
            lengths,
            powers=powers,
            rngs=rngs,
            options=chains.options,
            mixture=mixture,
        )
        stuck = np.all(found.position == start, axis=1)
        return np.where(stuck[:, None], x, process.back(found.position))  # without rounding errors

    doubt = doubts(process, x, ratio, slope)
    visited, lost = [], []
    for _ in range(blocks):
        ends = moved(x)
        more = doubts(process, ends, ratio, slope)
        lost.append(np.mean((process.beyond(ends) | (more > 0.0))[powers == 1.0]))
        taken = np.log(rng.random(len(x))) < powers * (doubt - more)
        x, doubt = np.where(taken[:, None], ends, x), np.where(taken, more, doubt)
        now, volume = _heights(process, x, doubt)
        if modes is not None:
            ends, change = modes.jump(rng, x)
            more = doubts(process, ends, ratio, slope)
            then, after = _heights(process, ends, more)
            gain = powers * (then - now) + after - volume + change
            taken = np.log(rng.random(len(x))) < gain
            x, doubt = np.where(taken[:, None], ends, x), np.where(taken, more, doubt)
            now = np.where(taken, then, now)
        order = _exchanged(now, powers, rng)
        x, doubt = x[order], doubt[order]
        visited.append(x)
    return np.array(visited), replace(chains, positions=x, lost=float(np.mean(lost)))


def from_above(process: Process, z: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return about n draws of the process in its coordinates z (n, d), by importance sampling.

    They are from a wide density. That is a Student-t density with the mean and covariance of draws
    (k, d) of its chains, and ends a little beyond them. Unlike chains, its draws are in modes
    behind a valley, too, as a surrogate has where it was never evaluated. Chains that are stuck, at
    fewer than d + 1 points or in a plane, have no covariance: then these points are returned.
    """
    dim = z.shape[1]
    covariance, stuck = np.cov(z.T).reshape(dim, dim), len(np.unique(z, axis=0)) <= dim
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        stuck = True
    if stuck:
        return z[rng.integers(len(z), size=n)]
    farthest = np.max(np.sum(np.linalg.solve(root, (z - z.mean(axis=0)).T) ** 2, axis=0))
    normal = rng.standard_normal((_WIDE, dim)) / np.sqrt(rng.chisquare(_DOF, (_WIDE, 1)) / _DOF)
    square = np.sum(normal**2, axis=1)
    normal, square = normal[square < _BEYOND**2 * farthest], square[square < _BEYOND**2 * farthest]
    wide = z.mean(axis=0) + normal @ root.T
    smooth, wall = process.parts(wide)
    log_weights = smooth + wall + 0.5 * (_DOF + dim) * np.log1p(square / _DOF)
    weights = np.exp(log_weights - log_weights.max())
    return wide[rng.choice(len(wide), n, p=weights / weights.sum())]


def doubts(process: Process, x: np.ndarray, ratio: float, slope: float) -> np.ndarray:
    """Return what is subtracted from the log-density at the rows of x (k, d), (k,)."""
    sd = process.standard_deviations(x)
    return slope * np.maximum(ratio * sd - TRUSTED, 0.0)


def _heights(process, x, doubt):
    """Return the log-density of the transported u at x (k, d), less the doubt, and log |du/dx|.

    Chains sample its powers: powers of the density of x would be other densities.
    """
    volume = process.transport.log_jacobian(x)
    return process.log_density(x) - volume - doubt, volume


def _exchanged(heights, powers, rng):
    """Return which state each chain has after exchanges in random pairs.

    ``heights`` (k,) are their log-densities.
    """
    k = len(powers)
    order = rng.permutation(k)
    half = k // 2
    a, b = order[:half], order[half : 2 * half]
    apart = powers[a] - powers[b]  # 0: nothing would change but the labels
    swap = (apart != 0.0) & (np.log(rng.random(half)) < apart * (heights[b] - heights[a]))
    after = np.arange(k)
    after[a[swap]], after[b[swap]] = b[swap], a[swap]
    return after


def compile_in_thread(structure: Structure | None = None) -> None:
    """Start to compile what surrogate chains need, or load it from the cache, once in a process.

    With the structure of a model with a simulator, that of emulated outputs comes first.
    """
    kinds = kinds_of([] if structure is None else [structure])
    with _lock:
        if type(kinds[0]) not in _threads:
            # Not a daemon: an interpreter that ends while it compiles dies of a segmentation fault.
            thread = threading.Thread(
                target=_compile, args=(kinds, structure), name="kmc-compilation"
            )
            _threads[type(kinds[0])] = thread
            thread.start()


def _compile(kinds: Sequence[Kind], structure: Structure | None) -> None:
    """Sample surrogates of a few points."""
    rng = np.random.default_rng(0)
    if structure is None:
        points, outputs = rng.standard_normal((12, 2)), None
        values = -0.5 * np.sum(points**2, axis=1)
    else:
        points = structure.parameters.draw(rng, 12)
        outputs = rng.standard_normal((12, len(structure.data.observed)))
        values = log_densities(structure, points, outputs)
    seen = Seen(points, values, points, np.full(points.shape, np.nan), outputs=outputs)
    for kind in kinds:
        process = kind.first(seen, rng)
        chains = Chains(points, np.ones(len(points)), points, InnerChainOptions(0.5, 1.0, 0.5, 0.5))
        sample(process, chains, rng, blocks=1)
        gradients(process.jit_state, points)


def _wait() -> None:
    """Wait for the threads: a fork would copy the compiler's locks as they are."""
    for thread in list(_threads.values()):
        if thread is not threading.current_thread():
            thread.join()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait)
