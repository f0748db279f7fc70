"""PyMC models as targets: the log-density compiled by PyMC, without its gradient."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from kmc._names import install
from kmc.model.model import Model


def from_pymc(
    model: Any, mode: Any = None, *, noisy: bool = False, on_error: str = "raise", nonfinite: str = "reject"
) -> Model:
    """Return a PyMC model as a target of :func:`kmc.sample`.

    Only the log-density is compiled, never its gradient, so that the model may contain black-box Ops without gradients,
    such as a simulator. ``kmc.sample(model)`` does the same as ``kmc.sample(kmc.from_pymc(model))``.

    Parameters
    ----------
    model : pymc.Model
        All free variables must be continuous. Observed data, potentials, transforms and the imputation of missing
        values work as in PyMC. Data are copied now: call again after ``pymc.set_data``.
    mode : str or pytensor Mode, optional
        PyTensor's compilation mode: "NUMBA", "FAST_COMPILE", ...; by default as configured.
    noisy : bool
        As in :class:`kmc.Model`, for an Op that returns an unbiased estimate of a likelihood.
    on_error : {"raise", "reject", "retry"}
        As in :class:`kmc.Model`, for exceptions of an Op.
    nonfinite : {"reject", "raise"}
        As in :class:`kmc.Model`. By default NaN and ``+inf`` are rejected, as by PyMC's own samplers: far from the
        bulk, transforms overflow.

    Returns
    -------
    Model
        On the unconstrained scale, including the Jacobians of PyMC's transforms. Its draws have PyMC's names: free
        variables on their own scale and deterministics, with the model's coords and dims; the results also have PyMC's
        groups ``observed_data`` and ``constant_data``. Chains start as PyMC's do, at the model's initial point plus
        uniform noise on [-1, 1].

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
    After a run each deterministic is computed once for each distinct draw. An expensive one, such as the output of a
    simulator, costs as much again as an evaluation, but is not counted; nor is the evaluation that PyMC itself may make
    to find its initial point.

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
        from pytensor.graph.replace import graph_replace
    except ImportError as error:
        raise ImportError(f"from_pymc needs PyMC: {install('pymc')}") from error

    if not isinstance(model, getattr(pymc.model.core, "BaseModel", pymc.Model)):  # PyMC 6 also has frozen models
        raise TypeError(f"model={model!r}: expected a pymc.Model")
    if model.discrete_value_vars:
        discrete = ", ".join(repr(model.values_to_rvs[value].name) for value in model.discrete_value_vars)
        raise ValueError(
            f"model has discrete free variables ({discrete}): kmc samples continuous ones only, so sum them out of the "
            "likelihood by hand, as a mixture, or with pymc_extras.marginalize"
        )
    if not model.value_vars:
        raise ValueError("model has no free variables: expected at least one that is not observed")

    start = model.initial_point(random_seed=0)
    shown = [variable for variable in model.unobserved_value_vars if not pymc.util.is_transformed_name(variable.name)]
    data: Any = {
        variable: pytensor.tensor.constant(variable.get_value())
        for variable in model.data_vars
        if isinstance(variable, SharedVariable)
    }
    outputs = graph_replace([model.logp(), *shown], data, strict=False)
    (log_density, *draws), x = join_nonshared_inputs(
        point=start, inputs=model.value_vars, outputs=outputs, make_inputs_shared=False
    )

    def compiled(outs: Any) -> Any:
        return model.compile_fn(outs, inputs=[x], mode=mode, point_fn=False, on_unused_input="ignore")

    space = PyMCSpace(
        start=np.concatenate([np.ravel(start[variable.name]) for variable in model.value_vars]).astype(float),
        draw=compiled(draws),
        dims={variable.name: _dims(variable.name, variable.ndim, model) for variable in shown},
        coords={name: np.asarray(labels) for name, labels in model.coords.items() if labels is not None},
        data=_data(model),
        bounded=_bounded(model, start),
    )
    function = PyMCLogDensity(compiled(log_density))
    return Model(function, noisy=noisy, on_error=on_error, nonfinite=nonfinite, space=space)


class Bounded(NamedTuple):
    """A free variable between two fixed bounds: its place in the vector, its shape, and the bounds."""

    columns: slice
    shape: tuple[int, ...]
    low: float
    high: float


