"""Start points, from any form in which a user may give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kmc.checks import as_array
from kmc.targets.space import Space


def start_points(initial: Any, least: int, space: Space, name: str = "initial") -> np.ndarray:
    """Finite start points in R^d.

    Parameters
    ----------
    initial : array_like, mapping or list of mappings
        Unconstrained points (k, d); or arrays (k, *shape) of each parameter's values, by name; or k mappings, each with
        all parameters by name.
    least : int
        The smallest k.
    space : Space
    name : str
        Name of the argument, for errors.

    Returns
    -------
    ndarray, shape (k, d)
        A new array.

    Raises
    ------
    TypeError, ValueError
        Too few points, the wrong shape, or values that are not finite real numbers in the parameters' supports.
    """
    expected = f"expected real numbers of shape ({least}, {space.dim})"
    if _is_list_of_mappings(initial):
        initial = _stacked(initial, name)
    if isinstance(initial, Mapping):
        initial = _unconstrained(initial, space, name)
    try:
        points = np.array(as_array(name, initial))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}={initial!r}: {expected}") from error
    if points.ndim != 2 or points.shape[1] != space.dim or len(points) < least:
        raise ValueError(
            f"{name} has shape {points.shape}: expected ({least}, {space.dim}), one start point per chain "
            "(more rows are welcome), over-dispersed if possible"
        )
    if not np.all(np.isfinite(points)):
        row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise ValueError(f"{name}[{row}]={points[row].tolist()}: expected finite numbers")
    return points


def _is_list_of_mappings(initial: Any) -> bool:
    return isinstance(initial, (list, tuple)) and bool(initial) and isinstance(initial[0], Mapping)


def _stacked(initial: Any, name: str) -> dict[str, list[Any]]:
    for i, point in enumerate(initial):
        if not isinstance(point, Mapping) or set(point) != set(initial[0]):
            raise ValueError(f"{name}[{i}]={point!r}: expected a mapping with the same names as {name}[0] has")
    return {key: [point[key] for point in initial] for key in initial[0]}


def _unconstrained(initial: Mapping[str, Any], space: Space, name: str) -> np.ndarray:
    unconstrain = getattr(space, "unconstrain", None)
    if unconstrain is None:
        raise TypeError(f"{name}={initial!r}: expected an array (k, {space.dim}) of unconstrained points")
    try:
        return unconstrain(initial)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error
