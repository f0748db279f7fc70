"""What lies between a vector in R^d, which samplers move, and the parameters that a user has names for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from kmc.targets.parameters import Parameter
from kmc.targets.transforms import Transform

RESERVED = ("chain", "draw")


class Space(Protocol):
    """Named parameters as functions of a vector in R^d.

    Attributes
    ----------
    dim : int
        The d of the vector.
    dims : mapping of str to tuple of str
        The names of each parameter's dimensions, chain and draw left out.
    coords : mapping of str to sequence
        The labels along each of the dimensions.
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
    """Adjacent columns of the vector that hold one parameter: an array of transformed values."""

    transform: Transform
    batch: tuple[int, ...]
    columns: slice

    @property
    def shape(self) -> tuple[int, ...]:
        return self.batch + self.transform.shape

    def of(self, points: np.ndarray) -> np.ndarray:
        """Its columns, each event apart: (n, *batch, *unconstrained shape)."""
        return points[:, self.columns].reshape(len(points), *self.batch, *self.transform.unconstrained_shape)


class ParameterSpace:
    """Parameters in the order they are given, one after the other in the vector; see :class:`kmc.Model`.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.targets.parameters import Real
    >>> from kmc.targets.space import ParameterSpace
    >>> space = ParameterSpace({"mu": Real(), "theta": Real(2)}, {"school": ["A", "B"]}, {"theta": ["school"]})
    >>> space.dim, space.dims
    (3, {'mu': (), 'theta': ('school',)})
    >>> space.constrain(np.arange(6.0).reshape(2, 3))
    {'mu': array([0., 3.]), 'theta': array([[1., 2.], [4., 5.]])}
    """

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
    ):
        self.dims: dict[str, tuple[str, ...]] = {}
        self.coords: dict[str, np.ndarray] = {}
        self._blocks: dict[str, _Block] = {}
        labels = {name: np.asarray(given) for name, given in (coords or {}).items()}
        end = 0
        for name, parameter in parameters.items():
            batch = parameter.shape or ()
            size = int(np.prod(batch + parameter.transform.unconstrained_shape))
            block = _Block(parameter.transform, batch, slice(end, end := end + size))
            self._blocks[name] = block
            given = (dims or {}).get(name, [f"{name}_dim_{i}" for i in range(len(block.shape))])
            self.dims[name] = tuple(given)
            for dimension, length in zip(given, block.shape):
                self.coords[dimension] = labels.get(dimension, np.arange(length))
        self.dim = end

    def constrain(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """The parameters (n, *shape) at vectors (n, d), by name; new arrays."""
        return {name: block.transform.constrain(block.of(points)) for name, block in self._blocks.items()}

    def log_jacobian(self, x: np.ndarray) -> Any:
        """Log of the absolute Jacobian determinant of :meth:`constrain`: (d,) -> float, (k, d) -> (k,)."""
        if x.ndim == 1:
            return float(self.log_jacobian(x[None])[0])
        total = np.zeros(len(x))
        for block in self._blocks.values():
            total += block.transform.log_jacobian(block.of(x)).reshape(len(x), -1).sum(axis=1)
        return total

    def initial_points(self, rng: np.random.Generator, n: int) -> None:
        """None: the sampler's default is meant."""
