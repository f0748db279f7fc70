"""Start points: given by the user, or random ones of every size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kmc.checks import as_array
from kmc.targets.fits import is_fit, near_fit
from kmc.targets.space import Space

_LARGEST = 6  # scales from 1e-6 to 1e6
EXPONENTS = sorted(range(-_LARGEST, _LARGEST + 1), key=abs)

TRIED = f"of sizes from 1e-{_LARGEST} to 1e{_LARGEST}, half of them positive"
"""Description of the points of :func:`wide_batches`."""


def start_points(initial: Any, least: int, space: Space, name: str = "initial") -> np.ndarray:
    """Finite start points in R^d.

    Parameters
    ----------
    initial : array_like, mapping, list of mappings, or fit
        Unconstrained points (k, d); or arrays (k, *shape) of each parameter's values, by name; or k mappings, each with
        all parameters by name; or a result of ``scipy.optimize.least_squares`` or lmfit.
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
    if is_fit(initial):
        initial = near_fit(initial, least, _shapes(space, name), lambda point: _is_inside(point, space))
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


def wide_batches(rng: np.random.Generator, size: int, dim: int) -> Iterator[np.ndarray]:
    """Yield points (size, d) without end: one scale after another, then different scales per coordinate, and so on.

    Every second batch is positive.
    """
    while True:
        for exponent in EXPONENTS:
            for low in (0.0, -1.0):
                yield 10.0**exponent * rng.uniform(low, 1.0, (size, dim))
        for _ in EXPONENTS:
            for signs in ([1.0], [-1.0, 1.0]):
                sizes = 10.0 ** rng.uniform(-_LARGEST, _LARGEST, (size, dim))
                yield sizes * rng.choice(signs, (size, dim))


def near(rng: np.random.Generator, size: int, point: np.ndarray, spread: float) -> np.ndarray:
    """Points (size, d) that differ from one point (d,) by a factor in each coordinate: signs and scales stay."""
    return point * np.exp(spread * rng.standard_normal((size, len(point))))


def _is_list_of_mappings(initial: Any) -> bool:
    return isinstance(initial, (list, tuple)) and bool(initial) and isinstance(initial[0], Mapping)


def _shapes(space: Space, name: str) -> dict[str, tuple[int, ...]]:
    blocks = getattr(space, "blocks", None)
    if blocks is None:
        raise TypeError(f"{name} is a fit: expected an array (k, {space.dim}) of unconstrained points")
    return {key: block.shape for key, block in blocks.items()}


def _is_inside(point: Mapping[str, np.ndarray], space: Any) -> bool:
    try:
        return bool(np.isfinite(space.unconstrain(point)).all())
    except ValueError:
        return False


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
