"""PyMC models as targets: PyMC's compiled log-density, without its gradient, and the simulator.

A simulator is a black-box Op; the observed variables that depend on its outputs are its data.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kmc import likelihoods as of
from kmc._names import install
from kmc.model.model import Model
from kmc.model.simulation import OUTPUTS, KnownParts
from kmc.model.space import Block, SpaceDefaults
from kmc.model.transforms import Above, Below, Between, Identity, LogOdds, Transform

_KNOWN = "pytensor", "pymc"  # packages whose Ops are no black boxes
_SOLVERS = "pymc.ode"  # but those of this module are
_TRIED = 3  # points at which arguments of distributions are compared with variables
# around the initial point, for quantiles of the prior
_GRID = 0.01 * np.sinh(np.linspace(-14.0, 14.0, 801))
# for functions that are called a few thousand times, and never with a black box
_QUICK = "FAST_COMPILE"


def from_pymc(
    model: Any,
    mode: Any = None,
    *,
    noisy: bool = False,
    on_error: str = "raise",
    nonfinite: str = "reject",
) -> Model:
    """Return a PyMC model as a target of :func:`kmc.sample`.

    Only the log-density is compiled, never its gradient, so that the model may contain black-box
    Ops without gradients, such as a simulator. ``kmc.sample(model)`` does the same as
    ``kmc.sample(kmc.from_pymc(model))``.

    Parameters
    ----------
    model : pymc.Model
        All free variables must be continuous. Observed data, potentials, transforms and the
        imputation of missing values work as in PyMC. Data are copied now: call again after
        ``pymc.set_data``.
    mode : str or pytensor Mode, optional
        PyTensor's compilation mode: "NUMBA", "FAST_COMPILE", ...; by default as configured.
    noisy : bool
        As in :class:`kmc.Model`, for an Op that returns an unbiased estimate of a likelihood.
    on_error : {"raise", "reject", "retry"}
        As in :class:`kmc.Model`, for exceptions of an Op.
    nonfinite : {"reject", "raise"}
        As in :class:`kmc.Model`. By default NaN and ``+inf`` are rejected, as by PyMC's own
        samplers: far from the bulk, transforms overflow.

    Returns
    -------
    Model
        On the unconstrained scale, including the Jacobians of PyMC's transforms. Its draws have
        PyMC's names: free variables on their own scale and deterministics, with the model's coords
        and dims; the results also have PyMC's groups ``observed_data`` and ``constant_data``.
        Chains start as PyMC's do, at the model's initial point plus uniform noise on [-1, 1].

    Raises
    ------
    ImportError
        PyMC is not installed.
    TypeError
        `model` is not a PyMC model.
    ValueError
        The model has discrete free variables, or none at all.

    Notes
    -----
    The default sampler learns the outputs of a black box where it knows the rest: if the variables
    that are observed through it have one of the distributions of :mod:`kmc.likelihoods`, with
    scales that are numbers or variables of the model, and if no free variable has a prior that
    depends on another. Then the result has the groups ``outputs``, with the location of each of
    these variables, and ``log_likelihood``, of all observed variables.

    After a run each deterministic is computed once for each distinct draw. An expensive one, such
    as the output of a simulator, costs as much again as an evaluation, but is not counted; nor is
    the evaluation that PyMC itself may make to find its initial point.

    Several threads may evaluate the model at the same time if its own Ops allow it.

    Examples
    --------
    >>> import kmc
    >>> import pymc as pm  # doctest: +SKIP
    >>> with pm.Model() as model:  # doctest: +SKIP
    ...     sigma = pm.HalfNormal("sigma")
    ...     pm.Normal("y", 0, sigma, observed=[1.2, -0.3])
    >>> idata = kmc.sample(model)  # doctest: +SKIP
    """
    try:
        import pymc
        import pytensor
        from pymc.pytensorf import join_nonshared_inputs
        from pytensor.compile.sharedvalue import SharedVariable
        from pytensor.graph.replace import graph_replace, vectorize_graph
    except ImportError as error:
        raise ImportError(f"from_pymc needs PyMC: {install('pymc')}") from error

    _check_variables(model, pymc)
    start = model.initial_point(random_seed=0)
    shown = _shown(model, pymc)
    data: Any = {
        variable: pytensor.tensor.constant(variable.get_value())
        for variable in model.data_vars
        if isinstance(variable, SharedVariable)
    }

    def compiled(graphs: Sequence[Any], mode: Any = mode, *, rows: bool = False) -> Any:
        """Return a function of the vector (d,), or of several as rows, that computes the graphs."""
        outputs, x = join_nonshared_inputs(
            point=start,
            inputs=model.value_vars,
            outputs=graph_replace(graphs, data, strict=False),
            make_inputs_shared=False,
        )
        if rows:
            several = pytensor.tensor.matrix("several", dtype=x.dtype)
            outputs, x = vectorize_graph(outputs, {x: several}), several
        return model.compile_fn(
            outputs, inputs=[x], mode=mode, point_fn=False, on_unused_input="ignore"
        )

    first = np.concatenate(
        [np.ravel(start[variable.name]) for variable in model.value_vars]
    ).astype(float)
    columns, groups = _columns(model, start), _data(model)
    blocks = _blocks(model, start, columns)
    observed = {name: values for name, (_, values) in groups.get("observed_data", {}).items()}
    simulator = None if noisy else find_simulator(model, first, columns, blocks, observed, compiled)
    further = {} if simulator is None else _further(model, simulator)
    space = PyMCSpace(
        start=first,
        draw=compiled(shown),
        dims={variable.name: _dims(variable.name, variable.ndim, model) for variable in shown},
        coords=_coords(model),
        data=groups,
        blocks=blocks,
        known_parts=None if simulator is None else simulator.known,
    )
    function = PyMCLogDensity(compiled([model.logp(), *further.values()]), list(further))
    return Model(function, noisy=noisy, on_error=on_error, nonfinite=nonfinite, space=space)


class PyMCLogDensity:
    """A compiled log-density of x (d,) that any number of threads may call at the same time.

    A PyTensor function stores its inputs and intermediate results, so each thread has a copy of it.

    Parameters
    ----------
    function : PyTensor function
        Of x, returns the log-density and further arrays.
    names : list of str
        Names of these.
    """

    def __init__(self, function: Any, names: Sequence[str]):
        self._function, self._names = function, names
        self._lock = threading.Lock()
        self._own = _Copy()

    def __call__(self, x: np.ndarray) -> Any:
        """Return the log-density at x, and the further arrays by name if there are any."""
        if self._own.function is None:
            with self._lock:
                self._own.function = self._function.copy()
        log_density, *further = self._own.function(x)
        value = float(log_density)
        return (value, dict(zip(self._names, further, strict=True))) if self._names else value

    def __reduce__(self) -> Any:
        return type(self), (self._function, self._names)


class _Copy(threading.local):
    function: Any = None  # of this thread


class PyMCSpace(SpaceDefaults):
    """A PyMC model's variables as functions of the vector of its transformed, raveled free ones.

    Parameters
    ----------
    start : ndarray, shape (d,)
        PyMC's initial point.
    draw : callable
        Takes x (d,) and returns the variables in the order of `dims`.
    dims : dict of str to tuple of str
    coords : dict of str to ndarray
        Labels of those dimensions that have some in the model.
    data : dict of str to dict
        By group and name, dimensions and values of the data.
    blocks : dict of str to Block
        Free variables that are a known function of numbers of the vector.
    known_parts : KnownParts, optional
        Of a model with black boxes.
    """

    made_by = "kmc.from_pymc(model"

    def __init__(
        self,
        start: np.ndarray,
        draw: Any,
        dims: dict[str, tuple[str, ...]],
        coords: dict[str, np.ndarray],
        data: dict[str, dict[str, Any]],
        blocks: dict[str, Block],
        known_parts: KnownParts | None = None,
    ):
        self.start, self.draw, self.dims, self.coords, self.data = start, draw, dims, coords, data
        self.known_parts = known_parts
        bounds = {
            name: block.transform
            for name, block in blocks.items()
            if isinstance(block.transform, Between)
        }
        self.intervals = {name: (one.lower, one.upper) for name, one in bounds.items()}
        self._bounded = {name: blocks[name] for name in bounds}

    @property
    def dim(self) -> int:
        """Length of the unconstrained vector."""
        return len(self.start)

    def constrain(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Return the variables (n, *shape) at vectors (n, d), by name.

        They are computed once for each distinct vector.
        """
        if not len(points):
            return {name: values[:0] for name, values in self.constrain(self.start[None]).items()}
        distinct, places = np.unique(points, axis=0, return_inverse=True)
        draws = [self.draw(x) for x in distinct]
        return {
            name: np.array(values)[places]
            for name, values in zip(self.dims, zip(*draws, strict=True))
        }

    def within_intervals(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Return the variables with ``intervals`` (n, *shape) at vectors (n, d).

        No deterministics are computed.
        """
        return {name: block.constrained(points) for name, block in self._bounded.items()}

    def initial_points(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return PyMC's initial point plus uniform noise on [-1, 1], (n, d).

        PyMC's ``jitter+adapt_diag`` does the same.
        """
        return self.start + rng.uniform(-1.0, 1.0, (n, self.dim))


def _check_variables(model: Any, pymc: Any) -> None:
    """Check that it is a PyMC model with continuous free variables."""
    # PyMC 6 also has frozen models
    if not isinstance(model, getattr(pymc.model.core, "BaseModel", pymc.Model)):
        raise TypeError(f"model={model!r}: expected a pymc.Model")
    if model.discrete_value_vars:
        discrete = ", ".join(
            repr(model.values_to_rvs[value].name) for value in model.discrete_value_vars
        )
        raise ValueError(
            f"model has discrete free variables ({discrete}): kmc samples continuous ones only, so "
            "sum them out of the likelihood by hand, as a mixture, or with pymc_extras.marginalize"
        )
    if not model.value_vars:
        raise ValueError("model has no free variables: expected at least one that is not observed")


def _shown(model: Any, pymc: Any) -> list[Any]:
    """Return the variables of a draw: free ones on their own scale, and deterministics."""
    return [
        variable
        for variable in model.unobserved_value_vars
        if not pymc.util.is_transformed_name(variable.name)
    ]


def _columns(model: Any, start: Mapping[str, np.ndarray]) -> dict[Any, slice]:
    """Return the place of each value variable in the vector."""
    ends = np.cumsum([np.size(start[value.name]) for value in model.value_vars])
    return {
        value: slice(int(end) - np.size(start[value.name]), int(end))
        for value, end in zip(model.value_vars, ends, strict=True)
    }


def _blocks(
    model: Any, start: Mapping[str, np.ndarray], columns: Mapping[Any, slice]
) -> dict[str, Block]:
    """Return the free variables that are not transformed, or each number alone, with constants."""
    found = {}
    for value in model.value_vars:
        variable = model.values_to_rvs[value]
        transform = _transform(model.rvs_to_transforms[variable], variable)
        if transform is not None:
            found[variable.name] = Block(transform, np.shape(start[value.name]), columns[value])
    return found


def _transform(given: Any, variable: Any) -> Transform | None:
    from pymc.distributions.transforms import Interval
    from pymc.logprob.transforms import LogOddsTransform, LogTransform
    from pymc.pytensorf import constant_fold

    if given is None:
        return Identity()
    if type(given) is LogTransform:
        return Above(0.0)
    if type(given) is LogOddsTransform:
        return LogOdds(0.0, 1.0)
    if not isinstance(given, Interval):
        return None
    bounds = given.args_fn(*variable.owner.inputs)
    if all(bound is None for bound in bounds):
        return Identity()
    ends = [
        None if one is None else constant_fold([one], raise_not_constant=False)[0] for one in bounds
    ]
    # bounds are other variables
    if not all(one is None or isinstance(one, np.ndarray | np.number) for one in ends):
        return None
    numbers = [None if one is None else np.unique(one) for one in ends]
    if any(one is not None and (len(one) != 1 or not np.isfinite(one[0])) for one in numbers):
        return None
    low, high = (None if one is None else float(one[0]) for one in numbers)
    if low is None:
        return None if high is None else Below(high)
    return Above(low) if high is None else LogOdds(low, high)


def _dims(name: str, ndim: int, model: Any) -> tuple[str, ...]:
    """Return a name for each dimension of a variable; ArviZ's default if the model has none."""
    given = model.named_vars_to_dims.get(name) or (None,) * ndim
    return tuple(dimension or f"{name}_dim_{i}" for i, dimension in enumerate(given))


def _coords(model: Any) -> dict[str, np.ndarray]:
    """Return the labels of those dimensions that have some."""
    return {name: np.asarray(labels) for name, labels in model.coords.items() if labels is not None}


def _data(model: Any) -> dict[str, dict[str, Any]]:
    """Return the groups of data in PyMC's own results, without empty ones."""
    from pymc.backends.arviz import find_constants, find_observations

    groups = {"observed_data": find_observations(model), "constant_data": find_constants(model)}
    return {
        group: {
            name: (_dims(name, np.ndim(values), model), np.asarray(values))
            for name, values in found.items()
        }
        for group, found in groups.items()
        if found
    }


class Simulator(NamedTuple):
    """What the log-density of a PyMC model is of the outputs of its black boxes."""

    known: KnownParts
    outputs: Mapping[str, Any]  # graphs of the outputs, by observed variable


def find_simulator(
    model: Any,
    start: np.ndarray,
    columns: Mapping[Any, slice],
    blocks: Mapping[str, Block],
    data: Mapping[str, np.ndarray],
    compiled: Callable[..., Any],
) -> Simulator | None:
    """Return a model's simulator; None if it has none, or if something dependent on it is unknown.

    Parameters
    ----------
    model : pymc.Model
    start : ndarray, shape (d,)
        Its initial point.
    columns : mapping of variable to slice
        Of each value variable in the vector.
    blocks : mapping of str to Block
        Free variables that are a known function of numbers of the vector, by name.
    data : mapping of str to ndarray
        Of the observed variables, by name.
    compiled : callable
        Makes a function of the vector, with PyTensor's mode, of a list of graphs of value
        variables.
    """
    import pytensor.tensor as pt

    simulated = [variable for variable in model.observed_RVs if _has_black_box([variable])]
    if not simulated:
        return None
    others = [
        variable for variable in (*model.basic_RVs, *model.potentials) if variable not in simulated
    ]
    found = {variable.name: _parts(variable) for variable in simulated}
    parts = {name: part for name, part in found.items() if part is not None and name in data}
    added = model.logp(vars=others)
    if len(parts) < len(found) or _has_black_box([added]):
        return None
    outputs: dict[str, Any] = {}
    arguments: dict[tuple[str, str], Any] = {}
    for name, (_, output, terms) in parts.items():
        outputs[name], *own = model.replace_rvs_by_values([output, *terms.values()])
        arguments |= {(name, argument): graph for argument, graph in zip(terms, own, strict=True)}
    if _has_black_box(arguments.values()):
        return None
    known_terms = _as_terms(arguments, start, blocks, compiled)
    if known_terms is None:
        return None
    likelihoods = {}
    for name, (likelihood, _, _) in parts.items():
        own = {
            argument: term for (variable, argument), term in known_terms.items() if variable == name
        }
        try:
            likelihoods[name] = likelihood(data[name], **own)
        except (TypeError, ValueError):  # data that have no density, or none that is known
            return None
    needed = set(_ancestors(outputs.values()))
    inputs = [
        np.arange(start.size)[columns[value]] for value in model.value_vars if value in needed
    ]
    if not inputs:
        return None
    log_added = LogAdded(compiled([added], mode=_QUICK, rows=True))
    known = KnownParts(
        likelihoods, np.concatenate(inputs), blocks, {}, log_added, PriorDraws(log_added, start)
    )
    return Simulator(
        known, {name: pt.broadcast_to(graph, data[name].shape) for name, graph in outputs.items()}
    )


def _further(model: Any, simulator: Simulator) -> dict[str, Any]:
    """Return the graphs of the outputs and of each observed variable's log-likelihood, by name."""
    each = model.logp(vars=model.observed_RVs, sum=False)
    names = [variable.name for variable in model.observed_RVs]
    further = {f"{OUTPUTS}.{name}": graph for name, graph in simulator.outputs.items()}
    further |= {f"log_likelihood.{name}": graph for name, graph in zip(names, each, strict=True)}
    return further


class LogAdded:
    """The log-density without that of the simulated data, at one vector or at vectors (n, d)."""

    def __init__(self, function: Callable[[np.ndarray], Sequence[Any]]):
        self._function = function

    def __call__(self, points: np.ndarray) -> Any:
        """Return it, a float or (n,)."""
        (found,) = self._function(np.atleast_2d(points))
        return np.broadcast_to(found, len(points)) if points.ndim == 2 else float(found[0])


class PriorDraws:
    """Prior draws of each number of the vector, by its quantiles with all others at the start."""

    def __init__(self, log_added: LogAdded, start: np.ndarray):
        self._log_added, self._start = log_added, start

    def __call__(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw vectors (n, d)."""
        found = np.empty((n, len(self._start)))
        for i, center in enumerate(self._start):
            points = np.repeat(self._start[None], len(_GRID), axis=0)
            points[:, i] = center + _GRID
            heights = np.nan_to_num(self._log_added(points), nan=-np.inf)
            density = np.exp(heights - heights.max())
            mass = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(_GRID)))
            found[:, i] = center + np.interp(rng.random(n), mass / mass[-1], _GRID)
        return found


def _has_black_box(graphs: Iterable[Any]) -> bool:
    """Return whether the graphs need an Op that is not PyTensor's or PyMC's, or solves an ODE."""
    from pytensor.compile.ops import FromFunctionOp

    for variable in _ancestors(graphs):
        if variable.owner is None:
            continue
        op = getattr(variable.owner.op, "core_op", variable.owner.op)
        module = type(op).__module__
        if (
            isinstance(op, FromFunctionOp)
            or module.startswith(_SOLVERS)
            or module.split(".")[0] not in _KNOWN
        ):
            return True
    return False


def _ancestors(graphs: Iterable[Any]) -> Iterable[Any]:
    try:
        from pytensor.graph.traversal import ancestors
    except ImportError:  # before PyTensor 2.32
        from pytensor.graph.basic import ancestors
    return ancestors(list(graphs))


def _parts(variable: Any) -> tuple[Any, Any, dict[str, Any]] | None:
    """Return an observed variable's likelihood, and the graphs of its output and its arguments."""
    import pytensor.tensor as pt
    from pytensor.tensor.random import basic

    op = variable.owner.op
    if not hasattr(op, "dist_params"):
        return None
    given = op.dist_params(variable.owner)
    match op:
        case basic.NormalRV():
            return of.Normal, given[0], {"sd": given[1]}
        case basic.LogNormalRV():
            return of.LogNormal, pt.exp(given[0]), {"sd": given[1]}
        case basic.StudentTRV():
            return of.StudentT, given[1], {"df": given[0], "scale": given[2]}
        case basic.PoissonRV():
            return of.Poisson, given[0], {}
        case basic.NegBinomialRV():
            return (
                of.NegativeBinomial,
                given[0] * (1.0 - given[1]) / given[1],
                {"dispersion": given[0]},
            )
        case basic.BinomialRV():
            return of.Binomial, given[1], {"n": given[0]}
        case basic.BernoulliRV():
            return of.Bernoulli, given[0], {}
    return None


def _as_terms(arguments, start, blocks, compiled) -> dict[tuple[str, str], Any] | None:
    """Return each argument as numbers or as a variable's name; None if one is neither."""
    if not arguments:
        return {}
    points = start + np.random.default_rng(0).uniform(-1.0, 1.0, (_TRIED, len(start)))
    found: dict[tuple[str, str], Any] = {}
    columns = compiled(list(arguments.values()), mode=_QUICK, rows=True)(points)
    for (key, graph), values in zip(arguments.items(), columns, strict=True):
        if values.ndim == graph.ndim:  # it does not depend on the vector
            found[key] = values
            continue
        names = [
            name for name, block in blocks.items() if _is_same(block.constrained(points), values)
        ]
        if not names:
            return None
        found[key] = names[0]
    return found


def _is_same(own: np.ndarray, values: np.ndarray) -> bool:
    """Return whether arguments (n, ...) equal a variable's values (n, ...) after broadcasting."""
    own = own.reshape(len(own), *[1] * (values.ndim - own.ndim), *own.shape[1:])
    try:
        return np.allclose(own, values, rtol=1e-12, atol=0.0)
    except ValueError:  # other shapes
        return False
