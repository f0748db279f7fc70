"""Many inner chains, side by side on all cores.

Everything that samples a surrogate calls this: one routine is compiled. Each chain has its own generator, so the
results are those of :func:`kmc.mcmc.surrogate_transition.inner_chain` for one after the other, to the bit, for any
number of threads. The threads are Python's, and the jitted loop releases the interpreter's lock: numba's own threads
may not be used by two callers at once (its "workqueue" layer) or in a process that was forked (its "omp" layer), and a
parallel loop takes longer to compile.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from kmc.interrupts import uninterrupted
from kmc.mcmc.local_mixture import LocalMixture
from kmc.mcmc.surrogate_transition import InnerChainOptions, copy_to, inner_chain
from kmc.njit import njit
from kmc.threads import in_threads


class InnerChainsResult(NamedTuple):
    """The ends of inner chains; see :class:`kmc.mcmc.surrogate_transition.InnerChainResult`."""

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
    """Run the inner chains from ``start`` (n, d), n > 0, of so many moves each, on s^powers (n,)."""
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
    for i in rows:
        rng = generator(generators, i)
        end = inner_chain(state, powers[i], rng, start[i], lengths[i], options, mixture)
        copy_to(found.position[i], end.position)
        found.log_ratio[i] = powers[i] * (end.start_value - end.value) + (end.start_wall - end.wall)
        found.n_steps[i] = end.n_steps
        found.energy[i] = end.energy
        found.diverging[i] = end.diverging
        found.moved[i] = end.moved
        found.acceptance_rate[i] = end.acceptance_rate
        found.poor[i] = end.poor


# Many NumPy generators in one jitted call.
#
# numba takes one Generator as an argument, but no array of them, and unpacks it anew in each call. What its jitted code
# uses are the address of the bit generator's state and three functions of the bit generator's type, so an array of
# addresses stands for the generators. Their numbers are those that they would give in Python, and each is left as if it
# had given them there.


class Generators(NamedTuple):
    """Generators whose bit generators are of one type; they must be kept alive by the caller."""

    states: np.ndarray  # (n,): addresses of the bit generators' states
    next_uint64: int  # addresses of functions of a state
    next_uint32: int
    next_double: int


def generators_of(rngs: Sequence[np.random.Generator]) -> Generators:
    """The same generators for jitted code; not empty."""
    interfaces: list[Any] = [rng.bit_generator.ctypes for rng in rngs]
    first = interfaces[0]
    functions = (first.next_uint64, first.next_uint32, first.next_double)
    addresses = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
    return Generators(np.array([one.state_address for one in interfaces], np.uintp), *addresses)


@njit()
def generator(generators, i):
    """The generator with index i, for jitted code."""
    next_uint64, next_uint32 = np.uintp(generators.next_uint64), np.uintp(generators.next_uint32)
    return _generator((np.uintp(generators.states[i]), next_uint64, next_uint32, np.uintp(generators.next_double)))


@intrinsic
def _generator(typingctx: Any, addresses: Any) -> Any:
    """As numba unpacks a Generator, but without the Python objects to which it refers."""

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
