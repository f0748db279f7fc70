"""Check the arguments of kmc.Model, and replace those that stand for others."""

from __future__ import annotations

import difflib
import functools
import operator
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from kmc.model.dimensions import MOST_NUMBERS
from kmc.model.least_squares import OfLmfit, from_lmfit, is_lmfit
from kmc.model.parameters import Real
from kmc.model.posterior import Posterior
from kmc.model.simulation import Simulation, as_simulation
from kmc.model.space import Cube, OfCube, ParameterSpace, Space

_Class = TypeVar("_Class")

# Arguments of other packages, and what to use instead.
_ELSEWHERE = {
    (
        "bounds",
        "limits",
        "lower",
        "upper",
    ): 'use parameters={"a": kmc.Interval(0, 1), ...}, or kmc.Uniform(0, 1)',
    ("names", "param_names", "parameter_names"): 'use parameters={"a": kmc.Real(), ...}',
    ("priors",): 'use parameters={"a": kmc.Normal(0, 1), ...}, or log_prior=',
    ("ndim", "n_dim", "n_params"): "use dim=",
    ("loglike", "log_like", "logl"): "use log_likelihood=",
    ("log_prob", "logp", "log_prob_fn", "log_posterior"): "use log_density=",
}


def explain_unknown(cls: type[_Class]) -> type[_Class]:
    """Let ``__init__`` say what to use in place of an argument that it does not have."""
    init: Any = cls.__init__

    @functools.wraps(init)
    def explaining(self: Any, *args: Any, **given: Any) -> None:
        for name in given.keys() - arguments(cls):
            raise TypeError(
                f"kmc.Model() has no argument {name!r}: {_instead_of(name, arguments(cls))}"
            )
        init(self, *args, **given)

    setattr(cls, "__init__", explaining)  # noqa: B010, as mypy takes no assignment to a method
    return cls


def completed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of :class:`kmc.Model`, checked.

    A simulator with its likelihood becomes a log-likelihood, an ``lmfit.Parameters`` becomes
    parameters, a prior transform becomes a space and a prior, and a log-likelihood with a log-prior
    becomes a log-density.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message has its name and its value.
    """
    new = dict(given)
    if any(
        new[name] is not None
        for name in ("simulator", "likelihood", "inputs", "approximation", "depends")
    ):
        new["log_likelihood"] = _simulated(new)
    if is_lmfit(new["parameters"]):
        new |= _without_lmfit(new)
    if new["prior_transform"] is not None:
        new |= _without_prior_transform(new)
    if new["log_likelihood"] is not None or new["log_prior"] is not None:
        new["log_density"] = _posterior(new)
    if not callable(new["log_density"]):
        raise TypeError(
            f"log_density={new['log_density']!r} is not callable: "
            "pass a function of an array of shape (dim,), or of a dict of parameters, that "
            "returns a float"
        )
    _check_flag("noisy", new["noisy"], "log_density returns the log of an unbiased estimate")
    _check_flag("vectorized", new["vectorized"], "log_density takes many points at once")
    return new | {"args": _tuple(new["args"]), "kwargs": _keywords(new["kwargs"])}


def space_of(given: Mapping[str, Any]) -> Space:
    """Return the space that completed arguments of :class:`kmc.Model` declare."""
    dims, coords = given["dims"], given["coords"]
    declared = [name for name in ("dim", "parameters", "space") if given[name] is not None]
    if len(declared) > 1:
        first, second = declared[:2]
        raise TypeError(
            f"{first}={given[first]!r} and {second}={given[second]!r}: expected one of "
            "them, as each defines the dimensions"
        )
    if isinstance(given["log_likelihood"], Simulation):
        dims, coords = given["log_likelihood"].left(dims, coords)
    space, parameters = given["space"], given["parameters"]
    if space is None:
        whole = {"x": Real(_positive_integer(given["dim"]))} if parameters is None else parameters
        return ParameterSpace(whole, coords, dims)
    if dims is not None or coords is not None:
        raise TypeError(
            f"dims={dims!r} and coords={coords!r}: leave them out, as space has its own"
        )
    if isinstance(space, type) or not isinstance(space, Space):
        raise TypeError(
            f"space={space!r}: expected an object as kmc.model.space.Space describes it"
        )
    return space


def _simulated(given: Mapping[str, Any]) -> Simulation:
    """Return the log-likelihood of a simulator."""
    before, parameters = given["log_likelihood"], given["parameters"]
    if given["depends"] is not None and given["simulator"] is None:
        raise TypeError(
            f"depends={given['depends']!r} without simulator=: it says on which parameters the "
            f"outputs of a simulator "
            "depend, so expected simulator=, likelihood= and parameters=, too"
        )
    if not isinstance(before, Simulation):  # else after dataclasses.replace and fix
        before = None
    others = {
        "log_density": None
        if isinstance(given["log_density"], Posterior)
        else given["log_density"],
        "log_likelihood": None if before else given["log_likelihood"],
        "prior_transform": given["prior_transform"],
        "space": given["space"],
    }
    if found := [name for name, value in others.items() if value is not None]:
        raise TypeError(
            f"simulator and {found[0]}={others[found[0]]!r}: expected simulator=, likelihood= and "
            f"parameters=, or {found[0]}= without them"
        )
    if not isinstance(parameters, Mapping) or is_lmfit(parameters):
        raise TypeError(
            f"parameters={parameters!r}: a model with simulator= has parameters by name, such as "
            'parameters={"a": kmc.Normal(0, 1), ...}'
        )
    if given["noisy"]:
        raise ValueError(
            "noisy=True and simulator: expected a simulator that returns the same outputs again, "
            "such as one with a fixed seed; the log of an unbiased estimate is for log_density="
        )
    if given["vectorized"]:
        raise ValueError("vectorized=True and simulator: expected a simulator of one point")
    return as_simulation(
        given["simulator"],
        given["likelihood"],
        list(parameters),
        inputs=given["inputs"],
        saves=given["save_outputs"],
        dims=given["dims"],
        coords=given["coords"],
        before=before,
        approximation=given["approximation"],
        depends=given["depends"],
    )


def _without_lmfit(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return functions that give an ``lmfit.Parameters`` to those of the user, and its supports."""
    parameters = given["parameters"]
    if given["vectorized"]:
        raise TypeError(
            "vectorized=True: an lmfit.Parameters holds one point; use kmc.Real() and alike"
        )
    derived = tuple(name for name, one in parameters.items() if one.expr)
    new: dict[str, Any] = {"parameters": from_lmfit(parameters)}
    for name in ("log_density", "log_likelihood", "log_prior"):
        function = given[name]
        if callable(function) and not isinstance(function, Posterior):
            new[name] = OfLmfit(function, parameters, () if name == "log_prior" else derived)
    return new


