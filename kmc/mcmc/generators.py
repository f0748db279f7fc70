"""Many NumPy generators in one jitted call.

numba takes one Generator as an argument, but no array of them, and unpacks it anew in each call. What its jitted code
uses are the address of the bit generator's state and three functions of the bit generator's type, so an array of
addresses stands for the generators. Their numbers are those that they would give in Python, and each is left as if it
had given them there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from kmc.njit import njit


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
