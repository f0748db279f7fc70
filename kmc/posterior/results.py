"""Read from results what expectations and evidence need; evaluate quantities of the parameters."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Never

import numpy as np

from kmc.control_variates.replicate import Replicate
from kmc.model.convert import as_model
from kmc.model.evaluate import Evaluator
from kmc.model.posterior import TOTAL
from kmc.run.frozen_surrogates import decoded
from kmc.run.history import EVALUATIONS, evaluations_of, outputs_of
from kmc.run.problems import sentences_of, warnings
from kmc.run.run_warnings import OF_DRAWS
from kmc.run.store.load import load
from kmc.run.structure import Approximation, KnownPart, Structure, added, structured
from kmc.seeds import Seed, Stream, as_seed, substream

Constrain = Callable[[np.ndarray], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Result:
    """The contents of one run.

    Attributes
    ----------
    replicates : list of Replicate
        One for each independent run; none if there are too few draws.
    constrain : callable
        From vectors (n, d) to the parameters; a ValueError if only the model can do it, and none
        was passed.
    named : bool
        Whether the parameters have names; if not, the only one is "x".
    labels : mapping of str to list of str
        For each parameter, a label for each of its numbers.
    idata
        The whole result.
    evaluations : (x, values), ndarrays, shape (n, d) and (n,)
        Those of a run with too few draws.
    noisy : bool
        Whether values are noisy.
    n_draws : int
        Draws of all chains of a run with too few.
    outputs : ndarray, shape (n, k), or None
        Those of the model's simulator at these evaluations, NaN where they are not known.
    structure : Structure or None
        What the log-density is of these outputs.
    approximation : Approximation or None
        A cheap simulator of these outputs.
    known : KnownPart or None
        What is known of the log-density.
    """

    replicates: list[Replicate]
    constrain: Constrain
    named: bool
    labels: dict[str, list[str]]
    idata: Any
    evaluations: tuple[np.ndarray, np.ndarray] = (np.empty((0, 0)), np.empty(0))
    noisy: bool = False
    n_draws: int = 0
    outputs: np.ndarray | None = None
    structure: Structure | None = None
    approximation: Approximation | None = None
    known: KnownPart | None = None


def read(result: Any, model: Any, name: str = "result", *, least: int = 2) -> Result:
    """Read a user's argument.

    A short run is read as its evaluations, see :func:`is_short`.

    Raises
    ------
    TypeError, ValueError
        It is not a result of kmc, or has no surrogate.
    """
    idata = opened(result, name)
    groups = groups_of(idata)
    if is_short(idata, least):
        return _by_evaluations(idata, model, name)
    if not {"proposals", "surrogate"} <= groups:
        raise ValueError(
            f"{name} has no groups proposals and surrogate: this needs a run of "
            f"sampler='kernel-hmc' with "
            f"save_surrogate=True; this one is of sampler={idata.attrs.get('sampler')!r}"
        )
    try:
        parts = decoded(idata["surrogate"])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    proposals, dim = idata["proposals"], idata["proposals"].sizes["x_dim_0"]
    named = "unconstrained_posterior" in groups
    constrain = _constrain(model, parts[0].constrain, dim, name)
    draws = _numbers(idata["unconstrained_posterior"] if named else idata["posterior"], "x", name)
    log_density = _numbers(idata["sample_stats"], "lp", name)
    columns = (
        draws,
        log_density,
        *(_numbers(proposals, column, name) for column in ("x", "lp", "move")),
    )
    shapes = [column.shape for column in columns]
    if shapes != [
        (*log_density.shape, dim),
        log_density.shape,
        draws.shape,
        log_density.shape,
        log_density.shape,
    ]:
        raise ValueError(f"{name} has arrays of shapes that do not fit: {shapes}")
    if {density.dim for part in parts for density in part.densities} != {dim}:
        raise ValueError(f"{name} has a surrogate of another number of parameters than {dim}")
    replicates: list[Replicate] = []
    noisy = _is_noisy(idata)
    missed = " ".join(
        sentence for code, sentence in warnings(idata).items() if code in OF_DRAWS
    ).rstrip(".")
    first = 0
    for part in parts:
        chains = slice(first, first + part.chains)
        kept = _kept(log_density[chains], idata["posterior"], name)
        each = part.chains // len(part.densities)
        for i, density in enumerate(part.densities):
            rows = slice(first + i * each, first + (i + 1) * each)
            x, lp, y, proposed, move = (column[rows, kept] for column in columns)
            replicates.append(Replicate(x, lp, y, proposed, move, density, noisy, missed))
        first = chains.stop
    if (fewest := min(replicate.draws.shape[1] for replicate in replicates)) < 2:
        raise ValueError(
            f"{name} has {fewest} draws per chain: expected at least 2; sample for longer"
        )
    return Result(replicates, constrain, named, _labels(idata["posterior"]), idata)


def read_evaluations(result: Any, model: Any, name: str = "result") -> Result | None:
    """Read a user's argument as the evaluations of its run, although it has draws.

    None without them, or where the density is zero at some of them: draws know edges better than a
    regression does.
    """
    idata = opened(result, name)
    if EVALUATIONS not in groups_of(idata):
        return None
    read = _by_evaluations(idata, model, name)
    return read if np.isfinite(read.evaluations[1]).all() else None


def is_short(idata: Any, least: int) -> bool:
    """Return whether a run has evaluations to learn from, and few draws.

    Few are fewer than 2 draws per chain, or fewer than ``least`` in all.
    """
    sizes = idata["posterior"].sizes
    return EVALUATIONS in groups_of(idata) and (
        sizes["draw"] < 2 or sizes["chain"] * sizes["draw"] < least
    )


def _by_evaluations(idata: Any, model: Any, name: str) -> Result:
    """Read the evaluations of a run that has few draws or none."""
    named = "unconstrained_posterior" in groups_of(idata)
    dim = (idata["unconstrained_posterior"] if named else idata["posterior"]).sizes["x_dim_0"]
    x, values = evaluations_of(idata, dim, name)
    constrain = _constrain(model, None if named else _as_x, dim, name)
    noisy, n_draws = _is_noisy(idata), idata["sample_stats"]["lp"].size
    found = Result(
        [], constrain, named, _labels(idata["posterior"]), idata, (x, values), noisy, n_draws
    )
    if model is None:
        return found
    model = as_model(model, dim, "model")
    found, known = replace(found, known=added(model)), structured(model)
    if known is None:
        return found
    outputs = outputs_of(idata, len(x), known)
    if not known.holds(x, values, outputs):
        return found
    return replace(
        found, outputs=outputs, structure=known.structure, approximation=known.approximation
    )


def _as_x(points: np.ndarray) -> dict[str, np.ndarray]:
    return {"x": points}


def _is_noisy(idata: Any) -> bool:
    # of several runs, a JSON list
    return any(flag in str(idata.attrs.get("noisy", 0)) for flag in ("1", "true"))


def _constrain(model: Any, own: Constrain | None, dim: int, name: str) -> Constrain:
    """Return how to constrain parameters: by the model if given, or by what the result knows."""
    if model is not None:
        return as_model(model, dim, "model").constrain
    return partial(_needs_model, name) if own is None else own


def _numbers(group: Any, variable: str, name: str) -> np.ndarray:
    """Return a variable of a group from any file; ValueError unless it has real numbers."""
    values = group[variable].values if variable in group else None
    if values is None or values.dtype.kind not in "biuf":
        raise ValueError(f"{name} has no numbers {variable}: expected what kmc.sample returned")
    return values


def _needs_model(name: str, points: np.ndarray) -> Never:
    raise ValueError(
        f"model=None: only the model knows how the parameters of {name} are constrained; pass "
        f"model="
    )


def _kept(log_density: np.ndarray, posterior: Any, name: str) -> slice:
    """Return the slice of the draws that the chains (k, n) have.

    Where results of different length are joined, the shorter one has NaN. ValueError if draws
    between others are missing.
    """
    missing = np.isnan(log_density)
    (rows,) = np.nonzero(~missing.any(axis=0))
    if not len(rows):
        return slice(0, 0)
    kept = slice(rows[0], rows[-1] + 1)
    numbers = posterior.coords["draw"].values[kept] if "draw" in posterior.coords else rows
    if missing[:, kept].any() or np.any(np.diff(numbers) != 1):
        raise ValueError(
            f"{name} lacks draws between others, so that their proposals were made elsewhere: keep "
            "all draws of a part of the run, not every other one"
        )
    return kept


def opened(result: Any, name: str) -> Any:
    """Return the result, or the one in a store; TypeError or ValueError for anything else."""
    idata = load(result) if isinstance(result, (str, os.PathLike)) else result
    if not hasattr(idata, "attrs") or not hasattr(idata, "groups"):
        raise TypeError(
            f"{name}={type(idata).__name__}: expected what kmc.sample returned, or the path of "
            f"its store"
        )
    if "posterior" not in groups_of(idata):
        raise ValueError(f"{name} has no group posterior: expected what kmc.sample returned")
    dims = idata["posterior"].dims
    if not {"chain", "draw"} <= set(dims):
        raise ValueError(
            f"{name} has a posterior of dimensions {tuple(dims)}: expected 'chain' and 'draw' "
            "among them; select one draw or chain by a list, such as isel(draw=[0])"
        )
    return idata


def seed_of(seed: Seed) -> np.random.SeedSequence:
    """Return the seed of a read-out, whose random streams no run of the same seed has."""
    return substream(as_seed(seed), Stream.READ_OUT)


def groups_of(idata: Any) -> set[str]:
    """Return the names of a result's groups."""
    return (
        set(idata.groups())
        if callable(idata.groups)
        else {path.strip("/") for path in idata.groups}
    )


