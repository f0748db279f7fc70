"""Map the samplers' vector in R^d to the user's named parameters or to those on a unit cube."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from scipy.special import ndtr

from kmc.arrays import as_array
from kmc.model.dimensions import Dimensions
from kmc.model.parameters import Fixed
from kmc.model.priors import JointPrior, WithPrior
from kmc.model.transforms import Between, Identity, Transform

# sd of start points around a value, relative to it or, of constrained parameters, unconstrained
_AROUND = 0.3

_LEAST, _MOST = np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg  # where quantiles are finite


@runtime_checkable
class Space(Protocol):
    """Named parameters as functions of a vector in R^d; a :class:`SpaceDefaults` can have more.

    Attributes
    ----------
    dim : int
        Length d of the vector.
    dims : mapping of str to tuple of str
        The names of each parameter's dimensions, without chain and draw.
    coords : mapping of str to sequence
        The labels along each dimension; by default 0, 1, ...
    """

    @property
    def dim(self) -> int:
        """See above."""

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        """See above."""

    @property
    def coords(self) -> Mapping[str, Any]:
        """See above."""

    def constrain(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameters (n, *shape) at vectors (n, d), by name."""

    def log_jacobian(self, x: np.ndarray) -> Any:
        """Return the term added to what the user's function returns: (d,) -> float, (k, d) -> (k,).

        Zero if the function includes it.
        """

    def initial_points(self, rng: np.random.Generator, n: int) -> np.ndarray | None:
        """Return start points (n, d), or None for the sampler's default."""


