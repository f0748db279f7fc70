"""``kmc.predictive``: data simulated at the draws of the posterior and of the prior."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from kmc.posterior.results import groups_of, opened, seed_of
from kmc.run.results import container
from kmc.seeds import Seed

_GROUPS = {"posterior": "posterior_predictive", "prior": "prior_predictive"}


def predictive(result: Any, f: Callable[[Any, np.random.Generator], Any], *, seed: Seed = 0) -> Any:
    """Simulate data at each draw of the posterior, and of the prior if the result has such draws.

    Parameters
    ----------
    result : result of kmc.sample, path of a store, InferenceData or DataTree
        It has a group ``posterior``. The group ``prior`` is there if the model has a prior to draw
        from: ``kmc.Model(..., prior=...)``, or parameters declared with priors.
    f : callable
        It takes the parameters of one draw, as the log-density does (a dict, or an array (d,) if
        they have no names), and a Generator. It returns a number or an array, always of one shape,
        or a dict of them.
    seed : int, SeedSequence or Generator
        For the Generator.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        The groups ``posterior_predictive`` and, where there are draws of the prior,
        ``prior_predictive``. Without names the variable is "y". Add them to the result with
        ``result.extend(found)`` (ArviZ < 1) or ``result.update(found)`` (ArviZ >= 1).

    Raises
    ------
    TypeError, ValueError
        The result has no draws, or f returned something else than above.

    Examples
    --------
    >>> import kmc
    >>> model = kmc.Model(
    ...     lambda p: -0.5 * (p["mu"] - 1.0) ** 2, parameters={"mu": kmc.Normal(0, 10)}
    ... )
    >>> idata = kmc.sample(model, draws=100, sampler="random-walk", seed=1, progress=False)
    >>> found = kmc.predictive(idata, lambda p, rng: {"y": rng.normal(p["mu"], 1.0, size=3)})
    >>> found["posterior_predictive"]["y"].shape, found["prior_predictive"]["y"].shape
    ((4, 100, 3), (1, 500, 3))
    """
    if not callable(f):
        raise TypeError(
            f"f={f!r}: expected a function of the parameters of one draw and of a Generator"
        )
    idata = opened(result, "result")
    if not idata["posterior"].sizes["draw"]:
        raise ValueError("result has no draws: sample for longer")
    names = groups_of(idata)
    named = set(idata["posterior"].data_vars) != {"x"} or "unconstrained_posterior" in names
    fixed = _fixed(idata["constant_data"]) if "constant_data" in names else {}
    found = {}
    for (group, name), own in zip(_GROUPS.items(), seed_of(seed).spawn(len(_GROUPS)), strict=True):
        if group in names:
            found[name] = _simulated(
                f, idata[group], named, fixed, np.random.default_rng(own), group
            )
    return container(found, dict(idata["posterior"].attrs))


def _fixed(data: Any) -> dict[str, Any]:
    """Return the known values that the log-density gets among its parameters."""
    fixed = {
        name: variable.values
        for name, variable in data.data_vars.items()
        if "fixed" in variable.attrs
    }
    return {name: value if value.ndim else float(value) for name, value in fixed.items()}


def _simulated(f, draws, named, fixed, rng, group):
    import xarray

    shape = draws.sizes["chain"], draws.sizes["draw"]
    out: dict[str, np.ndarray] = {}
    for i, parameters in enumerate(_each(draws, named, shape)):
        simulated = _arrays(f(parameters | fixed if named else parameters, rng), f, group)
        if not i:
            out = {
                name: np.empty((shape[0] * shape[1], *a.shape), a.dtype)
                for name, a in simulated.items()
            }
        if {name: a.shape for name, a in simulated.items()} != {
            name: a.shape[1:] for name, a in out.items()
        }:
            raise ValueError(
                f"f returned {_shapes(simulated)} and before "
                f"{_shapes({name: a[0] for name, a in out.items()})}: "
                "expected the same names and shapes at every draw"
            )
        for name, array in simulated.items():
            out[name][i] = array
    variables = {}
    for name, array in out.items():
        dims = ("chain", "draw", *(f"{name}_dim_{k}" for k in range(array.ndim - 1)))
        variables[name] = (dims, array.reshape(*shape, *array.shape[1:]))
    dataset = xarray.Dataset(variables)
    return dataset.assign_coords({name: np.arange(size) for name, size in dataset.sizes.items()})


def _each(draws: Any, named: bool, shape: tuple[int, int]) -> Iterator[Any]:
    """Yield the parameters of each draw, as a log-density gets them."""
    values = {name: v.transpose("chain", "draw", ...).values for name, v in draws.data_vars.items()}
    flat = {name: v.reshape(shape[0] * shape[1], *v.shape[2:]) for name, v in values.items()}
    for i in range(shape[0] * shape[1]):
        if named:
            yield {name: v[i].copy() if v.ndim > 1 else float(v[i]) for name, v in flat.items()}
        else:
            yield flat["x"][i].copy()


def _arrays(returned, f, group):
    """Return the simulated numbers as arrays by name; TypeError or ValueError for anything else."""
    given = returned if isinstance(returned, Mapping) else {"y": returned}
    arrays = {}
    for name, value in given.items():
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):
            array = np.empty(0, object)
        if array.dtype.kind not in "biuf" or not isinstance(name, str):
            call = getattr(f, "__name__", "f")
            raise TypeError(
                f"{call} returned {returned!r} at a draw of the {group}: expected real numbers, or "
                "a dict of arrays of them by name"
            )
        arrays[name] = array.astype(float) if array.dtype.kind == "f" else array
    if not arrays:
        raise ValueError("f returned an empty dict: expected simulated data by name")
    return arrays


def _shapes(arrays):
    return ", ".join(f"{name} of shape {array.shape}" for name, array in arrays.items())
