"""Shapes, dimension names and labels of a model's parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kmc.checks import listed
from kmc.model.parameters import Fixed, Parameter
from kmc.model.priors import as_parameter

RESERVED = ("chain", "draw")
"""Dimensions of all results."""

MOST_NUMBERS = 100_000
"""Of all parameters: 500 prior draws then take 400 MB, and samplers learning a covariance 80 GB."""


class Dimensions:
    """Combine `parameters`, `coords` and `dims` of a :class:`kmc.Model`.

    A parameter's shape is its own or, if it has none, comes from the labels of its dimensions; if
    both are given, they must agree. Dimensions without names are called ``name_dim_0``,
    ``name_dim_1``, ... as in ArviZ, and missing labels are 0, 1, ...

    Attributes
    ----------
    parameters : dict of str to Parameter or Fixed
        Distributions are converted to parameters, numbers are fixed.
    batches : dict of str to tuple of int
        The shape of the array of each parameter's values, without that of a value itself, such as
        the length of a simplex.
    dims : dict of str to tuple of str
    coords : dict of str to ndarray

    Examples
    --------
    >>> from kmc.model.dimensions import Dimensions
    >>> from kmc.model.parameters import Real, Simplex
    >>> parameters = {"theta": Real(), "share": Simplex(3)}
    >>> found = Dimensions(parameters, {"school": ["A", "B"]}, {"theta": ["school"]})
    >>> found.batches, found.dims
    ({'theta': (2,), 'share': ()}, {'theta': ('school',), 'share': ('share_dim_0',)})
    """

    def __init__(self, parameters: Mapping[str, Any], coords: Any = None, dims: Any = None):
        self.parameters = as_parameters(parameters)
        labels = _labels(coords)
        given = _names(dims, self.parameters)
        self.batches: dict[str, tuple[int, ...]] = {}
        self.dims: dict[str, tuple[str, ...]] = {}
        self.coords: dict[str, np.ndarray] = {}
        numbers = 0
        for name, parameter in self.parameters.items():
            batch = _batch(name, parameter, given.get(name), labels)
            shape = batch + _own_shape(parameter)
            numbers += math.prod(shape)
            if numbers > MOST_NUMBERS:
                raise ValueError(
                    f"the parameter {name!r} has the shape {shape}, which makes {numbers} numbers "
                    f"in all: expected at most {MOST_NUMBERS}"
                )
            self.batches[name] = batch
            self.dims[name] = given.get(name, tuple(f"{name}_dim_{i}" for i in range(len(shape))))
            for dimension, length in zip(self.dims[name], shape):
                self._add(name, dimension, length, labels)
        if unused := [dimension for dimension in labels if dimension not in self.coords]:
            raise ValueError(
                f"coords has {unused[0]!r}, which is not a dimension of any parameter: expected "
                f"some of "
                f"{listed(self.coords) or 'none, as all parameters are numbers'}; name it in dims"
            )

    def _add(
        self, name: str, dimension: str, length: int, labels: Mapping[str, np.ndarray]
    ) -> None:
        along = self.coords.get(dimension, labels.get(dimension, np.arange(length)))
        if len(along) != length:
            raise ValueError(
                f"the parameter {name!r} has the length {length} along {dimension!r}, which has "
                f"{len(along)} labels in "
                "coords or that length in another parameter: expected the same"
            )
        self.coords[dimension] = along


def as_parameters(parameters: Any) -> dict[str, Parameter | Fixed]:
    """Check parameters' names, and convert the mapping to one of parameters and fixed values."""
    expected = 'expected a mapping such as {"mu": kmc.Real(), "sigma": kmc.Positive()}'
    if not isinstance(parameters, Mapping):
        raise TypeError(f"parameters={parameters!r}: {expected}")
    if not parameters:
        raise ValueError(f"parameters={parameters!r} is empty: {expected}")
    found: dict[str, Parameter | Fixed] = {}
    for name, parameter in parameters.items():
        if not isinstance(name, str):
            raise TypeError(f"parameters has the name {name!r}: expected a string")
        if not name or "/" in name or name in RESERVED:
            raise ValueError(
                f"parameters has the name {name!r}: expected a string that is not empty, has no "
                "'/' in it and is neither 'chain' nor 'draw'"
            )
        found[name] = as_parameter(name, parameter)
    return found


def _labels(coords: Any) -> dict[str, np.ndarray]:
    expected = 'expected a mapping of dimensions to labels, such as {"school": ["A", "B"]}'
    if coords is None:
        return {}
    if not isinstance(coords, Mapping):
        raise TypeError(f"coords={coords!r}: {expected}")
    labels = {}
    for dimension, given in coords.items():
        try:
            labels[dimension] = np.asarray(given)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"coords[{dimension!r}]={given!r}: expected a list of labels"
            ) from error
        if labels[dimension].ndim != 1 or not len(labels[dimension]):
            raise ValueError(
                f"coords[{dimension!r}]={given!r}: expected a list of at least one label"
            )
    return labels


def _names(dims: Any, parameters: Mapping[str, Parameter | Fixed]) -> dict[str, tuple[str, ...]]:
    expected = (
        'expected a mapping of parameters to names of dimensions, such as {"theta": ["school"]}'
    )
    if dims is None:
        return {}
    if not isinstance(dims, Mapping):
        raise TypeError(f"dims={dims!r}: {expected}")
    names = {}
    for name, given in dims.items():
        if name not in parameters:
            raise ValueError(
                f"dims has {name!r}, which is not a parameter: expected some of "
                f"{listed(parameters)}"
            )
        if isinstance(given, str):
            given = (given,)
        if not isinstance(given, Sequence) or not all(
            isinstance(dimension, str) for dimension in given
        ):
            raise TypeError(f"dims[{name!r}]={given!r}: expected a list of strings")
        for dimension in given:
            if (
                not dimension
                or "/" in dimension
                or dimension in RESERVED
                or dimension in parameters
            ):
                raise ValueError(
                    f"dims[{name!r}] has {dimension!r}: expected a string that is not empty, has "
                    "no '/' in it and is neither 'chain' nor 'draw' nor the name of a parameter"
                )
        if len(set(given)) < len(given):
            raise ValueError(
                f"dims[{name!r}]={given!r}: expected each name once; label a second axis by "
                f"another one"
            )
        names[name] = tuple(given)
    return names


def _own_shape(parameter: Parameter | Fixed) -> tuple[int, ...]:
    """Return the shape of one value."""
    return () if isinstance(parameter, Fixed) else parameter.transform.shape


def _batch(
    name: str,
    parameter: Parameter | Fixed,
    given: tuple[str, ...] | None,
    labels: Mapping[str, np.ndarray],
) -> tuple[int, ...]:
    own = _own_shape(parameter)
    if given is None:
        return parameter.shape or ()
    if parameter.shape is None:
        outer = given[: len(given) - len(own)]
        if missing := [dimension for dimension in outer if dimension not in labels]:
            raise ValueError(
                f"dims[{name!r}] has {missing[0]!r}, whose length is not known: give its labels in "
                "coords, or the parameter's shape"
            )
        batch = tuple(len(labels[dimension]) for dimension in outer)
    else:
        batch = parameter.shape
    if len(given) != len(batch + own):
        raise ValueError(
            f"dims[{name!r}]={given!r} names {len(given)} dimensions: expected {len(batch + own)}, "
            f"as the parameter has the shape {batch + own}"
        )
    return batch
