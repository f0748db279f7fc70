"""The numbers on which a simulator's outputs depend, as the user declares them.

They are parameters, or elements such as "a[0, 1]".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kmc.checks import listed
from kmc.model.space import ParameterSpace

_ELEMENT = re.compile(r"(.+)\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]")
_SUCH_AS = "such as 'a', or its elements, such as 'a[0]' or 'a[0, 1]'"


class Element(NamedTuple):
    """A parameter, or a part of it."""

    written: str
    name: str
    place: tuple[int, ...]  # indices of the first dimensions; () for the whole parameter


def as_depends(
    depends: Any, outputs: Iterable[str], inputs: Sequence[str], parameters: Sequence[str]
) -> dict[str, tuple[Element, ...]]:
    """Return by output on what it depends, as far as declared.

    Raises
    ------
    TypeError, ValueError
        An output, a parameter or an input that is not known.

    Examples
    --------
    >>> from kmc.model.depends import as_depends
    >>> as_depends({"first": ["a[0]"]}, ["first", "second"], ["a"], ["a", "b"])["first"][0].place
    (0,)
    """
    if depends is None:
        return {}
    if not isinstance(depends, Mapping):
        raise TypeError(
            f"depends={depends!r}: expected a mapping of outputs' names to lists of parameters, "
            f"such as "
            "{'first': ['a[0]', 'b']}"
        )
    known, found = list(outputs), {}
    for output, given in depends.items():
        if output not in known:
            raise ValueError(
                f"depends has {output!r}, which is not an output: expected some of {listed(known)}"
            )
        if (
            isinstance(given, str)
            or not isinstance(given, Sequence)
            or not all(isinstance(one, str) for one in given)
        ):
            raise TypeError(
                f"depends[{output!r}]={given!r}: expected a list of parameters' names, {_SUCH_AS}"
            )
        if not given:
            raise ValueError(
                f"depends[{output!r}]={given!r} is empty: expected names of parameters, {_SUCH_AS}"
            )
        found[output] = tuple(_element(output, one, inputs, parameters) for one in given)
    return found


def columns_of(
    depends: Mapping[str, Sequence[Element]], space: ParameterSpace
) -> dict[str, np.ndarray]:
    """Return by output the columns of the vector it depends on, in order; fixed values have none.

    Raises
    ------
    ValueError
        An index is out of the range of the parameter's shape.
    """
    return {
        output: np.unique(np.concatenate([_columns(output, one, space) for one in elements]))
        for output, elements in depends.items()
    }


def _element(
    output: str, written: str, inputs: Sequence[str], parameters: Sequence[str]
) -> Element:
    name = written
    index: tuple[int, ...] = ()
    if written not in parameters and (match := _ELEMENT.fullmatch(written)):
        name, index = match[1], tuple(map(int, match[2].split(",")))
    if name not in parameters:
        raise ValueError(
            f"depends[{output!r}] has {written!r}, which is not a parameter: expected some of "
            f"{listed(parameters)}, or their elements, such as 'a[0]' or 'a[0, 1]'"
        )
    if name not in inputs:
        raise ValueError(
            f"depends[{output!r}] has {written!r}, which the simulator does not get: expected some "
            f"of its inputs, {listed(inputs)}"
        )
    return Element(written, name, index)


def _columns(output: str, element: Element, space: ParameterSpace) -> np.ndarray:
    name, index = element.name, element.place
    shape = space.blocks[name].shape if name in space.blocks else np.shape(space.fixed[name])
    if len(index) > len(shape) or any(i >= size for i, size in zip(index, shape)):
        raise ValueError(
            f"depends[{output!r}] has {element.written!r}: expected indices within the shape "
            f"{shape} of {name!r}"
        )
    if name not in space.blocks:
        return np.empty(0, np.int64)
    block = space.blocks[name]
    # A number of a constrained value, such as a simplex, depends on all columns of this value.
    columns = np.arange(block.columns.start, block.columns.stop)
    columns = columns.reshape(block.batch + block.transform.unconstrained_shape)
    return columns[index[: len(block.batch)]].ravel()