def _without_prior_transform(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a space and a prior in place of the prior transform."""
    transform, log_likelihood = given["prior_transform"], given["log_likelihood"]
    others = ("log_density", "log_prior", "parameters", "space", "prior")
    if found := [name for name in others if given[name] is not None]:
        raise TypeError(
            f"prior_transform and {found[0]}: expected prior_transform=, log_likelihood= and dim= "
            f"only"
        )
    if not callable(transform) or not callable(log_likelihood):
        raise TypeError(
            f"prior_transform={transform!r} and log_likelihood={log_likelihood!r}: expected two "
            f"functions"
        )
    cube = Cube(transform, _positive_integer(given["dim"]), given["vectorized"])
    return {
        "log_likelihood": OfCube(log_likelihood, cube),
        "log_prior": cube.log_prior,
        "prior": cube.initial_points,
        "space": cube,
        "dim": None,
        "prior_transform": None,
    }


def _posterior(given: Mapping[str, Any]) -> Posterior:
    # after dataclasses.replace it is the sum that was made before
    log_density = given["log_density"]
    if log_density is not None and not isinstance(log_density, Posterior):
        raise TypeError(
            f"log_density={log_density!r} with log_likelihood and log_prior: pass either it or "
            f"these two"
        )
    for name in ("log_likelihood", "log_prior"):
        part = given[name]
        if not callable(part) and not (name == "log_prior" and part is None):
            raise TypeError(f"{name}={part!r}: expected a function of the parameters")
    return Posterior(given["log_likelihood"], given["log_prior"], given["vectorized"])


def arguments(cls: Any) -> list[str]:
    """Return the names of a dataclass's arguments."""
    return [each.name for each in fields(cls) if each.init]


def _instead_of(name: str, known: list[str]) -> str:
    """Say what to use instead of an argument of another package, or of one spelled differently."""
    for words, remedy in _ELSEWHERE.items():
        if name in words:
            return remedy
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}=?" if close else f"expected one of {', '.join(known)}"


def _positive_integer(dim: Any) -> int:
    remedy = (
        "pass the number of parameters, an integer of at least 1, or their names and supports, "
        'kmc.Model(f, parameters={"a": kmc.Real(), ...})'
    )
    if isinstance(dim, (bool, np.bool_)):
        raise TypeError(f"dim={dim!r} is not an integer: {remedy}")
    try:
        value = operator.index(dim)
    except TypeError:
        raise TypeError(f"dim={dim!r} is not an integer: {remedy}") from None
    if value < 1:
        raise ValueError(f"dim={dim!r} is not positive: {remedy}")
    if value > MOST_NUMBERS:
        raise ValueError(f"dim={dim!r}: expected at most {MOST_NUMBERS}")
    return value


def _check_flag(name: str, value: Any, meaning: str) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: pass True if {meaning}, else False")


def _tuple(args: Any) -> tuple[Any, ...]:
    if not isinstance(args, tuple):
        raise TypeError(
            f"args={args!r}: expected a tuple of further arguments of log_density, such as (data,)"
        )
    return args


def _keywords(kwargs: Any) -> dict[str, Any]:
    if kwargs is None:
        return {}
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        raise TypeError(
            f"kwargs={kwargs!r}: expected a mapping of names to keyword arguments of log_density"
        )
    return dict(kwargs)