class SpaceDefaults:
    """Base class of spaces, with all that a space can have besides the members of :class:`Space`.

    Attributes
    ----------
    data : mapping of str to mapping
        By the name of a group, such as "observed_data", and of a variable, pairs of dimensions and
        array, which are stored in the results.
    intervals : mapping of str to tuple of float
        The bounds of each parameter that has two finite ones.
    attrs : mapping of str to mapping
        By parameter, attributes of its variable in the results.
    fixed : mapping of str to float or ndarray
        Known values by name, which are not in the vector.
    prior : JointPrior, optional
        The prior of those parameters that were declared with one.
    known_parts : KnownParts, optional
        Of a function that returns a simulator's outputs, see
        :class:`kmc.model.simulation.KnownParts`.
    made_by : str, optional
        The call that errors advise to change, such as "kmc.from_pymc(model".
    """

    data: Mapping[str, Mapping[str, Any]] = {}
    intervals: Mapping[str, tuple[float, float]] = {}
    attrs: Mapping[str, Mapping[str, Any]] = {}
    fixed: Mapping[str, Any] = {}
    prior: JointPrior | None = None
    known_parts: Any = None
    made_by: str | None = None

    def within_intervals(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameters of ``intervals`` (n, *shape) at vectors (n, d), by name."""
        return {}

    def log_jacobian(self, x: np.ndarray) -> Any:
        """Return zero: the log-density has the log-Jacobian, or is of the unconstrained vector."""
        return 0.0 if x.ndim == 1 else np.zeros(len(x))


class Block(NamedTuple):
    """Adjacent columns of the vector, which hold one parameter."""

    transform: Transform
    batch: tuple[int, ...]
    columns: slice

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the parameter."""
        return self.batch + self.transform.shape

    def of(self, points: np.ndarray) -> np.ndarray:
        """Return the parameter's columns of vectors (n, d): (n, *batch, *unconstrained shape)."""
        return points[:, self.columns].reshape(
            len(points), *self.batch, *self.transform.unconstrained_shape
        )

    def constrained(self, points: np.ndarray) -> np.ndarray:
        """Return the parameter (n, *shape) at vectors (n, d)."""
        return self.transform.constrain(self.of(points))


class ParameterSpace(SpaceDefaults):
    """Parameters in the given order, one after the other in the vector; see :class:`kmc.Model`.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.model.parameters import Positive, Real
    >>> from kmc.model.space import ParameterSpace
    >>> space = ParameterSpace({"sigma": Positive(), "theta": Real(2)}, dims={"theta": ["school"]})
    >>> space.dim, space.dims
    (3, {'sigma': (), 'theta': ('school',)})
    >>> space.constrain(np.arange(6.0).reshape(2, 3))
    {'sigma': array([ 1.  , 20.09]), 'theta': array([[1., 2.], [4., 5.]])}
    >>> space.log_jacobian(np.array([3.0, 4.0, 5.0]))
    3.0

    Attributes
    ----------
    fixed : dict of str to float or ndarray
        Known values, which are not in the vector.
    all_dims : dict of str to tuple of str
        Dimensions of all parameters and fixed values.
    """

    def __init__(self, parameters: Mapping[str, Any], coords: Any = None, dims: Any = None):
        found = Dimensions(parameters, coords, dims)
        self.fixed = {
            name: one.value for name, one in found.parameters.items() if isinstance(one, Fixed)
        }
        parameters = {
            name: one for name, one in found.parameters.items() if not isinstance(one, Fixed)
        }
        if not parameters:
            raise ValueError(
                f"parameters={found.parameters!r}: expected at least one that is not fixed"
            )
        self.all_dims, self.coords = found.dims, found.coords
        self.dims = {name: found.dims[name] for name in parameters}
        fixed = {name: (found.dims[name], np.asarray(value)) for name, value in self.fixed.items()}
        if fixed:
            self.data = {"constant_data": fixed}
        self.attrs = {
            name: parameter.attrs for name, parameter in parameters.items() if parameter.attrs
        }
        self.attrs |= {name: {"fixed": 1} for name in self.fixed}
        intervals = {}
        self._blocks: dict[str, Block] = {}
        self.dim = 0
        for name, parameter in parameters.items():
            batch, transform = found.batches[name], parameter.transform
            if isinstance(transform, Between):
                intervals[name] = transform.lower, transform.upper
            start = self.dim
            self.dim += int(np.prod(batch + transform.unconstrained_shape))
            self._blocks[name] = Block(transform, batch, slice(start, self.dim))
        self.intervals = intervals
        self._starts = {
            name: one.start for name, one in parameters.items() if one.start is not None
        }
        priors = {
            name: parameter
            for name, parameter in parameters.items()
            if isinstance(parameter, WithPrior)
        }
        self.prior = JointPrior(priors, found.batches, self.fixed) if priors else None

    def constrain(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameters (n, *shape) at vectors (n, d), by name, in new arrays."""
        return {name: block.constrained(points) for name, block in self._blocks.items()}

    def within_intervals(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameters with two finite bounds (n, *shape) at vectors (n, d), by name."""
        return {name: self._blocks[name].constrained(points) for name in self.intervals}

    @property
    def blocks(self) -> Mapping[str, Block]:
        """The columns of each parameter in the vector, and its constraint."""
        return self._blocks

    def log_jacobian(self, x: np.ndarray) -> Any:
        """Return the log of the absolute Jacobian determinant of :meth:`constrain`.

        It is a float at x (d,), and an array (k,) at x (k, d).
        """
        if x.ndim == 1:
            return float(self.log_jacobian(x[None])[0])
        total = np.zeros(len(x))
        for block in self._blocks.values():
            each = block.transform.log_jacobian(block.of(x))
            total += each.sum(axis=tuple(range(1, each.ndim)))
        return total

    def initial_points(self, rng: np.random.Generator, n: int) -> np.ndarray | None:
        """Draw points (n, d) from the prior.

        Parameters without one are uniform on [-2, 2], unconstrained. Those from lmfit lie around
        their values. Return None, for the sampler's default, if no parameter has a prior or comes
        from lmfit.
        """
        starts = {name: np.array([value]) for name, value in self._starts.items()}
        if self.prior is None and not starts:
            return None
        points = rng.uniform(-2.0, 2.0, (n, self.dim))
        for name, value in starts.items():
            block = self._blocks[name]
            if np.all(block.transform.contains(value)):
                start = block.transform.unconstrain(value)
                relative = isinstance(block.transform, Identity) and start.any()
                points[:, block.columns] = start + _AROUND * (
                    start if relative else 1.0
                ) * rng.standard_normal((n, 1))
        for name, values in self.prior.draw(rng, n).items() if self.prior else ():
            block = self._blocks[name]
            points[:, block.columns] = block.transform.unconstrain(values).reshape(n, -1)
        return points

    def unconstrain(self, values: Mapping[str, Any]) -> np.ndarray:
        """Invert :meth:`constrain`: return vectors (n, d) of parameters (n, *shape), by name.

        Raises
        ------
        TypeError, ValueError
            A parameter is missing or unknown, an array has the wrong shape or is not real, or a
            value is outside its parameter's support.
        """
        if odd := set(values) ^ set(self._blocks):
            name = min(odd, key=str)
            what = "has no value" if name in self._blocks else "is unknown"
            raise ValueError(
                f"the parameter {name!r} {what}: expected {', '.join(map(repr, self._blocks))}"
            )
        arrays = {name: _real(name, values[name], block) for name, block in self._blocks.items()}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the parameters have different numbers of points: {lengths}")
        columns = [_columns(name, arrays[name], block) for name, block in self._blocks.items()]
        return np.concatenate(columns, axis=1)

    def check(self, name: str, values: np.ndarray) -> None:
        """Check values (n, *shape) of a parameter, and raise errors as :meth:`unconstrain` does."""
        _check_support(name, _real(name, values, self._blocks[name]), self._blocks[name])


def _real(name: str, value: Any, block: Block) -> np.ndarray:
    shape = f"({', '.join(['n', *map(str, block.shape)])}{'' if block.shape else ','})"
    expected = f"expected real numbers of shape {shape}, for n points"
    try:
        array = as_array(name, value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the parameter {name!r} has the values {value!r}: {expected}") from error
    if array.ndim == 0 or array.shape[1:] != block.shape:
        raise ValueError(f"the parameter {name!r} has values of shape {array.shape}: {expected}")
    return array


def _columns(name: str, array: np.ndarray, block: Block) -> np.ndarray:
    _check_support(name, array, block)
    return block.transform.unconstrain(array).reshape(
        len(array), block.columns.stop - block.columns.start
    )


def _check_support(name: str, array: np.ndarray, block: Block) -> None:
    outside = np.argwhere(~block.transform.contains(array))
    if len(outside):
        value = array[tuple(outside[0])].tolist()
        place = f" in point {outside[0][0]}"
        raise ValueError(
            f"the parameter {name!r} has the value {value}{place}: expected "
            f"{block.transform.support}"
        )


@dataclass(frozen=True)
class Cube(SpaceDefaults):
    """The space of parameters x = T(Φ(z)).

    Where z is standard normal, Φ(z) is uniform and x is from the prior.

    Attributes
    ----------
    transform : callable
        T: numbers (d,) in the unit cube, or (k, d) if it is vectorized, to parameters of the same
        shape.
    dim : int
    vectorized : bool
    """

    transform: Callable[[np.ndarray], Any]
    dim: int
    vectorized: bool
    dims: dict[str, tuple[str, ...]] = field(
        init=False, default_factory=lambda: {"x": ("x_dim_0",)}
    )
    coords: dict[str, Any] = field(init=False, default_factory=dict)

    def parameters(self, z: np.ndarray) -> np.ndarray:
        """Return x (d,) at z (d,) or, with a vectorized transform, x (k, d) at z (k, d)."""
        x = as_array("prior_transform(u)", self.transform(np.clip(ndtr(z), _LEAST, _MOST)))
        if x.shape != z.shape:
            raise ValueError(
                f"prior_transform returned an array of shape {x.shape}: expected {z.shape}"
            )
        return x

    def constrain(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameters (n, d) at vectors (n, d), by name."""
        rows = [points] if self.vectorized else points
        return {"x": np.array([self.parameters(row) for row in rows]).reshape(points.shape)}

    def initial_points(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw z from the prior, shape (n, d)."""
        return rng.standard_normal((n, self.dim))

    def log_prior(self, z: np.ndarray) -> Any:
        """Return the log-density of the prior at z."""
        return -0.5 * np.sum(z**2, axis=-1) - 0.5 * self.dim * np.log(2 * np.pi)


@dataclass(frozen=True)
class OfCube:
    """A function of x, as one of z."""

    function: Callable[..., Any]
    cube: Cube

    def __call__(self, z: np.ndarray, *args: Any, **kwargs: Any) -> Any:
        """Call the function at the parameters that belong to z, and return its output."""
        return self.function(self.cube.parameters(z), *args, **kwargs)
