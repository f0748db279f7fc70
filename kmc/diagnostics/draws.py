"""Read draws from any container, as named columns (``slope[A]``) and an array, and their scores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kmc.arrays import as_array


class Draws(NamedTuple):
    """Finite draws of every scalar parameter."""

    values: np.ndarray  # (chains, draws, d)
    names: list[str]  # of the columns: "mu", "theta[0]", "slope[A]", ...


def read_draws(data: Any, var_names: Sequence[str] | None = None) -> Draws:
    """Return draws as an array.

    Parameters
    ----------
    data : InferenceData, DataTree, xarray.Dataset, mapping of str to array_like, or array_like
        For the first two, their group ``posterior``. Arrays of a mapping have the shape (chain,
        draw, ...), a single array (chain, draw) or (chain, draw, d); its columns are called
        ``x[0]``, ``x[1]``, ...
    var_names : sequence of str, optional
        Variables to take, or elements of them by their labels, ``"slope[A]"``; all by default.

    Raises
    ------
    TypeError
        A path.
    ValueError
        Unknown name, wrong shape, fewer than four draws a chain, or draws that are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.diagnostics.draws import read_draws
    >>> draws = read_draws({"mu": np.zeros((4, 100)), "theta": np.ones((4, 100, 2))})
    >>> draws.values.shape, draws.names
    ((4, 100, 3), ['mu', 'theta[0]', 'theta[1]'])
    """
    variables = _variables(data)
    chosen = columns(variables, var_names)
    arrays = {
        name: _checked(name, variables[name].values)
        for name in dict.fromkeys(c.variable for c in chosen)
    }
    if not arrays:
        raise ValueError("data has no variables: there is nothing to diagnose")
    shapes = {name: array.shape[:2] for name, array in arrays.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"data has arrays of different numbers of chains and draws: {shapes}")
    chains, n = next(iter(shapes.values()))
    if chains < 1 or n < 4:
        raise ValueError(
            f"data has {chains} chains of {n} draws: expected at least one chain of four draws"
        )
    values = np.stack([arrays[column.variable][(..., *column.place)] for column in chosen], axis=2)
    return Draws(values, [column.name for column in chosen])


def read_points(data: Any, var_names: Any = None) -> np.ndarray:
    """Return draws (chains, draws, d) from any input of :func:`read_draws`, or from points (n, d).

    An array with two dimensions, or such a list, holds the points of one chain.
    """
    if isinstance(data, (np.ndarray, list, tuple)) and np.ndim(data) == 2:
        data = np.asarray(data)[None]
    return read_draws(data, var_names).values


LEAST_BLOCKS = 8
"""Parts of draws by which standard errors are found, at least."""


def blocks(values: np.ndarray) -> list[np.ndarray]:
    """Split chains (chains, draws, k) into blocks (n, k).

    Each chain is one block, or several if there are few chains.
    """
    parts = min(-(-LEAST_BLOCKS // len(values)), values.shape[1])
    return [part for chain in values for part in np.array_split(chain, parts)]


def scores_at(score: Any, points: np.ndarray) -> np.ndarray:
    """Return ∇ log p at the rows of points (n, d), shape (n, d).

    Parameters
    ----------
    score : callable or object with a method ``gradient``
        From points (n, d) to (n, d).
    points : ndarray, shape (n, d)

    Raises
    ------
    TypeError
        Neither a function nor such an object.
    ValueError
        The returned array has another shape or is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.diagnostics.draws import scores_at
    >>> scores_at(lambda x: -x, np.ones((1, 2)))
    array([[-1., -1.]])
    """
    function = getattr(score, "gradient", score)
    if not callable(function):
        raise TypeError(
            f"score={score!r}: expected a function of points (n, d), or an object with a method "
            f"gradient"
        )
    # a copy: the function may modify its argument
    scores = as_array("score", function(points.copy()))
    if scores.shape != points.shape:
        raise ValueError(
            f"score returned an array of shape {scores.shape} for points of shape {points.shape}"
        )
    if not np.all(np.isfinite(scores)):
        row = int(np.argmax(~np.isfinite(scores).all(axis=1)))
        raise ValueError(
            f"score returned NaN or infinity at the point {points[row].tolist()} (row {row})"
        )
    return scores


def _variables(data: Any) -> Mapping[str, Variable]:
    """Return the variables of any input of :func:`read_draws`, by name."""
    if isinstance(data, (str, os.PathLike)):
        raise TypeError(
            f"data={data!r} is a path: open it first, a store by kmc.load, a netCDF file by "
            f"arviz.from_netcdf"
        )
    if hasattr(data, "groups"):  # InferenceData and DataTree
        if "posterior" not in groups_of(data):
            raise ValueError(
                f"data has no group 'posterior': expected it among {', '.join(groups_of(data))}"
            )
        data = data["posterior"]
    if hasattr(data, "data_vars"):
        return {str(name): labeled(variable) for name, variable in data.data_vars.items()}
    if not isinstance(data, Mapping):
        array = np.asarray(data)
        if array.ndim not in (2, 3):
            raise ValueError(
                f"data has shape {array.shape}: expected (chain, draw) or (chain, draw, parameter)"
            )
        data = {"x": array}
    return {name: unlabeled(values) for name, values in data.items()}


def groups_of(data: Any) -> list[str]:
    """Return the names of the groups of an InferenceData or DataTree."""
    return [name.strip("/") for name in (data.groups() if callable(data.groups) else data.groups)]


def _checked(name, values):
    array = np.asarray(values)
    if array.dtype.kind not in "fiub" or array.ndim < 2:
        raise ValueError(
            f"{name!r} has dtype {array.dtype} and shape {array.shape}: expected real numbers, "
            f"(chain, draw, ...)"
        )
    array = array.astype(float)
    if not np.all(np.isfinite(array)):
        chain, draw = np.argwhere(~np.isfinite(array))[0][:2]
        raise ValueError(
            f"{name!r} is not finite in chain {chain}, draw {draw}: drop such variables or draws "
            f"first"
        )
    return array


class Variable(NamedTuple):
    """A variable, and labels of the elements along its further dimensions."""

    values: Any  # (chain, draw, ...)
    labels: Sequence[Sequence[Any]]


class Column(NamedTuple):
    """An element of a variable; for a scalar, the variable itself."""

    name: str
    variable: str
    place: tuple[int, ...]


def labeled(variable: Any) -> Variable:
    """Return an xarray variable with its coordinates' labels: 0, 1, ... if missing or repeated.

    Raises
    ------
    ValueError
        It lacks the dimension "chain" or "draw".
    """
    if not {"chain", "draw"} <= set(variable.dims):
        raise ValueError(
            f"{variable.name!r} has the dimensions {variable.dims}: expected 'chain' and 'draw' "
            f"among them"
        )
    ordered = variable.transpose("chain", "draw", ...)
    return Variable(ordered.values, [_labels(ordered, dim) for dim in ordered.dims[2:]])


def posterior_of(idata: Any) -> Any:
    """Return the group "posterior" of a result; raise a TypeError if it is missing or empty."""
    try:
        posterior = idata["posterior"]
        empty = not len(posterior.data_vars)
    except (KeyError, TypeError, IndexError, AttributeError):
        empty = True
    if empty:
        raise TypeError(
            f"idata={type(idata).__name__} has no group 'posterior' with variables: expected a "
            "result of kmc.sample or kmc.load"
        )
    return posterior


def labeled_posterior(idata: Any) -> dict[str, Variable]:
    """Return the variables of a result's posterior by name, with their labels."""
    return {
        str(name): labeled(variable) for name, variable in posterior_of(idata).data_vars.items()
    }


