"""The state of a run as plain data: JSON and numbers; reading them runs no code.

Supported are numbers, strings, containers and NumPy arrays; random generators, by the state of
their bit generator; and instances of the classes in :data:`PACKAGES`, by their fields. New fields
or classes there need no change here. An object that is referred to twice is restored as one object.
The memory layout of arrays is kept, too: it determines the order of summation, and so the sums.
Values of a ``cached_property`` are left out.

Reading imports modules of :data:`PACKAGES` and makes instances of their classes without calling any
of their methods, except, where the reader asks for it, ``__post_init__``, which checks the fields.
It allocates no more than a small multiple of what it is given.

Objects that are not supported and not from kmc are *foreign*, such as an estimator of the user's:
the caller decides how to store them. Anything else is an error that says which field of which class
has it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import struct
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from types import FunctionType
from typing import Any, Literal, NamedTuple

import numpy as np

PACKAGES = (
    "kmc.kernel_hmc",
    "kmc.samplers",
    "kmc.surrogate",
    "kmc.kernels",
    "kmc.bases",
    "kmc.forms",
    "kmc.scores",
    "kmc.regression",
    "kmc.linalg",
    "kmc.run.progress",
    "kmc.model.angles",
    "kmc.model.space",
    "kmc.model.transforms",
)
"""Packages and modules whose classes may be part of a state.

