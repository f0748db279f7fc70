"""The inner chains of many walkers, side by side on all cores.

Each has its own generator, so the results are those of :func:`kmc.mcmc.surrogate_transition.inner_chain` for one
walker after the other, to the bit, for any number of threads. The threads are Python's, and the jitted loop releases
the interpreter's lock: numba's own threads may not be used by two callers at once (its "workqueue" layer) or in a
process that was forked (its "omp" layer), and a parallel loop takes longer to compile.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from kmc.mcmc.surrogate_transition import InnerChainOptions, copy_to, inner_chain
from kmc.mcmc.tempering import Tempering, tempered
from kmc.njit import njit
from kmc.threads import in_threads


class InnerChainsResult(NamedTuple):
    """The ends of inner chains; see :class:`kmc.mcmc.surrogate_transition.InnerChainResult`."""

    position: np.ndarray  # (n, d)
    log_ratio: np.ndarray  # (n,): tempered log s at the start minus that at the end, walls included
    n_steps: np.ndarray  # (n,)
    energy: np.ndarray
    diverging: np.ndarray
    moved: np.ndarray


class InnerChainKinds(NamedTuple):
    """Of each walker (n,): what :func:`kmc.mcmc.proposal_mixture.inner_chain_kind` draws for it."""

    length: np.ndarray  # 0: the walker makes an archive move instead
    flattened: np.ndarray  # whether its surrogate is flattened ...
    power: np.ndarray  # ... by this power, or else 1


def draw_kinds(
    rngs: Sequence[np.random.Generator],
    *,
    archive: float,
    flattened: tuple[float, float],
    single: float,
    lengths: tuple[int, int],
) -> InnerChainKinds:
    """Draw the kinds of n > 0 moves: the numbers that ``propose`` of the mixture draws first.

    ``archive`` and ``single`` are probabilities, ``flattened`` that of a flattened surrogate and its smallest power,
    and ``lengths`` the least and the greatest.
    """
    n = len(rngs)
    kinds = InnerChainKinds(np.zeros(n, np.int64), np.zeros(n, np.bool_), np.ones(n))
    flat, flattest = map(float, flattened)
    shortest, longest = map(int, lengths)
    _draw_kinds(generators_of(rngs), float(archive), flat, flattest, float(single), shortest, longest, kinds)
    return kinds


def inner_chains(
    state: Any,
    start: np.ndarray,
    lengths: Sequence[int],
    *,
    temperings: Sequence[Tempering] | np.ndarray,
    rngs: Sequence[np.random.Generator],
    options: InnerChainOptions,
    archive: np.ndarray,
) -> InnerChainsResult:
    """Run the inner chains from ``start`` (n, d), n > 0, of so many moves each; ``temperings`` are n or (n, 3)."""
    n = len(start)
    found = InnerChainsResult(
        np.empty_like(start), np.empty(n), np.empty(n, np.int64), np.empty(n), np.empty(n, bool), np.empty(n, bool)
    )
    n_moves = np.array(lengths)
    longest_first = np.argsort(-n_moves, kind="stable")
    heat, generators = np.array(temperings), generators_of(rngs)

    def part(k: int, parts: int) -> None:
        rows = longest_first[k::parts].copy()
        _some_inner_chains(state, heat, generators, start, n_moves, options, archive, rows, found)

    in_threads(part, n)
    return found


@njit()
def _draw_kinds(generators, archive, flat, flattest, single, shortest, longest, kinds):
    for i in range(len(kinds.length)):
        rng = generator(generators, i)
        if rng.random() < archive:
            continue
        if rng.random() < flat:
            kinds.flattened[i], kinds.power[i] = True, flattest + (1.0 - flattest) * rng.random()
        kinds.length[i] = 1
        if not rng.random() < single:
            kinds.length[i] = rng.integers(shortest, longest + 1)


@njit(nogil=True)
def _some_inner_chains(state, temperings, generators, start, lengths, options, archive, rows, found):
    for i in rows:
        tempering = Tempering(temperings[i, 0], temperings[i, 1], temperings[i, 2])
        rng = generator(generators, i)
        end = inner_chain(state, tempering, rng, start[i], lengths[i], options, archive)
        copy_to(found.position[i], end.position)
        ratio = tempered(tempering, end.start_value)[0] - tempered(tempering, end.value)[0]
        found.log_ratio[i] = ratio + (end.start_wall - end.wall)
        found.n_steps[i] = end.n_steps
        found.energy[i] = end.energy
        found.diverging[i] = end.diverging
        found.moved[i] = end.moved


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