def without_prior(idata: Any) -> list[str]:
    """Return the names of the parameters that had no prior in the run."""
    return sentences_of(idata.attrs, "without_prior")


def log_likelihood_of(idata: Any) -> np.ndarray | None:
    """Return the total log-likelihood of each draw, (chains, n); None if the result lacks it."""
    groups = groups_of(idata)
    if "blobs" in groups and TOTAL in idata["blobs"]:
        return idata["blobs"][TOTAL].values
    if "log_likelihood" not in groups:
        return None
    parts = [variable.values for variable in idata["log_likelihood"].data_vars.values()]
    return np.sum([part.reshape(*part.shape[:2], -1).sum(axis=2) for part in parts], axis=0)


def as_evaluator(model: Any, dim: int) -> Evaluator:
    """Return what evaluates a user's model of ``dim`` parameters at unconstrained points (n, d)."""
    return Evaluator(as_model(model, dim, "model"))


def as_list(results: Any) -> list[Any]:
    """Return one result, or a sequence of them, as a list; ValueError if the sequence is empty."""
    if isinstance(results, Sequence) and not isinstance(results, (str, bytes)):
        if not results:
            raise ValueError("result=[]: expected at least one result of kmc.sample")
        return list(results)
    return [results]


def _labels(posterior: Any) -> dict[str, list[str]]:
    """Return labels as in ArviZ's summary: "theta[A, 0]"."""
    found = {}
    for name, variable in posterior.data_vars.items():
        dims = variable.dims[2:]
        coords = [[str(label) for label in posterior.coords[dim].values] for dim in dims]
        found[str(name)] = [
            f"{name}[{', '.join(part)}]" if part else str(name) for part in _product(coords)
        ]
    return found