They only compute, without files or processes.
"""

CONSTANTS = ("kmc.surrogate.coordinates.transport:IDENTITY",)
"""Objects that are compared by identity."""

_BIT_GENERATORS: dict[str, Any] = {
    name: getattr(np.random, name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
}
_KINDS = "biufcSUmM"  # of arrays: all except Python objects and records
_ATOMS = (bool, int, str, type(None))
# times the bytes of all arrays, that arrays with gaps may extend over in memory
_LARGEST_SPARE = 64
_HEAD = struct.Struct("<8sQ")
_MAGIC = b"kmcplain"


class NotPlain(TypeError):
    """A state holds an object that is neither plain nor foreign."""


class Plain(NamedTuple):
    """A state in parts.

    Attributes
    ----------
    structure : str
        JSON.
    numbers : bytes
        The bytes of all arrays.
    foreign : list
        Objects that are not from kmc.
    """

    structure: str
    numbers: bytes
    foreign: list[Any]

    def packed(self) -> bytes:
        """Return structure and numbers as the content of a file."""
        structure = self.structure.encode()
        return _HEAD.pack(_MAGIC, len(structure)) + structure + self.numbers

    @classmethod
    def unpacked(cls, content: bytes, foreign: Sequence[Any] = ()) -> Plain:
        """Return the parts of what :meth:`packed` made; ValueError if it is something else."""
        if content[: len(_MAGIC)] != _MAGIC or len(content) < _HEAD.size:
            raise ValueError("it does not begin as plain data of kmc do")
        end = _HEAD.size + _HEAD.unpack_from(content)[1]
        if end > len(content):
            raise ValueError(f"it has {len(content)} bytes, and its structure ends at byte {end}")
        return cls(content[_HEAD.size : end].decode(), content[end:], list(foreign))


def flatten(content: Any) -> Plain:
    """Convert a state to plain data.

    Raises
    ------
    NotPlain
        With the class and the field.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.run.store.plain import flatten, restore
    >>> rng = np.random.default_rng(1)
    >>> twins = restore(flatten([rng, rng]))
    >>> twins[0] is twins[1], twins[0].random() == rng.random()
    (True, True)
    """
    writer = _Writer()
    node = writer.node(content, "the state")
    return Plain(json.dumps(node, allow_nan=False), b"".join(writer.numbers), writer.foreign)


def restore(plain: Plain, check: bool = False) -> Any:
    """Rebuild a state.

    With ``check``, classes check their fields as when they are made, which may copy arrays.

    Raises
    ------
    Exception
        Of several kinds, if the parts are not from :func:`flatten` of this version.
    """
    return _Reader(plain.numbers, plain.foreign, check).value(json.loads(plain.structure))


class _Writer:
    """Make JSON nodes of objects: atoms unchanged, others as lists that begin with a kind."""

    def __init__(self) -> None:
        self.numbers: list[bytes] = []
        self.foreign: list[Any] = []
        self._size = 0
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []  # objects whose id is in use
        self._constants = {id(_named(name)): name for name in CONSTANTS}

    def node(self, value: Any, where: str) -> Any:
        kind = type(value)
        if kind in _ATOMS:
            return value
        if kind is float:
            return value if math.isfinite(value) else ["float", repr(value)]
        if kind is complex:
            return ["complex", self.node(value.real, where), self.node(value.imag, where)]
        if id(value) in self._constants:
            return ["constant", self._constants[id(value)]]
        if id(value) in self._seen:
            return ["again", self._seen[id(value)]]
        self._seen[id(value)] = len(self._alive)
        self._alive.append(value)
        return self._new(value, kind, where)

    def _new(self, value: Any, kind: type, where: str) -> list[Any]:
        if kind is np.ndarray:
            return self._array(value, where)
        if kind is list or kind is tuple:
            return [kind.__name__, self._items(value, where)]
        if kind is dict:
            return [
                "dict",
                [[self.node(k, where), self.node(v, f"{where}[{k!r}]")] for k, v in value.items()],
            ]
        if kind is deque:
            return ["deque", value.maxlen, self._items(value, where)]
        if kind is slice:
            return ["slice", self._items((value.start, value.stop, value.step), where)]
        if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
            return ["scalar", value.dtype.str, self._put(value.tobytes())]
        if kind is np.random.Generator and type(value.bit_generator).__name__ in _BIT_GENERATORS:
            bits = value.bit_generator
            return [
                "generator",
                type(bits).__name__,
                self.node(bits.state, where),
                self.node(bits.seed_seq, where),
            ]
        if kind is np.random.SeedSequence:
            state = {**value.state, "spawn_key": tuple(value.spawn_key)}
            return ["seeds", self.node(state, where)]
        if _is_known(kind):
            return self._instance(value, kind, where)
        return self._other(value, kind, where)

    def _items(self, values: Any, where: str) -> list[Any]:
        return [self.node(item, f"{where}[{i}]") for i, item in enumerate(values)]

    def _instance(self, value: Any, kind: type, where: str) -> list[Any]:
        name = f"{kind.__module__}:{kind.__qualname__}"
        if isinstance(value, tuple):
            fields = dict(zip(kind._fields, value, strict=True))  # type: ignore[attr-defined]
        else:
            cached = {
                key
                for cls in kind.__mro__
                for key, v in vars(cls).items()
                if isinstance(v, cached_property)
            }
            fields = {key: field for key, field in vars(value).items() if key not in cached}
        return [
            "instance",
            name,
            {key: self.node(field, f"{name}.{key}") for key, field in fields.items()},
        ]

    def _array(self, array: np.ndarray, where: str) -> list[Any]:
        if array.dtype.kind == "O":
            return ["objects", list(array.shape), self._items(array.ravel(), where)]
        if array.dtype.kind not in _KINDS:
            raise NotPlain(
                f"{where} is an array of type {array.dtype}: expected numbers or strings"
            )
        strides: Any = None
        order: Literal["C", "F"] = (
            "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        )
        # others also along axes of length one
        usual = np.empty(array.shape, array.dtype, order).strides
        if array.size and array.strides != usual and min(array.strides) >= 0:
            strides = list(array.strides)
        content = array.tobytes(order)
        about = [array.dtype.str, list(array.shape), order, strides, bool(array.flags.writeable)]
        return ["array", *about, self._put(content)]

    def _put(self, content: bytes) -> list[int]:
        self.numbers.append(content)
        self._size += len(content)
        return [self._size - len(content), self._size]

    def _other(self, value: Any, kind: type, where: str) -> list[Any]:
        of_kmc = value if isinstance(value, (type, FunctionType)) else kind
        if of_kmc.__module__.partition(".")[0] == "kmc":
            raise NotPlain(
                f"{where} is a {kind.__module__}.{kind.__qualname__}, which a store cannot hold as "
                "plain data: see kmc.run.store.plain.PACKAGES"
            )
        self.foreign.append(value)
        return ["foreign", len(self.foreign) - 1]


class _Reader:
    """Make objects of JSON nodes."""

    def __init__(self, numbers: bytes, foreign: Sequence[Any], check: bool):
        self._numbers = memoryview(numbers)
        self._check = check
        self._spare = _LARGEST_SPARE * len(numbers)
        self._made: list[Any] = []
        self._kinds: dict[str, Callable[..., Any]] = {
            "tuple": lambda items: tuple(map(self.value, items)),
            "slice": lambda ends: slice(*map(self.value, ends)),
            "seeds": self._seeds,
            "foreign": lambda at: foreign[at],
            "scalar": lambda dtype, part: self._stored(dtype, (), "C", part)[()],
            "array": self._array,
            "objects": self._objects,
            "generator": self._generator,
        }

    def value(self, node: Any) -> Any:
        if not isinstance(node, list):
            return node
        kind, *rest = node
        if kind == "float":
            return float(rest[0])
        if kind == "complex":
            return complex(*map(self.value, rest))
        if kind == "constant":
            return _named(CONSTANTS[CONSTANTS.index(rest[0])])
        if kind == "again":
            return self._made[rest[0]]
        at = len(self._made)
        self._made.append(None)

        def made(thing: Any) -> Any:
            self._made[at] = thing
            return thing

        if kind in ("list", "deque", "dict"):  # made before their items, which may refer to them
            return self._filled(kind, rest, made)
        if kind == "instance":
            return self._instance_of(rest[0], rest[1], made)
        return made(self._kinds[kind](*rest))

    def _filled(self, kind, rest, made):
        if kind == "dict":
            thing = made({})
            thing.update((self.value(key), self.value(value)) for key, value in rest[0])
            return thing
        thing = made([] if kind == "list" else deque(maxlen=rest[0]))
        thing.extend(self.value(item) for item in rest[-1])
        return thing

    def _instance_of(self, name, fields, made):
        kind: Any = _known(name)
        if issubclass(kind, tuple):
            values = {key: self.value(field) for key, field in fields.items()}
            _check_fields(name, values, kind._fields)
            return made(tuple.__new__(kind, [values[key] for key in kind._fields]))
        thing = made(object.__new__(kind))
        for key, field in fields.items():
            if isinstance(getattr(kind, key, None), (FunctionType, property, classmethod)):
                raise NotPlain(f"{name} has a method {key}, and the store a field of that name")
            vars(thing)[key] = self.value(field)
        if dataclasses.is_dataclass(kind):
            _check_fields(name, vars(thing), [field.name for field in dataclasses.fields(kind)])
            if self._check and hasattr(kind, "__post_init__"):
                thing.__post_init__()
        return thing

    def _seeds(self, state):
        state = self.value(state)
        if state.pop("pool_size") != np.random.SeedSequence(0).pool_size:
            raise NotPlain("a SeedSequence with a pool of another size than NumPy's own")
        return np.random.SeedSequence(**state)

    def _objects(self, shape, items):
        if math.prod(shape) != len(items):
            raise NotPlain(f"an array of shape {shape} with {len(items)} objects")
        array = np.empty(len(items), object)
        array[:] = [self.value(item) for item in items]
        return array.reshape(shape)

    def _array(self, dtype, shape, order, strides, writeable, part):
        array = self._stored(dtype, shape, order, part).copy(order)
        if strides is not None:
            self._spare -= extent_of(array, strides)
            if self._spare < 0:
                raise NotPlain(f"an array of {array.nbytes} bytes with the strides {strides}")
            array = with_strides(array, strides)
        array.flags.writeable = writeable
        return array

    def _stored(self, dtype, shape, order, part):
        return np.ndarray(shape, _dtype(dtype), self._numbers[slice(*part)], order=order)

    def _generator(self, name, state, seeds):
        state, seeds = self.value(state), self.value(seeds)
        bits = _BIT_GENERATORS[name](seeds)
        bits.state = state
        return np.random.Generator(bits)


def extent_of(values: np.ndarray, strides: Sequence[int]) -> int:
    """Count the bytes from the first to the last element of an array with these strides."""
    return (
        sum((n - 1) * step for n, step in zip(values.shape, strides, strict=True)) + values.itemsize
    )


def with_strides(values: np.ndarray, strides: Sequence[int]) -> np.ndarray:
    """Return a copy with this memory layout; strides are not negative."""
    extent = extent_of(values, strides)
    array: np.ndarray = np.ndarray(
        values.shape, values.dtype, np.zeros(extent, np.uint8), strides=tuple(strides)
    )
    array[...] = values
    return array


def _named(name: str) -> Any:
    """Return the class or object of this name in a known module; NotPlain for other modules."""
    module, _, path = name.partition(":")
    if not any(module == package or module.startswith(f"{package}.") for package in PACKAGES):
        raise NotPlain(f"{name!r} is in none of {', '.join(PACKAGES)}")
    found: Any = import_module(module)
    for part in path.split("."):
        found = vars(found)[part]
    return found


def _known(name: str) -> type:
    """Return the class of this name if its instances may be part of a state, or raise NotPlain."""
    kind = _named(name)
    if not (
        isinstance(kind, type)
        and f"{kind.__module__}:{kind.__qualname__}" == name
        and _is_known(kind)
    ):
        raise NotPlain(f"{name!r} is not a class that a state may hold")
    return kind


def _is_known(kind: type) -> bool:
    """Return whether instances consist of their fields only."""
    module = kind.__module__
    if not any(module == package or module.startswith(f"{package}.") for package in PACKAGES):
        return False
    if issubclass(kind, tuple):
        return hasattr(kind, "_fields")
    return (
        kind.__new__ is object.__new__
        and kind.__dictoffset__ != 0
        and "<locals>" not in kind.__qualname__
    )


def _check_fields(name, found, expected):
    if set(expected) - set(found):
        raise NotPlain(f"{name} has the fields {sorted(expected)}, and the store {sorted(found)}")


def _dtype(name: str) -> np.dtype:
    dtype = np.dtype(name)
    if dtype.kind not in _KINDS:
        raise NotPlain(f"an array of type {dtype}")
    return dtype
