"""Start points: given by the user, drawn around a least-squares fit, or random, of every size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from kmc.arrays import as_array
from kmc.model.space import ParameterSpace, Space

_LARGEST = 6  # scales from 1e-6 to 1e6
_TRIES = 1000  # draws from a fit's Gaussian for each start point in the support
EXPONENTS = sorted(range(-_LARGEST, _LARGEST + 1), key=abs)

TRIED = f"of sizes from 1e-{_LARGEST} to 1e{_LARGEST}, half of them positive"
"""Description of the points of :func:`wide_batches`."""


def start_points(initial: Any, least: int, space: Space, name: str = "initial") -> np.ndarray:
    """Return finite start points in R^d.

    Parameters
    ----------
    initial : array_like, mapping, list of mappings, or fit
        Unconstrained points (k, d); or arrays (k, *shape) of each parameter's values, by name; or k
        mappings, each with all parameters by name; or a result of ``scipy.optimize.least_squares``
        or lmfit.
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
        Too few points, the wrong shape, or values that are not finite real numbers in the
        parameters' supports.
    """
    expected = f"expected real numbers of shape ({least}, {space.dim})"
    if is_fit(initial):
        initial = near_fit(
            initial, least, _shapes(space, name), lambda point: _is_inside(point, space)
        )
    if isinstance(initial, (list, tuple)) and initial and isinstance(initial[0], Mapping):
        initial = _stacked(initial, name)
    if isinstance(initial, Mapping):
        initial = _unconstrained(initial, space, name)
    try:
        points = np.array(as_array(name, initial))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}={initial!r}: {expected}") from error
    if points.ndim != 2 or points.shape[1] != space.dim or len(points) < least:
        raise ValueError(
            f"{name} has shape {points.shape}: expected ({least}, {space.dim}), one start point "
            "per chain (more rows are welcome), over-dispersed if possible"
        )
    if not np.all(np.isfinite(points)):
        row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise ValueError(f"{name}[{row}]={points[row].tolist()}: expected finite numbers")
    return points


def wide_batches(rng: np.random.Generator, size: int, dim: int) -> Iterator[np.ndarray]:
    """Yield points (size, d) without end.

    They have one scale after another, then different scales per coordinate, and so on. Every second
    batch is positive.
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
    """Draw points (size, d) that differ from one point (d,) by a factor in each coordinate.

    Signs and scales stay.
    """
    return point * np.exp(spread * rng.standard_normal((size, len(point))))


def is_fit(given: Any) -> bool:
    """Return whether the object is a result of ``scipy.optimize.least_squares`` or lmfit."""
    return hasattr(given, "var_names") or (hasattr(given, "x") and hasattr(given, "jac"))


def near_fit(
    fit: Any, count: int, shapes: Mapping[str, tuple[int, ...]], inside: Callable[[Any], bool]
) -> Any:
    """Draw arrays (count, *shape) by name from the Gaussian of a fit, the same for the same fit.

    Parameters
    ----------
    fit : OptimizeResult or MinimizerResult
    count : int
    shapes : mapping of str to tuple of int
        Shapes of the parameters' values. A fit of SciPy has their numbers in this order.
    inside : callable
        Whether the values, by name, are in the supports.

    Raises
    ------
    ValueError
        The fit has other parameters, or no covariance, or hardly any mass in the supports.
    """
    sizes = [int(np.prod(shape)) for shape in shapes.values()]
    if hasattr(fit, "var_names"):
        covar = getattr(fit, "covar", None)
        if set(fit.var_names) != set(shapes) or covar is None:
            raise ValueError(
                f"initial is a fit of {', '.join(fit.var_names)} with covar={covar}: expected one "
                f"of {', '.join(shapes)} with their covariance; or pass start points"
            )
        order = [list(fit.var_names).index(name) for name in shapes]
        x = np.array([fit.params[name].value for name in shapes])
        covariance = np.asarray(covar)[np.ix_(order, order)]
    else:
        x, jacobian, residual = (
            as_array("initial", getattr(fit, name)) for name in ("x", "jac", "fun")
        )
        if (
            x.shape != (sum(sizes),)
            or jacobian.ndim != 2
            or np.linalg.matrix_rank(jacobian) < x.size
        ):
            raise ValueError(
                f"initial is a fit of {x.size} numbers with a Jacobian of shape {jacobian.shape}: "
                f"expected one by scipy.optimize.least_squares of {sum(sizes)} numbers "
                f"({', '.join(shapes)}) that the residuals determine; or pass start points"
            )
        variance = np.sum(residual**2) / max(residual.size - x.size, 1)
        covariance = variance * np.linalg.inv(jacobian.T @ jacobian)
    rng = np.random.default_rng(0)
    found: list[dict[str, np.ndarray]] = []
    for _ in range(_TRIES * count):
        parts = np.split(rng.multivariate_normal(x, covariance), np.cumsum(sizes)[:-1])
        point = {
            name: part.reshape(1, *shape) for (name, shape), part in zip(shapes.items(), parts)
        }
        if inside(point):
            found.append(point)
        if len(found) == count:
            return {name: np.concatenate([point[name] for point in found]) for name in shapes}
    raise ValueError(
        "initial is a fit whose Gaussian is outside of the parameters' supports; pass start points"
    )


def _shapes(space: Space, name: str) -> dict[str, tuple[int, ...]]:
    if not isinstance(space, ParameterSpace):
        raise TypeError(
            f"{name} is a fit: expected an array (k, {space.dim}) of unconstrained points"
        )
    return {key: block.shape for key, block in space.blocks.items()}


def _is_inside(point: Mapping[str, np.ndarray], space: Any) -> bool:
    try:
        return bool(np.isfinite(space.unconstrain(point)).all())
    except ValueError:
        return False


def _stacked(initial: Any, name: str) -> dict[str, list[Any]]:
    for i, point in enumerate(initial):
        if not isinstance(point, Mapping) or set(point) != set(initial[0]):
            raise ValueError(
                f"{name}[{i}]={point!r}: expected a mapping with the same names as {name}[0] has"
            )
    return {key: [point[key] for point in initial] for key in initial[0]}


def _unconstrained(initial: Mapping[str, Any], space: Space, name: str) -> np.ndarray:
    if not isinstance(space, ParameterSpace):
        raise TypeError(
            f"{name}={initial!r}: expected an array (k, {space.dim}) of unconstrained points"
        )
    try:
        return space.unconstrain(initial)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error
