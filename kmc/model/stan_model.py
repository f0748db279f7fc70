"""Stan models as targets: the log-density of a program compiled by BridgeStan."""

from __future__ import annotations

import json
import math
import os
import re
import warnings
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kmc._names import install
from kmc.errors import KmcWarning
from kmc.model.model import Model
from kmc.model.space import SpaceDefaults


def from_stan(
    model: Any, data: Any = None, *, on_error: str = "raise", nonfinite: str = "reject"
) -> Model:
    """Return a Stan model as a target of :func:`kmc.sample`.

    Parameters
    ----------
    model : bridgestan.StanModel or path
        The model, or the path of one that BridgeStan has compiled. A ``.stan`` file is compiled
        first, which needs a C++ toolchain.
    data : dict, str or path, optional
        Only with a path: the data, as a dict, as JSON or as the path of a JSON file.
    on_error : {"raise", "reject", "retry"}
        As in :class:`kmc.Model`.
    nonfinite : {"reject", "raise"}
        As in :class:`kmc.Model`. By default NaN and ``+inf`` are rejected, as by Stan's own
        samplers.

    Returns
    -------
    Model
        On Stan's unconstrained scale, including Jacobians, without constants. Its draws are the
        parameters, transformed parameters and generated quantities, as arrays of their declared
        shape; a tuple or a complex number is one variable for each of its parts ("t:1", "z.real").
        Chains start uniformly on [-2, 2]^d, as in Stan.

    Raises
    ------
    ImportError
        A path was given and BridgeStan is not installed.
    TypeError
        `model` is neither a StanModel nor a path.
    ValueError
        `data` was given along with a StanModel, which has its own; or the model has no parameters.

    Notes
    -----
    Where Stan rejects a point, by ``reject()`` or because an argument is out of its domain, the
    density is taken as zero, as in Stan's own samplers; the first time a warning says why.
    Generated quantities that fail are NaN. Random ones get a seed derived from the draws, so that a
    repeated run repeats them.

    The target can be sent to other processes, which load the compiled model again. Several threads
    may evaluate it at the same time if it was compiled with ``STAN_THREADS=true``.

    Examples
    --------
    >>> import kmc
    >>> target = kmc.from_stan(  # doctest: +SKIP
    ...     "eight_schools_model.so", data="eight_schools.json"
    ... )
    >>> idata = kmc.sample(target)  # doctest: +SKIP
    """
    if isinstance(model, (str, os.PathLike)):
        model = _loaded(model, data)
    elif data is not None:
        raise ValueError(
            "data is given, but the StanModel has its own: pass data along with a path, or leave "
            "it out"
        )
    elif not callable(getattr(model, "param_constrain", None)):
        raise TypeError(
            f"model={model!r}: expected a bridgestan.StanModel or the path of a compiled model"
        )
    if model.param_unc_num() < 1:
        raise ValueError("model has no parameters: expected at least one")
    space = StanSpace(model)
    return Model(space.log_density, on_error=on_error, nonfinite=nonfinite, space=space)


class StanSpace(SpaceDefaults):
    """The variables of a Stan model as functions of the vector of its unconstrained parameters.

    Parameters
    ----------
    model : bridgestan.StanModel

    Attributes
    ----------
    dim : int
    dims : dict of str to tuple of str
    coords : dict of str to ndarray
    """

    made_by = "kmc.from_stan(model"

    def __init__(self, model: Any):
        self.model = model
        self.dim = int(model.param_unc_num())
        self._names = model.param_names(include_tp=True, include_gq=True)
        self._variables = variables(self._names)
        lengths = {
            name: {f"{name}_dim_{i}": length for i, length in enumerate(variable.shape)}
            for name, variable in self._variables.items()
        }
        self.dims = {name: tuple(own) for name, own in lengths.items()}
        self.coords = {
            name: np.arange(length) for own in lengths.values() for name, length in own.items()
        }
        self._warned: set[str] = set()

    def log_density(self, x: np.ndarray) -> float:
        """Return Stan's ``target`` at x (d,) without constants; -inf if the program rejects x."""
        try:
            return float(
                self.model.log_density(np.ascontiguousarray(x), propto=True, jacobian=True)
            )
        except RuntimeError as error:
            self._warn("Stan rejected a point, whose density is taken as zero", error)
            return -math.inf

    def constrain(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Return the variables (n, *shape) at vectors (n, d), by name."""
        points = np.ascontiguousarray(points, dtype=float)
        # so that chains, which come one by one, differ
        rng = self.model.new_rng(zlib.crc32(points.tobytes()))
        rows = np.full((len(points), len(self._names)), np.nan)
        for row, x in zip(rows, points, strict=True):
            try:
                row[:] = self.model.param_constrain(x, include_tp=True, include_gq=True, rng=rng)
            except RuntimeError as error:
                row[: self.model.param_num()] = self.model.param_constrain(x)
                self._warn(
                    "Stan could not compute the generated quantities of a draw, which are NaN",
                    error,
                )
        return {name: variable.of(rows) for name, variable in self._variables.items()}

    def initial_points(self, rng: np.random.Generator, n: int) -> None:
        """Return None: the sampler's default is the same as Stan's."""

    def _warn(self, what: str, error: Exception) -> None:
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(f"{what} (shown once): {error}", KmcWarning, stacklevel=3)

    def __reduce__(self) -> Any:
        return _reloaded, (self.model.lib_path, self.model.data, self.model.seed)


class StanVariable(NamedTuple):
    """The columns that hold an array, and the position of each in it."""

    columns: list[int]
    places: list[tuple[int, ...]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the variable, () for a number."""
        return tuple(max(indices) + 1 for indices in zip(*self.places))

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return the arrays (n, *shape) in rows of all columns (n, c)."""
        arrays = np.empty((*self.shape, len(rows)))
        for column, place in zip(self.columns, self.places, strict=True):
            arrays[place] = rows[:, column]
        return np.moveaxis(arrays, -1, 0)


def variables(names: Sequence[str]) -> dict[str, StanVariable]:
    """Return the arrays behind Stan's indexed names.

    Examples
    --------
    >>> from kmc.model.stan_model import variables
    >>> found = variables(["mu", "a.1.1", "a.2.1", "a.1.2", "a.2.2"])
    >>> found["a"].places
    [(0, 0), (1, 0), (0, 1), (1, 1)]
    >>> found["mu"].shape, found["a"].shape
    ((), (2, 2))
    """
    found: dict[str, StanVariable] = {}
    for column, indexed in enumerate(names):
        name = re.sub(r"(\.\d+)+$", "", indexed)
        variable = found.setdefault(name, StanVariable([], []))
        variable.columns.append(column)
        variable.places.append(
            tuple(int(index) - 1 for index in indexed[len(name) :].split(".")[1:])
        )
    return found


def _loaded(path: Any, data: Any, **options: Any) -> Any:
    try:
        import bridgestan
    except ImportError as error:
        raise ImportError(f"from_stan needs BridgeStan: {install('stan')}") from error
    if isinstance(data, Mapping):
        data = json.dumps(data, default=lambda value: value.tolist())  # NumPy arrays and numbers
    return bridgestan.StanModel(path, data, **options)


def _reloaded(path: str, data: str, seed: int) -> StanSpace:
    return StanSpace(_loaded(path, data, seed=seed, warn=False))
