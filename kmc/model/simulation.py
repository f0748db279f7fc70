"""The log-likelihood of a model whose simulator and likelihood are apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kmc.arrays import as_array
from kmc.checks import listed
from kmc.likelihoods.base import Likelihood, OfData
from kmc.model.depends import Element, as_depends
from kmc.model.space import Block

OUTPUT = "y"
"""Name of the data of a simulator that returns an array."""

OUTPUTS, PREDICTIVE = "outputs", "posterior_predictive"
"""Groups of the results, besides "log_likelihood" and "observed_data"."""


@dataclass(frozen=True)
class KnownParts:
    """What a log-density is of the outputs of its simulator, and of its parameters.

    Attributes
    ----------
    likelihoods : mapping of str to Likelihood
        By output, of outputs that evaluations return as blobs.
    inputs : ndarray of int, shape (k,)
        Columns of the vector on which the outputs depend.
    blocks : mapping of str to Block
        Parameters in the vector that likelihoods may name.
    fixed : mapping of str to float or ndarray
        Others that they may name.
    log_added : callable
        Returns what the log-density has besides the likelihoods (n,), at vectors (n, d).
    draw : callable
        Takes a Generator and n, and returns vectors (n, d) from the prior, about; or None.
    approximation : callable, optional
        Takes a vector (d,), and returns the outputs of the cheap simulator as blobs.
    depends : mapping of str to ndarray of int
        Columns on which an output depends, some of ``inputs``, by output; an output without them
        depends on all inputs.
    """

    likelihoods: Mapping[str, Likelihood]
    inputs: np.ndarray
    blocks: Mapping[str, Block]
    fixed: Mapping[str, Any]
    log_added: Callable[[np.ndarray], np.ndarray]
    draw: Callable[[np.random.Generator, int], np.ndarray | None]
    approximation: Callable[[np.ndarray], Mapping[str, np.ndarray]] | None = None
    depends: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Simulation:
    """A log-likelihood: that of data, at the outputs of a simulator.

    Parameters
    ----------
    simulator : callable
        Takes a dict of its inputs, and returns an array, or a dict of arrays by name.
    inputs : tuple of str
        Names of the parameters that it gets.
    likelihoods : mapping of str to Likelihood
        By output.
    by_name : bool
        Whether the simulator returns a dict.
    saves : bool
        Whether outputs are kept with the draws.
    dims : mapping of str to tuple of str
        Names of dimensions, by output, if they are given.
    coords : mapping of str to ndarray
        Labels along these dimensions, if they are given.
    approximation : callable, optional
        Like the simulator, but cheap.
    depends : mapping of str to tuple of Element
        By output, on what it depends, if that is declared.
    """

    simulator: Callable[..., Any]
    inputs: tuple[str, ...]
    likelihoods: Mapping[str, Likelihood]
    by_name: bool
    saves: bool
    dims: Mapping[str, tuple[str, ...]]
    coords: Mapping[str, np.ndarray]
    approximation: Callable[..., Any] | None = None
    depends: Mapping[str, tuple[Element, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"likelihood of {getattr(self.simulator, '__qualname__', repr(self.simulator))}"

    def __call__(
        self, parameters: Mapping[str, Any], *args: Any, **kwargs: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return log-likelihoods of non-missing observations, by output, and the outputs as blobs.

        Raises
        ------
        TypeError, ValueError
            The simulator returned something else than the outputs that the likelihoods expect.
        """
        outputs = self._outputs(self.simulator, parameters, args, kwargs)
        found = {}
        for name, likelihood in self.likelihoods.items():
            try:
                each = likelihood.log_likelihoods(outputs[name], parameters)
            except (TypeError, ValueError) as error:
                raise type(error)(f"the output {name!r}: {error}") from error
            missing = _missing(likelihood)
            found[name] = each[~missing] if missing.any() else each
        return found, _blobs(outputs) if self.saves else {}

    def approximated(
        self, parameters: Mapping[str, Any], *args: Any, **kwargs: Any
    ) -> dict[str, np.ndarray]:
        """Return the outputs of the approximation as blobs."""
        return _blobs(self._outputs(self.approximation, parameters, args, kwargs))

    def observed_data(self) -> dict[str, Any]:
        """Return dimensions and data by name; NaN where they are missing."""
        found = {}
        for name, likelihood in self.likelihoods.items():
            if likelihood.observed is not None:
                data = np.array(likelihood.observed)
                default = [f"{name}_dim_{i}" for i in range(data.ndim)]
                found[name] = (tuple(self.dims.get(name, default)), data)
        return found

    def simulate(
        self, parameters: Mapping[str, Any], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Call the simulator, and draw data at its outputs, by name."""
        return self.draw(self._outputs(self.simulator, parameters, (), {}), parameters, rng)

    def with_data(self, data: Mapping[str, Any]) -> Any:
        """Return the argument `likelihood` of a model of other data, which are given by output.

        Raises
        ------
        TypeError
            A likelihood does not draw data.
        """
        found = {}
        for name, likelihood in self.likelihoods.items():
            if not isinstance(likelihood, OfData):
                kind = type(likelihood).__name__
                raise TypeError(
                    f"the likelihood of {name!r} is a {kind}: expected one of data in an array"
                )
            found[name] = likelihood.with_data(data[name])
        return found if self.by_name else found[OUTPUT]

    @property
    def can_draw(self) -> bool:
        """Whether data can be drawn at the outputs that are kept with the draws."""
        return self.saves and any(likelihood.can_draw for likelihood in self.likelihoods.values())

    def draw(
        self,
        outputs: Mapping[str, np.ndarray],
        parameters: Mapping[str, Any],
        rng: np.random.Generator,
    ) -> dict[str, np.ndarray]:
        """Draw data by name, at outputs by name and parameters."""
        able = {
            name: likelihood for name, likelihood in self.likelihoods.items() if likelihood.can_draw
        }
        return {
            name: likelihood.draw(outputs[name], parameters, rng)
            for name, likelihood in able.items()
        }

    def left(self, dims: Any, coords: Any) -> tuple[Any, Any]:
        """Return the parameters' dimensions and labels: those that remain without the outputs'."""
        own = (
            {name: given for name, given in dims.items() if name not in self.dims}
            if dims is not None
            else None
        )
        shared = {
            one
            for given in (own or {}).values()
            for one in ((given,) if isinstance(given, str) else given)
        }
        if coords is None:
            return own, None
        return own, {
            one: labels for one, labels in coords.items() if one in shared or one not in self.coords
        }

    def _outputs(
        self, simulator: Any, parameters: Mapping[str, Any], args: Any, kwargs: Any
    ) -> dict[str, np.ndarray]:
        """Call a simulator, which may modify its inputs; return its outputs by name."""
        values = {name: parameters[name] for name in self.inputs}
        own = {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in values.items()
        }
        returned, name = simulator(own, *args, **kwargs), self._named(simulator)
        if not self.by_name:
            if isinstance(returned, Mapping):
                raise TypeError(
                    f"{name} returned a dict of {listed(returned)}: expected an array; or give the "
                    "likelihood as a dict, too, with one for each output"
                )
            return {OUTPUT: _array(name, OUTPUT, returned)}
        if not isinstance(returned, Mapping) or set(returned) != set(self.likelihoods):
            what = (
                f"a dict of {listed(returned)}"
                if isinstance(returned, Mapping)
                else type(returned).__name__
            )
            raise TypeError(
                f"{name} returned {what}: expected a dict of {listed(self.likelihoods)}, as "
                f"likelihood is"
            )
        return {output: _array(name, output, returned[output]) for output in self.likelihoods}

    def _named(self, simulator: Any) -> str:
        return "approximation" if simulator is self.approximation else "simulator"


def as_simulation(
    simulator: Any,
    likelihood: Any,
    parameters: Sequence[str],
    *,
    inputs: Any,
    saves: Any,
    dims: Any,
    coords: Any,
    before: Simulation | None,
    approximation: Any = None,
    depends: Any = None,
) -> Simulation:
    """Check the arguments of a :class:`kmc.Model` that has a simulator.

    `before` is the simulation of the model that it was made from, if there is one.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message has its name and its value.
    """
    if not callable(simulator):
        raise TypeError(
            f"simulator={simulator!r}: expected a function of a dict of its inputs, whose outputs "
            "likelihood= is of; a function that returns the log-likelihood is log_likelihood="
        )
    if approximation is not None and not callable(approximation):
        raise TypeError(
            f"approximation={approximation!r}: expected a function like the simulator, but cheap"
        )
    by_name = isinstance(likelihood, Mapping)
    likelihoods = dict(likelihood) if by_name else {OUTPUT: likelihood}
    _check_likelihoods(likelihoods, by_name, parameters)
    if not isinstance(saves, bool):
        raise TypeError(
            f"save_outputs={saves!r}: pass True to keep the simulator's outputs with the draws, "
            f"else False"
        )
    named = {one for each in likelihoods.values() for one in each.names}
    own = (
        tuple(name for name in parameters if name not in named)
        if inputs is None
        else _inputs(inputs, parameters)
    )
    given = (
        {}
        if before is None
        else {name: each for name, each in before.dims.items() if name in likelihoods}
    )
    if isinstance(dims, Mapping):
        given |= {
            name: each
            for name, each in dims.items()
            if name in likelihoods and name not in parameters
        }
    names = _dims(likelihoods, given)
    labels = _coords(likelihoods, names, coords)
    elements = as_depends(depends, likelihoods, own, parameters)
    return Simulation(
        simulator, own, likelihoods, by_name, saves, names, labels, approximation, elements
    )


def _check_likelihoods(
    likelihoods: Mapping[str, Any], by_name: bool, parameters: Sequence[str]
) -> None:
    """Check the names of the outputs, and that their likelihoods are of these parameters."""
    if not likelihoods:
        raise ValueError(
            "likelihood={} is empty: expected a likelihood for each output of the simulator"
        )
    for name, each in likelihoods.items():
        if not isinstance(name, str) or not name or "/" in name or name in ("chain", "draw"):
            raise ValueError(
                f"likelihood has the name {name!r}: expected the name of an output, without '/'"
            )
        if isinstance(each, type) or not isinstance(each, Likelihood):
            raise TypeError(
                f"{_argument(name, by_name)}={each!r}: expected a likelihood of kmc.likelihoods"
            )
        if unknown := [one for one in each.names if one not in parameters]:
            raise ValueError(
                f"{_argument(name, by_name)} names {unknown[0]!r}, which is not a parameter: "
                f"expected some of {listed(parameters)}"
            )


def _inputs(inputs: Any, parameters: Sequence[str]) -> tuple[str, ...]:
    if isinstance(inputs, str) or not isinstance(inputs, Sequence):
        raise TypeError(f"inputs={inputs!r}: expected a list of parameters' names")
    if unknown := [name for name in inputs if name not in parameters]:
        raise ValueError(
            f"inputs has {unknown[0]!r}, which is not a parameter: expected some of "
            f"{listed(parameters)}"
        )
    return tuple(inputs)


def _dims(
    likelihoods: Mapping[str, Likelihood], dims: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    found = {}
    for name, given in dims.items():
        names = (given,) if isinstance(given, str) else tuple(given)
        observed = likelihoods[name].observed
        if (
            observed is None
            or len(names) != observed.ndim
            or not all(isinstance(one, str) and one for one in names)
        ):
            shape = "no known shape" if observed is None else f"the shape {observed.shape}"
            raise ValueError(
                f"dims[{name!r}]={given!r}: expected a name for each dimension of the data, which "
                f"have {shape}"
            )
        found[name] = names
    return found


def _coords(
    likelihoods: Mapping[str, Likelihood], dims: Mapping[str, tuple[str, ...]], coords: Any
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, own in dims.items():
        for one, size in zip(own, _missing(likelihoods[name]).shape):
            if not isinstance(coords, Mapping) or one not in coords:
                continue
            found[one] = np.asarray(coords[one])
            if found[one].shape != (size,):
                raise ValueError(
                    f"coords[{one!r}] has the shape {found[one].shape}: expected ({size},), as the "
                    f"data of the output {name!r}"
                )
    return found


def _missing(likelihood: Likelihood) -> np.ndarray:
    return np.array(False) if likelihood.observed is None else np.isnan(likelihood.observed)


def _blobs(outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{OUTPUTS}.{name}": array for name, array in outputs.items()}


def _array(of: str, name: str, returned: Any) -> np.ndarray:
    try:
        if returned is None:
            raise TypeError("it may lack a return statement")
        return as_array("it", returned)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{of} returned {returned!r:.80} as {name!r}: expected numbers; {error}"
        ) from error


def _argument(name: str, by_name: bool) -> str:
    return f"likelihood[{name!r}]" if by_name else "likelihood"