def _product(coords):
    labels: list[list[str]] = [[]]
    for own in coords:
        labels = [[*label, part] for label in labels for part in own]
    return labels


class Quantities:
    """k numbers at each point: all parameters, or the output of a user's function.

    Parameters
    ----------
    f : callable or None
    vectorized : bool
        Whether f takes many points at once.
    result : Result

    Attributes
    ----------
    labels : list of str
        Known after the first call.
    """

    def __init__(self, f: Callable[[Any], Any] | None, vectorized: bool, result: Result):
        if f is not None and not callable(f):
            raise TypeError(
                f"f={f!r}: expected a function of the parameters, or None for the parameters "
                f"themselves"
            )
        self._f, self._vectorized, self._result = f, vectorized, result
        self._shape: tuple[int, ...] | None = None
        self.labels: list[str] = []

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate the numbers at vectors (..., d): (..., k).

        Raises
        ------
        TypeError, ValueError
            f returned something that is not real and finite, or a different shape than before.
        """
        rows = points.reshape(-1, points.shape[-1])
        values = self._result.constrain(rows)
        found = self._parameters(values) if self._f is None else self._of_user(values, len(rows))
        return found.reshape(*points.shape[:-1], found.shape[1])

    def _parameters(self, values):
        names = [name for name in self._result.labels if name in values]
        self.labels = [label for name in names for label in self._result.labels[name]]
        return np.column_stack(
            [np.reshape(values[name], (len(values[name]), -1)) for name in names]
        ).astype(float)

    def _of_user(self, values, n):
        if self._vectorized:
            found = self._call(values if self._result.named else values["x"])
            array = self._checked(found, found, 1)
            if len(array) != n:
                raise ValueError(
                    f"f returned {len(array)} values for {n} points: expected one for each"
                )
            return array.reshape(n, -1)
        out = None
        for i in range(n):
            found = self._call(self._point(values, i))
            array = self._checked(found, found, 0)
            if out is None:
                out = np.empty((n, array.size))
            out[i] = array.ravel()
        return out

    def _call(self, values):
        assert self._f is not None
        return self._f(values)

    def _point(self, values, i):
        if not self._result.named:
            return values["x"][i].copy()
        return {
            name: value[i].copy() if value.ndim > 1 else float(value[i])
            for name, value in values.items()
        }

    def _checked(self, found, shown, leading):
        try:
            array = np.asarray(found)
            if array.dtype.kind not in "biuf":
                raise TypeError(f"of type {array.dtype}")
            array = array.astype(float)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"f returned {shown!r}: expected a real number or an array of them"
            ) from error
        shape = array.shape[leading:]
        if self._shape is None:
            self._shape = shape
            name = getattr(self._f, "__name__", "f")
            name = name if name.isidentifier() else "f"
            self.labels = [
                name + (f"[{', '.join(map(str, index))}]" if index else "")
                for index in np.ndindex(shape)
            ]
        if shape != self._shape:
            raise ValueError(
                f"f returned an array of shape {shape} and one of {self._shape} before: expected "
                f"the same"
            )
        if not np.all(np.isfinite(array)):
            raise ValueError(
                f"f returned {shown!r}: expected finite numbers at every point of the posterior"
            )
        return array
