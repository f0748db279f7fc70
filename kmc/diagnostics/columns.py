"""The elements of variables as named columns: ``slope[A]``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


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
    """An xarray variable with the labels of its coordinates; 0, 1, ... if there are none, or if labels repeat.

    Raises
    ------
    ValueError
        It lacks the dimension "chain" or "draw".
    """
    if not {"chain", "draw"} <= set(variable.dims):
        raise ValueError(
            f"{variable.name!r} has the dimensions {variable.dims}: expected 'chain' and 'draw' among them"
        )
    ordered = variable.transpose("chain", "draw", ...)
    return Variable(ordered.values, [_labels(ordered, dim) for dim in ordered.dims[2:]])


def posterior_of(idata: Any) -> Any:
    """The group "posterior" of a result; TypeError if there is none, or none with variables."""
    try:
        posterior = idata["posterior"]
        empty = not len(posterior.data_vars)
    except (KeyError, TypeError, IndexError, AttributeError):
        empty = True
    if empty:
        raise TypeError(
            f"idata={type(idata).__name__} has no group 'posterior' with variables: expected a result of kmc.sample or "
            "kmc.load"
        )
    return posterior


def labeled_posterior(idata: Any) -> dict[str, Variable]:
    """The variables of a result's posterior, by name."""
    return {str(name): labeled(variable) for name, variable in posterior_of(idata).data_vars.items()}


def unlabeled(values: Any) -> Variable:
    """An array (chain, draw, ...)."""
    return Variable(values, [range(n) for n in np.shape(values)[2:]])


def columns(variables: Mapping[str, Variable], var_names: Sequence[str] | None = None) -> list[Column]:
    """The columns of all variables, or of the named ones: by variable or by column.

    Raises
    ------
    TypeError, ValueError
        Not names, none at all, or there is no such name.

    Examples
    --------
    >>> import numpy as np
    >>> variables = {"slope": Variable(np.zeros((4, 100, 2)), [["A", "B"]]), "sigma": unlabeled(np.ones((4, 100)))}
    >>> [column.name for column in columns(variables)]
    ['slope[A]', 'slope[B]', 'sigma']
    >>> columns(variables, ["slope[B]"])
    [Column(name='slope[B]', variable='slope', place=(1,))]
    """
    of = {name: [_column(name, variable, i) for i in _indices(variable)] for name, variable in variables.items()}
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
            raise ValueError(f"var_names contains {name!r}: expected some of {listed}, or of their elements")
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