def unlabeled(values: Any) -> Variable:
    """Return an array (chain, draw, ...) as a variable with the labels 0, 1, ..."""
    return Variable(values, [range(n) for n in np.shape(values)[2:]])


def columns(
    variables: Mapping[str, Variable], var_names: Sequence[str] | None = None
) -> list[Column]:
    """Return the columns of all variables, or those that are named: by variable or by column.

    Raises
    ------
    TypeError, ValueError
        Not names, none at all, or there is no such name.

    Examples
    --------
    >>> import numpy as np
    >>> variables = {
    ...     "slope": Variable(np.zeros((4, 100, 2)), [["A", "B"]]),
    ...     "sigma": unlabeled(np.ones((4, 100))),
    ... }
    >>> [column.name for column in columns(variables)]
    ['slope[A]', 'slope[B]', 'sigma']
    >>> columns(variables, ["slope[B]"])
    [Column(name='slope[B]', variable='slope', place=(1,))]
    """
    of = {
        name: [_column(name, variable, i) for i in _indices(variable)]
        for name, variable in variables.items()
    }
    if var_names is None:
        return [column for mine in of.values() for column in mine]
    single = {column.name: [column] for mine in of.values() for column in mine}
    names = [var_names] if isinstance(var_names, str) else var_names
    expected = "expected one name or several, or None for all variables"
    if not isinstance(names, Iterable):
        raise TypeError(f"var_names={var_names!r}: {expected}")
    names = list(names)
    if not names:
        raise ValueError(f"var_names={var_names!r} is empty: {expected}")
    found = []
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"var_names contains {name!r}: {expected}")
        if name not in of and name not in single:
            listed = ", ".join(map(repr, of))
            raise ValueError(
                f"var_names contains {name!r}: expected some of {listed}, or of their elements"
            )
        found += of.get(name) or single[name]
    return found


def _indices(variable):
    return np.ndindex(tuple(map(len, variable.labels)))


def _column(name, variable, index):
    words = [str(labels[i]) for labels, i in zip(variable.labels, index, strict=True)]
    return Column(f"{name}[{', '.join(words)}]" if words else name, name, index)


def _labels(variable, dim):
    labels = variable.coords[dim].values.tolist() if dim in variable.coords else []
    if len(set(map(str, labels))) == variable.sizes[dim]:
        return labels
    return range(variable.sizes[dim])
