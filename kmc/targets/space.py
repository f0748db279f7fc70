"""What lies between a vector in R^d, which samplers move, and the parameters that a user has names for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from kmc.targets.dimensions import Dimensions
from kmc.targets.parameters import Parameter
from kmc.targets.transforms import Transform


@runtime_checkable
class Space(Protocol):
    """Named parameters as functions of a vector in R^d.

    A space may also have the inverse, ``unconstrain(values) -> (n, d)`` for the arrays (n, *shape) of all parameters by
    name; start points can then be given by name. And it may have ``data``, a mapping of names of groups, such as
    "observed_data", to mappings of variables to pairs of dimensions and array, which go with the results. Its
    ``made_by``, such as "kmc.from_pymc(model", is the call that errors advise to make with other arguments.

    Attributes
    ----------
    dim : int
        The d of the vector.
    dims : mapping of str to tuple of str
        The names of each parameter's dimensions, chain and draw left out.
    coords : mapping of str to sequence
        The labels along each of the dimensions; those that it leaves out are labelled 0, 1, ...
    """

    @property
    def dim(self) -> int: ...

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]: ...

    @property
    def coords(self) -> Mapping[str, Any]: ...

    def constrain(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """The parameters (n, *shape) at vectors (n, d), by name."""

    def log_jacobian(self, x: np.ndarray) -> Any:
        """What is to be added to what the user's function returns: (d,) -> float, (k, d) -> (k,).

        Zero where the function has it in it.
        """

    def initial_points(self, rng: np.random.Generator, n: int) -> np.ndarray | None:
        """Start points (n, d), or None where the sampler's own default is meant."""


class _Block(NamedTuple):
    """Adjacent columns of the vector, which hold one parameter."""

    transform: Transform
    batch: tuple[int, ...]
    columns: slice

    @property
    def shape(self) -> tuple[int, ...]:
        return self.batch + self.transform.shape

    def of(self, points: np.ndarray) -> np.ndarray:
        """Its columns, value by value: (n, *batch, *unconstrained shape)."""
        return points[:, self.columns].reshape(len(points), *self.batch, *self.transform.unconstrained_shape)


class ParameterSpace:
    """Parameters in the order in which they are given, one after the other in the vector; see :class:`kmc.Model`.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.targets.parameters import Positive, Real
    >>> from kmc.targets.space import ParameterSpace
    >>> space = ParameterSpace({"sigma": Positive(), "theta": Real(2)}, dims={"theta": ["school"]})
    >>> space.dim, space.dims
    (3, {'sigma': (), 'theta': ('school',)})
    >>> space.constrain(np.arange(6.0).reshape(2, 3))
    {'sigma': array([ 1.  , 20.09]), 'theta': array([[1., 2.], [4., 5.]])}
    >>> space.log_jacobian(np.array([3.0, 4.0, 5.0]))
    3.0
    """

    def __init__(self, parameters: Mapping[str, Parameter], coords: Any = None, dims: Any = None):
        found = Dimensions(parameters, coords, dims)
        self.dims, self.coords = found.dims, found.coords
        self._blocks: dict[str, _Block] = {}
        self.dim = 0
        for name, parameter in parameters.items():
            batch, transform = found.batches[name], parameter.transform
            start = self.dim
            self.dim += int(np.prod(batch + transform.unconstrained_shape))
            self._blocks[name] = _Block(transform, batch, slice(start, self.dim))

    def constrain(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """The parameters (n, *shape) at vectors (n, d), by name; new arrays."""
        return {name: block.transform.constrain(block.of(points)) for name, block in self._blocks.items()}

    def log_jacobian(self, x: np.ndarray) -> Any:
        """Log of the absolute Jacobian determinant of :meth:`constrain`: (d,) -> float, (k, d) -> (k,)."""
        if x.ndim == 1:
            return float(self.log_jacobian(x[None])[0])
        total = np.zeros(len(x))
        for block in self._blocks.values():
            each = block.transform.log_jacobian(block.of(x))
            total += each.sum(axis=tuple(range(1, each.ndim)))
        return total

    def initial_points(self, rng: np.random.Generator, n: int) -> None:
        """None: the sampler's default is meant."""

    def unconstrain(self, values: Mapping[str, Any]) -> np.ndarray:
        """The vectors (n, d) at parameters (n, *shape), by name: the inverse of :meth:`constrain`.

        Raises
        ------
        TypeError, ValueError
            A parameter is missing or unknown, an array has another shape or no real numbers, or a value is outside its
            parameter's support.
        """
        if odd := set(values) ^ set(self._blocks):
            name = min(odd, key=str)
            what = "has no value" if name in self._blocks else "is unknown"
            raise ValueError(f"the parameter {name!r} {what}: expected {', '.join(map(repr, self._blocks))}")
        arrays = {name: _real(name, values[name], block) for name, block in self._blocks.items()}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the parameters have different numbers of points: {lengths}")
        columns = [_columns(name, arrays[name], block) for name, block in self._blocks.items()]
        return np.concatenate(columns, axis=1)


def _real(name: str, value: Any, block: _Block) -> np.ndarray:
    expected = f"expected real numbers of shape ({', '.join(map(str, ('n', *block.shape)))})"
    try:
        if np.iscomplexobj(value):
            raise TypeError("complex numbers")
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the parameter {name!r} has the values {value!r}: {expected}") from error
    if array.ndim == 0 or array.shape[1:] != block.shape:
        raise ValueError(f"the parameter {name!r} has values of shape {array.shape}: {expected}")
    return array


def _columns(name: str, array: np.ndarray, block: _Block) -> np.ndarray:
    outside = np.argwhere(~block.transform.contains(array))
    if len(outside):
        value = array[tuple(outside[0])].tolist()
        place = f" in point {outside[0][0]}"
        raise ValueError(f"the parameter {name!r} has the value {value}{place}: expected {block.transform.support}")
    return block.transform.unconstrain(array).reshape(len(array), block.columns.stop - block.columns.start)
