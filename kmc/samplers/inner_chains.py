"""Many cheap moves on the surrogate, before one true evaluation.

Each move leaves a power of the surrogate invariant and is reversible; kinds and lengths are drawn
independently of the state. A sequence of them, the inner chain, therefore satisfies detailed
balance with respect to the surrogate. Its end is accepted as a proposal for the true target p with
probability min(1, p(x') s(x) / (p(x) s(x'))): the surrogate transition method of Liu (2001), "Monte
Carlo Strategies in Scientific Computing", chapter 9.

Paths are those of :mod:`kmc.samplers.leapfrog`.

Everything that samples a surrogate calls :func:`inner_chains`, which makes many of them side by
side on all cores: one routine is compiled. Each chain has its own generator, so the results are
those of :func:`inner_chain` for one after the other, to the bit, for any number of threads. The
threads are Python's, and the jitted loop releases the interpreter's lock: numba's own threads may
not be used by two callers at once (its "workqueue" layer) or in a process that was forked (its
"omp" layer), and a parallel loop takes longer to compile.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from kmc.interrupts import uninterrupted
from kmc.jitted import value_and_gradient, wall, workspace
from kmc.njit import njit
from kmc.samplers.leapfrog import leapfrog
from kmc.samplers.local_mixture import LocalMixture, draw_from, log_density_of
from kmc.threads import in_threads

DIVERGENCE = 1000.0  # largest spread of H along a path, in nats


class InnerChainOptions(NamedTuple):
    """How an inner chain moves."""

    step_size: float  # of leapfrog, in whitened coordinates
    trajectory_length: float  # longest integration time; times are uniform on [.2, 1] of it
    independence_probability: float  # probability of a draw from a mixture instead of a trajectory
    # probability that a trajectory takes steps smaller by exp(-2 U), for narrow places
    small_step_probability: float


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


@njit(allocates=False)
def copy_to(out, x):
    """Copy x into ``out``; ``out[:] = x`` compiles for three seconds, for an error message."""
    for i in range(x.size):
        out[i] = x[i]


@njit(allocates=False)
def acceptance_probability(change):
    """Return the acceptance probability for a change of the log-density; 0 if that is NaN."""
    if change < 0.0:
        return np.exp(change)
    return 1.0 if change >= 0.0 else 0.0  # in numba, min(0.0, nan) is 0.0


@njit()
def inner_chain(state, power, rng, start, n_moves, options, mixture):
    """Make ``n_moves`` moves on s^power from ``start`` (d,).

    They are trajectories, and draws from the mixture if it is not empty.
    """
    z, vectors, levels = (
        start.copy(),
        np.empty((5, start.size)),
        np.empty((2, len(mixture.heights))),
    )
    end = make_moves(
        state, power, rng, z, n_moves, options, mixture, vectors, levels, workspace(state)
    )
    return InnerChainResult(z, *end)


@njit(allocates=False)
def make_moves(state, power, rng, z, n_moves, options, mixture, vectors, levels, work):
    """Do what :func:`inner_chain` does from ``z``, in place; the last three are scratch arrays."""
    d = z.size
    trial, momentum, gradient, trial_gradient, normal = (
        vectors[0],
        vectors[1],
        vectors[2],
        vectors[3],
        vectors[4],
    )
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
                density = log_density_of(mixture, z, levels)
            trial_density = log_density_of(mixture, trial, levels)
            trial_value = value_and_gradient(state, trial, trial_gradient, work)
            trial_wall, behind = wall(state, trial, normal, work)
            if behind:
                trial_gradient[:] = 0.0
            change = (
                power * trial_value - target + (trial_wall - now_wall) + (density - trial_density)
            )
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
                state,
                power,
                trial,
                momentum,
                trial_gradient,
                value,
                step_size,
                n_steps,
                normal,
                work,
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
    return (
        start_value,
        value,
        start_wall,
        now_wall,
        total_steps,
        last_energy,
        rate,
        poor,
        diverging,
        moved,
    )


class InnerChainsResult(NamedTuple):
    """The ends of inner chains; see :class:`InnerChainResult`."""

    position: np.ndarray  # (n, d)
    log_ratio: np.ndarray  # (n,): power log s at the start minus that at the end, walls included
    n_steps: np.ndarray  # (n,)
    energy: np.ndarray
    diverging: np.ndarray
    moved: np.ndarray
    acceptance_rate: np.ndarray
    poor: np.ndarray


def inner_chains(
    state: Any,
    start: np.ndarray,
    lengths: Sequence[int],
    *,
    powers: np.ndarray,
    rngs: Sequence[np.random.Generator],
    options: InnerChainOptions,
    mixture: LocalMixture,
) -> InnerChainsResult:
    """Run inner chains from ``start`` (n, d), n > 0, of so many moves each, on s^powers (n,)."""
    n = len(start)
    found = InnerChainsResult(
        np.empty_like(start),
        np.empty(n),
        np.empty(n, np.int64),
        np.empty(n),
        np.empty(n, bool),
        np.empty(n, bool),
        np.empty(n),
        np.empty(n, np.int64),
    )
    n_moves = np.array(lengths)
    longest_first = np.argsort(-n_moves, kind="stable")
    powers, generators = np.asarray(powers, float), generators_of(rngs)

    def part(k: int, parts: int) -> None:
        rows = longest_first[k::parts].copy()
        _some_inner_chains(state, powers, generators, start, n_moves, options, mixture, rows, found)

    with uninterrupted():
        in_threads(part, n)
    return found


@njit(nogil=True)
def _some_inner_chains(state, powers, generators, start, lengths, options, mixture, rows, found):
    vectors, levels, work = (
        np.empty((5, start.shape[1])),
        np.empty((2, len(mixture.heights))),
        workspace(state),
    )
    for i in rows:
        rng, z = generator(generators, i), found.position[i]
        copy_to(z, start[i])
        end = make_moves(
            state, powers[i], rng, z, lengths[i], options, mixture, vectors, levels, work
        )
        start_value, value, start_wall, end_wall, n_steps, energy, rate, poor, diverging, moved = (
            end
        )
        found.log_ratio[i] = powers[i] * (start_value - value) + (start_wall - end_wall)
        found.n_steps[i] = n_steps
        found.energy[i] = energy
        found.diverging[i] = diverging
        found.moved[i] = moved
        found.acceptance_rate[i] = rate
        found.poor[i] = poor


# Many NumPy generators in one jitted call.
#
# numba takes one Generator as an argument, but no array of them, and unpacks it anew in each call.
# What its jitted code uses are the address of the bit generator's state and three functions of the
# bit generator's type, so an array of addresses stands for the generators. Their numbers are those
# that they would give in Python, and each is left as if it had given them there.


class Generators(NamedTuple):
    """Generators whose bit generators are of one type; they must be kept alive by the caller."""

    states: np.ndarray  # (n,): addresses of the bit generators' states
    next_uint64: int  # addresses of functions of a state
    next_uint32: int
    next_double: int


def generators_of(rngs: Sequence[np.random.Generator]) -> Generators:
    """Return the same generators for jitted code; there must be at least one."""
    interfaces: list[Any] = [rng.bit_generator.ctypes for rng in rngs]
    first = interfaces[0]
    functions = (first.next_uint64, first.next_uint32, first.next_double)
    addresses = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
    return Generators(np.array([one.state_address for one in interfaces], np.uintp), *addresses)


@njit()
def generator(generators, i):
    """Return the generator with index i, for jitted code."""
    next_uint64, next_uint32 = np.uintp(generators.next_uint64), np.uintp(generators.next_uint32)
    return _generator(
        (np.uintp(generators.states[i]), next_uint64, next_uint32, np.uintp(generators.next_double))
    )


@intrinsic
def _generator(typingctx: Any, addresses: Any) -> Any:
    """Make a generator as numba unpacks one, but without the Python objects to which it refers."""

    def codegen(*given: Any) -> Any:
        context, builder, _, (values,) = given
        state, *functions = cgutils.unpack_tuple(builder, values, 4)
        bits = cgutils.create_struct_proxy(types.npy_bitgen)(context, builder)
        bits.parent = context.get_constant_null(types.pyobject)
        bits.state_address = bits.state = state
        bits.fnptr_next_uint64, bits.fnptr_next_uint32, bits.fnptr_next_double = functions
        bits.bit_generator = context.get_constant(types.uintp, 0)
        made = cgutils.create_struct_proxy(types.npy_rng)(context, builder)
        made.bit_generator = bits._getvalue()
        made.meminfo = context.get_constant_null(types.MemInfoPointer(types.voidptr))  # type: ignore[attr-defined]
        made.parent = context.get_constant_null(types.pyobject)
        return made._getvalue()

    return types.npy_rng(addresses), codegen