class PyMCLogDensity:
    """A compiled log-density, x (d,) to a float, that any number of threads may call at the same time.

    A PyTensor function stores its inputs and intermediate results, so each thread has a copy of it.
    """

    def __init__(self, function: Any):
        self._function = function
        self._lock = threading.Lock()
        self._own = threading.local()

    def __call__(self, x: np.ndarray) -> float:
        """Return the log-density at x."""
        function = getattr(self._own, "function", None)
        if function is None:
            with self._lock:
                function = self._own.function = self._function.copy()
        return float(function(x))

    def __reduce__(self) -> Any:
        return type(self), (self._function,)


class PyMCSpace:
    """The variables of a PyMC model as functions of the vector of its free variables, transformed and raveled.

    Its ``made_by`` is for messages, see :class:`kmc.model.space.Space`.

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
    bounded : dict of str to Bounded
        Free variables that PyMC transforms from an interval.
    """

    made_by = "kmc.from_pymc(model"

    def __init__(
        self,
        start: np.ndarray,
        draw: Any,
        dims: dict[str, tuple[str, ...]],
        coords: dict[str, np.ndarray],
        data: dict[str, dict[str, Any]],
        bounded: dict[str, Bounded],
    ):
        self.start, self.draw, self.dims, self.coords, self.data = start, draw, dims, coords, data
        self._bounded = bounded
        self.intervals = {name: (one.low, one.high) for name, one in bounded.items()}

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
        return {name: np.array(values)[places] for name, values in zip(self.dims, zip(*draws, strict=True))}

    def within_intervals(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Return the variables with ``intervals`` (n, *shape) at vectors (n, d), without computing deterministics."""
        return {
            name: one.low + (one.high - one.low) * expit(points[:, one.columns]).reshape(len(points), *one.shape)
            for name, one in self._bounded.items()
        }

    def log_jacobian(self, x: np.ndarray) -> Any:
        """Return zero: PyMC's log-density includes the log-Jacobian."""
        return 0.0 if x.ndim == 1 else np.zeros(len(x))

    def initial_points(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return PyMC's initial point plus uniform noise on [-1, 1], (n, d), as its ``jitter+adapt_diag`` does."""
        return self.start + rng.uniform(-1.0, 1.0, (n, self.dim))


def _bounded(model: Any, start: dict[str, np.ndarray]) -> dict[str, Bounded]:
    """Return the free variables with an interval transform that has the same two constant bounds for all elements."""
    from pymc.distributions.transforms import Interval
    from pymc.pytensorf import constant_fold

    found: dict[str, Bounded] = {}
    end = 0
    for value in model.value_vars:
        shape = np.shape(start[value.name])
        begin, end = end, end + int(np.prod(shape))
        variable = model.values_to_rvs[value]
        transform = model.rvs_to_transforms[variable]
        if not isinstance(transform, Interval):
            continue
        bounds = transform.args_fn(*variable.owner.inputs)
        if any(bound is None for bound in bounds):
            continue
        ends = constant_fold(bounds, raise_not_constant=False)
        if not all(isinstance(bound, np.ndarray | np.number) for bound in ends):  # bounds are other variables
            continue
        low, high = (np.unique(bound) for bound in ends)
        if len(low) == len(high) == 1 and np.isfinite(high[0] - low[0]):
            found[variable.name] = Bounded(slice(begin, end), shape, float(low[0]), float(high[0]))
    return found


def _dims(name: str, ndim: int, model: Any) -> tuple[str, ...]:
    """Return a name for each dimension of a variable; ArviZ's default if the model has none."""
    given = model.named_vars_to_dims.get(name) or (None,) * ndim
    return tuple(dimension or f"{name}_dim_{i}" for i, dimension in enumerate(given))


def _data(model: Any) -> dict[str, dict[str, Any]]:
    """Return the groups of data in PyMC's own results, without empty ones."""
    from pymc.backends.arviz import find_constants, find_observations

    groups = {"observed_data": find_observations(model), "constant_data": find_constants(model)}
    return {
        group: {name: (_dims(name, np.ndim(values), model), np.asarray(values)) for name, values in found.items()}
        for group, found in groups.items()
        if found
    }
