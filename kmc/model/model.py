"""The target distribution, as declared by the user."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np

from kmc.checks import check_choice
from kmc.model.arguments import arguments, completed, explain_unknown, space_of
from kmc.model.depends import columns_of
from kmc.model.dimensions import as_parameters
from kmc.model.least_squares import residual_of
from kmc.model.parameters import Fixed, Parameter
from kmc.model.posterior import Posterior
from kmc.model.priors import Distribution, JointPrior
from kmc.model.simulation import Simulation
from kmc.model.space import ParameterSpace, Space, SpaceDefaults
from kmc.model.starts import start_points


@explain_unknown
@dataclass(frozen=True, eq=False)
class Model:
    """A log-density that can only be evaluated: of a vector, or parameters with names and supports.

    Parameters
    ----------
    log_density : callable
        Returns one real number: the log of the density, up to a constant. ``-inf`` means that the
        density is zero. It takes a float64 array of shape (dim,) or, with `parameters`, a dict with
        a Python float for each scalar parameter and a float64 array for any other; then `args` and
        `kwargs`. The function may keep or modify these arrays. It may return ``(number, dict)``:
        the dict's arrays are stored with the draws, see :func:`kmc.sample`.
    dim : int
        The number d of parameters, for a function of a vector.
    parameters : mapping of str to parameter, optional
        Instead of `dim`, the names and supports of the parameters: :class:`kmc.Real`,
        :class:`kmc.Positive`, :class:`kmc.LowerBound`, :class:`kmc.UpperBound`,
        :class:`kmc.Interval`, :class:`kmc.Circular`, :class:`kmc.Angle`, :class:`kmc.Simplex`,
        :class:`kmc.Ordered`, :class:`kmc.CorrelationCholesky`, :class:`kmc.PositiveDefinite`; or
        priors: :class:`kmc.Normal`, :class:`kmc.HalfNormal`, :class:`kmc.LogNormal`,
        :class:`kmc.Uniform`, :class:`kmc.Exponential`, :class:`kmc.Gamma`,
        :class:`kmc.InverseGamma`, :class:`kmc.Beta`, :class:`kmc.StudentT`, :class:`kmc.Cauchy`,
        :class:`kmc.TruncatedNormal`, :class:`kmc.VonMises`, :class:`kmc.CircularUniform`,
        :class:`kmc.Dirichlet`, :class:`kmc.LKJ` or any continuous distribution of scipy.stats, see
        :class:`kmc.Prior`; or known numbers, see :class:`kmc.Fixed`. Or an ``lmfit.Parameters``:
        its bounds become supports, chains start around its values, the functions get a copy of it
        with the values of each point, and values of expressions become blobs. The log-density of a
        prior is added to what the function returns, which is then the log-likelihood. The density
        is with respect to these parameters: the log-Jacobian of the transformation from R^d is
        added automatically. Draws have these names and supports.
    coords : mapping of str to sequence, optional
        Labels along dimensions, by the dimension's name; by default 0, 1, ...
    dims : mapping of str to sequence of str, optional
        Names of each parameter's dimensions; by default ``name_dim_0``, ... A parameter without a
        shape gets it from the labels; if both are given, they must agree. The dimensions of a
        value, such as that of a simplex, come last.
    initial : array_like, shape (k, d), mapping or list of mappings, optional
        Default start points of :func:`kmc.sample`: unconstrained ones, or arrays (k, ...) by name,
        or one mapping for each point.
    vectorized : bool
        Whether `log_density` takes many points at once and returns an array (k,): it gets points
        (k, d) or a dict of arrays (k, ...).
    noisy : bool
        Whether `log_density` returns the log of an unbiased estimate of the density, drawn anew at
        every call, instead of the density itself: for example the average over simulations. The
        draws are exact nevertheless, see the notes. If False, :func:`kmc.sample` evaluates the best
        start point twice, and ends with an :class:`kmc.EvaluationError` if the values differ by
        more than 0.01 nats.
    on_error : {"raise", "reject", "retry"}
        What becomes of a call that raises an exception, that takes longer than the executor's
        ``timeout``, or that ends its process twice. "raise": the run ends with an
        :class:`kmc.EvaluationError` that holds the parameters. "reject": the density is taken as
        zero there, see the notes. "retry": the call is made once more, which does not count as an
        evaluation, and the run ends if it fails again.
    nonfinite : {"reject", "raise"}
        What becomes of NaN and ``+inf``. "reject": the density is taken as zero there, see the
        notes. "raise": the run ends with an :class:`kmc.EvaluationError` that holds the parameters.
    args : tuple
        Further positional arguments of `log_density`.
    kwargs : mapping of str to object, optional
        Keyword arguments of `log_density`.
    space : Space, optional
        Instead of `parameters`, the presentation of draws: see :class:`kmc.model.space.Space`.
        `log_density` takes the vector, of `space.dim` numbers.

    log_likelihood, log_prior : callable, optional
        Instead of `log_density`, two functions whose sum it is. The first takes the arguments of
        `log_density`, `args` and `kwargs` included, and returns the log-likelihood: a number, or an
        array (or a dict of arrays) with a number for each observation, which goes to the group
        ``log_likelihood`` of the results, so that ``arviz.loo`` works; optionally with a dict, as
        above. The second takes only the parameters. Where it is -inf, the likelihood is not
        evaluated. If it is a sum over the parameters' numbers, it need not be learned: about 150
        calls for each number, before the first evaluation, tell. It can be left out if parameters
        are declared with priors, whose log-density is added. Both values are stored with the draws,
        in the group ``blobs``, as "total_log_likelihood" and "log_prior". For :func:`kmc.evidence`
        the prior has to be normalized.
    prior : callable, optional
        Draws from the prior: it takes a Generator and a number n, and returns arrays (n, ...) by
        name, or an array (n, d) if the parameters have no names. Chains start at such draws, and
        the group ``prior`` of the results holds some, for :func:`kmc.predictive`. It does not
        change the density: `log_prior` has to agree with it. Not needed where parameters are
        declared with priors.
    simulator : callable, optional
        With `likelihood` and `parameters`, instead of functions that return log-densities: it takes
        a dict of its `inputs` (then `args` and `kwargs`), and returns its outputs: an array in the
        shape of the data, or a dict of arrays. It may be NaN where data are missing. An exception,
        and outputs in another shape, are treated as `on_error` says; NaN where there are data, as
        `nonfinite` says.
    inputs : sequence of str, optional
        Names of the parameters that the simulator gets; by default all that the likelihood does not
        name.
    likelihood : likelihood of kmc.likelihoods, or mapping of str to likelihood
        The distribution of the data around the outputs, such as ``kmc.likelihoods.Normal(data,
        sd="sigma")``; if the simulator returns a dict, a likelihood for each output. Results have
        the groups ``observed_data``, ``log_likelihood``, ``outputs`` and ``posterior_predictive``
        (data drawn at each draw), with a variable for each output: "y", or the names in the dict.
        `dims` and `coords` may name their dimensions.
    approximation : callable, optional
        A cheap simulator of the same outputs, such as one on a coarse grid, a linearization or an
        older emulator. It gets what the simulator gets. The surrogate then learns the posterior
        that it implies before the first simulation, and of the simulator the difference. Draws are
        exact all the same. It is called some thousand times, and not counted; an exception, or NaN,
        leaves that point out.
    depends : mapping of str to sequence of str, optional
        By output, names of the parameters that it depends on, or of their elements, such as
        ``{"subject_1": ["a[0]", "b[0]"], "subject_2": ["a[1]", "b[1]"]}``: it has to be the same
        whatever the other inputs are. Outputs that are not named depend on all inputs, unless the
        first simulations show less; an array that is the only output is named "y". The surrogate
        learns outputs from far fewer simulations if each depends on few inputs. If that is wrong
        it learns less, but draws are exact.
    save_outputs : bool
        Whether outputs of a simulator are kept with the draws. If False, the groups ``outputs`` and
        ``posterior_predictive`` are left out.
    prior_transform : callable, optional
        With `log_likelihood` and `dim`, the prior as nested samplers take it: it maps numbers (d,)
        that are uniform on (0, 1) to parameters (d,) with their prior (of a vectorized model, (k,
        d)). The likelihood takes the parameters, and draws are of them. Unconstrained vectors, as
        in `initial`, are z with u = Φ(z), standard normal under the prior.

    Attributes
    ----------
    prior : callable or None
        As given, or the joint prior of the parameters that were declared with one.
    dim : int
        The number d of unconstrained parameters.
    dims, coords : dict
        As given, completed with defaults.
    named : bool
        Whether draws have names, by `parameters` or `space`.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message has its name and its value.

    Notes
    -----
    A function that returns NaN or ``+inf`` has failed there: by default the density is taken as
    zero. This cuts the posterior off if it extends to where the function fails. The result
    therefore counts such points ("n_nonfinite") and rejected calls ("n_failed"), holds some of them
    ("rejected", the nearest to the draws first), and has a warning that names the parameter that
    they have in common: of any rejected call, and of NaN and ``+inf`` if they are many or near the
    draws. A failed call of several points, as of a vectorized model, is repeated point by point, so
    that the good ones are kept. Which calls exceed a time limit depends on the machine's speed, and
    then so do the draws.

    An estimate is kept with its state and never recomputed: the chain of states and estimates then
    has the target as its marginal, whatever the noise [1]_. The estimate must be unbiased for the
    density, not for its log: Gaussian noise in the log must have variance v and mean -v/2; averages
    of likelihoods are unbiased, averages of their logs are not. The noise limits the efficiency.
    With a sd of 1 in the log, at best about half of all proposals are accepted, and a draw is worth
    a fifth of an independent one; with 1.7, a fortieth; with 3, hardly anything.

    References
    ----------
    .. [1] Andrieu and Roberts (2009), "The pseudo-marginal approach for efficient Monte Carlo
       computations", Annals of Statistics 37.

    Examples
    --------
    >>> import kmc
    >>> model = kmc.Model(lambda x: -0.5 * x @ x, dim=3)
    >>> model.dim
    3

    A likelihood and a prior:

    >>> import numpy as np
    >>> parts = kmc.Model(
    ...     log_likelihood=lambda x: -0.5 * (x - 1) ** 2, log_prior=lambda x: -abs(x[0]), dim=1
    ... )
    >>> parts.call(np.zeros(1))[0]
    -0.5

    >>> def log_density(parameters, rate):
    ...     return float(-rate * parameters["sigma"] - 0.5 * np.sum(parameters["theta"] ** 2))
    >>> model = kmc.Model(
    ...     log_density,
    ...     parameters={"sigma": kmc.Positive(), "theta": kmc.Real()},
    ...     dims={"theta": ["school"]},
    ...     coords={"school": ["A", "B"]},
    ...     args=(2.0,),
    ... )
    >>> model.dim
    3
    >>> model.call(np.zeros(3))  # sigma = 1, theta = (0, 0)
    -2.0

    The functions of a nested sampler, with a prior that is uniform between -5 and 5:

    >>> nested = kmc.Model(
    ...     log_likelihood=lambda x: -0.5 * x @ x, prior_transform=lambda u: 10 * u - 5, dim=2
    ... )
    >>> idata = kmc.sample(nested, draws=None, max_evaluations=400, seed=1, progress=False)
    >>> found = kmc.evidence(idata, progress=False)
    >>> bool(abs(found["log_evidence"][0] - np.log(2 * np.pi / 100)) < 0.1)
    True

    A simulator and the likelihood of its outputs:

    >>> t = np.linspace(0.0, 2.0, 5)
    >>> decay = kmc.Model(
    ...     simulator=lambda p: p["start"] * np.exp(-p["rate"] * t),
    ...     likelihood=kmc.likelihoods.Normal([2.1, 1.3, 0.7, 0.5, 0.2], sd="sigma"),
    ...     parameters={
    ...         "start": kmc.HalfNormal(5),
    ...         "rate": kmc.HalfNormal(2),
    ...         "sigma": kmc.HalfNormal(1),
    ...     },
    ... )
    >>> idata = kmc.sample(decay, max_evaluations=150, seed=1, progress=False)
    >>> idata["posterior_predictive"]["y"].dims
    ('chain', 'draw', 'y_dim_0')

    A solver that fails here and there does not end the run:

    >>> def solver(p):
    ...     if p["rate"] > 3.2:
    ...         raise RuntimeError("no steady state")
    ...     return -0.5 * (p["rate"] - 1) ** 2
    >>> failing = kmc.Model(solver, parameters={"rate": kmc.Interval(0, 5)}, on_error="reject")
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     idata = kmc.sample(failing, max_evaluations=150, seed=1, progress=False)
    >>> any("all of them have rate > 3" in str(each.message) for each in said)
    True
    """

    log_density: Callable[..., Any] = None  # type: ignore[assignment]
    # None is replaced by a default, so that no reader meets a None.
    dim: int = None  # type: ignore[assignment]
    _: KW_ONLY
    parameters: Mapping[str, Parameter | Distribution | Fixed | float] | None = None
    coords: Mapping[str, Any] = None  # type: ignore[assignment]
    dims: Mapping[str, Sequence[str]] = None  # type: ignore[assignment]
    initial: Any = None
    vectorized: bool = False
    noisy: bool = False
    on_error: str = "raise"
    nonfinite: str = "reject"
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = None  # type: ignore[assignment]
    space: Space | None = None
    log_likelihood: Callable[..., Any] | None = None
    log_prior: Callable[..., Any] | None = None
    prior: Callable[[np.random.Generator, int], Any] | None = None
    prior_transform: Callable[[np.ndarray], Any] | None = None
    simulator: Callable[..., Any] | None = None
    inputs: Sequence[str] | None = None
    likelihood: Any = None
    save_outputs: bool = True
    approximation: Callable[..., Any] | None = None
    depends: Mapping[str, Sequence[str]] | None = None
    _space: Space = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_choice(self, "on_error", ("raise", "reject", "retry"))
        check_choice(self, "nonfinite", ("reject", "raise"))
        given = completed({name: getattr(self, name) for name in arguments(Model)})
        for name, value in given.items():
            self._set(name, value)
        self._set("_space", space_of(given))
        if self.parameters is not None:
            self._set("parameters", as_parameters(self.parameters))
        if self.simulation is not None and self.parameter_space is not None:
            columns_of(self.simulation.depends, self.parameter_space)  # which checks indices
        labels = {} if self.simulation is None else self.simulation.coords
        for name in ("dim", "dims"):
            self._set(name, getattr(self._space, name))
        self._set("coords", {**self._space.coords, **labels})
        if self.prior is None or isinstance(self.prior, JointPrior):  # as after dataclasses.replace
            self._set("prior", self.space_extras.prior)
        elif not callable(self.prior):
            raise TypeError(
                f"prior={self.prior!r}: expected a function of a Generator and a number of draws"
            )
        if self.initial is not None:
            self._set("initial", self.start_points(self.initial, 1))

    @property
    def named(self) -> bool:
        """Whether draws have names."""
        return self.parameters is not None or self.space is not None

    @property
    def data(self) -> Mapping[str, Mapping[str, Any]]:
        """By group (such as "observed_data") and name, dimensions and arrays for the results."""
        observed = {} if self.simulation is None else self.simulation.observed_data()
        return (
            {**self.space_extras.data, "observed_data": observed}
            if observed
            else self.space_extras.data
        )

    @property
    def simulation(self) -> Simulation | None:
        """The simulator and the likelihoods of its outputs; None for a model of another kind."""
        return self.log_likelihood if isinstance(self.log_likelihood, Simulation) else None

    @property
    def variable_attrs(self) -> Mapping[str, Mapping[str, Any]]:
        """By parameter, attributes of its variable in the results, such as an angle's period."""
        return self.space_extras.attrs

    @property
    def parameter_space(self) -> ParameterSpace | None:
        """The parameters as functions of the vector that samplers move, if declared one by one."""
        return self._space if isinstance(self._space, ParameterSpace) else None

    @property
    def space_extras(self) -> SpaceDefaults:
        """What the space has besides the members of every space."""
        return self._space if isinstance(self._space, SpaceDefaults) else SpaceDefaults()

    def call(self, x: np.ndarray) -> Any:
        """Return the output of `log_density` at x (d,), or (k, d) if the model is vectorized.

        It gets x itself, or new arrays if the parameters have names, and may modify them.
        """
        return self.log_density(
            x if self.parameters is None else self.by_name(x), *self.args, **self.kwargs
        )

    def log_jacobian(self, x: np.ndarray) -> Any:
        """Return the log of the absolute Jacobian determinant of :meth:`constrain`.

        It is a float at x (d,), and an array (k,) at x (k, d).
        """
        return self._space.log_jacobian(x)

    def log_added(self, x: np.ndarray) -> Any:
        """Return the terms added to the value of `log_density`: (d,) -> float, (k, d) -> (k,).

        The log-Jacobian, and the log-density of the prior where parameters were declared with one.
        """
        jacobian, log_prior = self.log_jacobian(x), self.declared_log_prior(x)
        return jacobian if log_prior is None else jacobian + log_prior

    @property
    def has_likelihood_apart(self) -> bool:
        """Whether evaluations have the total log-likelihood, as a blob of that name."""
        return isinstance(self.log_density, Posterior) or self.space_extras.prior is not None

    @property
    def without_prior(self) -> list[str]:
        """Names of parameters that have no prior, where the function returns the log-likelihood.

        A function that returns the whole log-density may contain a prior that is not known apart.
        """
        declared = self.space_extras.prior
        likelihood = declared is not None
        if isinstance(self.log_density, Posterior):
            likelihood = self.log_density.log_prior is None
        if self.space is not None or not likelihood:
            return []
        residual = residual_of(self.log_likelihood)
        unknown = ["sigma"] if residual is not None and residual.sigma is None else []
        return [
            name for name in self.dims if declared is None or name not in declared.names
        ] + unknown

    def declared_log_prior(self, x: np.ndarray) -> Any:
        """Return the log-density of the parameters' priors: (d,) -> float, (k, d) -> (k,).

        None if there are none.
        """
        if self.space_extras.prior is None:
            return None
        log_prior = self.space_extras.prior.log_density(self.constrain(np.atleast_2d(x)))
        return float(log_prior[0]) if x.ndim == 1 else log_prior

    def log_prior_apart(self, points: np.ndarray) -> np.ndarray | None:
        """Return the log-prior (k,) of unconstrained vectors (k, d), log-Jacobian included.

        What remains of the log-density is the likelihood. None if the model does not have its prior
        apart.
        """
        function = self.log_density.log_prior if isinstance(self.log_density, Posterior) else None
        if function is None and self.space_extras.prior is None:
            return None
        added = self.log_added(points) if self.named else np.zeros(len(points))
        if function is None or not len(points):
            return added
        calls = [points] if self.vectorized else points
        found = [function(x.copy() if self.parameters is None else self.by_name(x)) for x in calls]
        return added + np.asarray(found[0] if self.vectorized else found, float).reshape(
            len(points)
        )

    def constrain(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameters (n, *shape) at vectors (n, d), by name.

        If they have no names, return ``{"x": points}``.
        """
        return self._space.constrain(points)

    def initial_points(self, rng: np.random.Generator, n: int) -> np.ndarray | None:
        """Return start points, or None for the sampler's default.

        They are all of the model's `initial` (k, d), or n draws of its prior, or n points of its
        space.
        """
        if self.initial is not None:
            return np.array(self.initial)
        return (
            self._space.initial_points(rng, n)
            if self.prior is self.space_extras.prior
            else self._from_prior(rng, n)
        )

    def prior_draws(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw values (n, *shape) by name, from `prior` or from the parameters' declared priors.

        Raises
        ------
        TypeError, ValueError
            `prior` is None, or it returned something other than n points in the parameters'
            supports.
        """
        if self.prior is None:
            raise ValueError(
                "prior=None: give kmc.Model(..., prior=...), or declare the parameters with priors"
            )
        if isinstance(self.prior, JointPrior):
            return self.prior.draw(rng, n)
        return self.constrain(self._from_prior(rng, n))

    def prior_points(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw unconstrained vectors (n, d) from the prior."""
        if isinstance(self.prior, JointPrior):
            return self.start_points(self.prior.draw(rng, n), n, "prior")
        return self._from_prior(rng, n)

    def parameters_at(self, x: np.ndarray) -> Any:
        """Return the parameters at x (d,), as a function of one point gets them.

        They come by name, or as an array (d,).
        """
        found = self.constrain(x[None])
        if self.parameters is None:
            return found["x"][0]
        known = self.space_extras.fixed
        fixed = {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in known.items()
        }
        return {
            name: value[0] if value.ndim > 1 else float(value[0]) for name, value in found.items()
        } | fixed

    def with_data(self, data: Any) -> Model:
        """Return the model of other data: the first of `args`, or the only one if there are none.

        For a model with a simulator, `data` is a mapping of arrays, by output.
        """
        if self.simulation is not None:
            changed: dict[str, Any] = {"dim": None, "likelihood": self.simulation.with_data(data)}
            return replace(self, **changed)
        model = copy.copy(self)
        model._set("args", (data, *self.args[1:]))
        return model

    def start_points(self, initial: Any, least: int, name: str = "initial") -> np.ndarray:
        """Return start points (k, d), k >= least, from a user's argument.

        See :func:`kmc.model.starts.start_points`.
        """
        return start_points(initial, least, self._space, name)

    def fix(self, **values: Any) -> Model:
        """Return the model with known values of some parameters, which are then not sampled.

        Parameters
        ----------
        **values : float or array_like
            By the parameter's name, values within its support. A prior of a fixed parameter is left
            out.

        Raises
        ------
        TypeError, ValueError
            The model has no named parameters, or no such one; or a value is not one of the
            parameter.

        Examples
        --------
        >>> import numpy as np
        >>> import kmc
        >>> model = kmc.Model(
        ...     lambda p: -((p["a"] - p["b"]) ** 2),
        ...     parameters={"a": kmc.Real(), "b": kmc.Positive()},
        ... )
        >>> model.fix(b=3.0).call(np.zeros(1))
        -9.0
        """
        if self.parameters is None or not isinstance(self._space, ParameterSpace):
            raise TypeError(
                "fix() is for models with parameters by name, kmc.Model(f, parameters={...})"
            )
        if unknown := [name for name in values if name not in self.parameters]:
            raise ValueError(
                f"{unknown[0]!r} is not a parameter: expected some of {', '.join(self.parameters)}"
            )
        space = self._space
        parameters: dict[str, Any] = dict(self.parameters)
        for name, value in values.items():
            parameters[name] = Fixed(value)
            if name in space.blocks:
                space.check(name, np.asarray(parameters[name].value)[None])
        kept = {name: getattr(self, name) for name in arguments(Model)}
        initial = self.initial
        if initial is not None:
            initial = {
                name: value for name, value in self.constrain(initial).items() if name not in values
            }
        changed = {
            "dim": None,
            "parameters": parameters,
            "dims": space.all_dims,
            "initial": initial,
        }
        return Model(**kept | changed)

    def _from_prior(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw vectors (n, d) by the user's function."""
        assert self.prior is not None
        name = f"prior(rng, {n})"
        drawn = self.prior(rng, n)
        if self.space_extras.fixed and isinstance(drawn, Mapping):
            drawn = {
                each: values
                for each, values in drawn.items()
                if each not in self.space_extras.fixed
            }
        points = self.start_points(drawn, 1, name)
        if len(points) != n:
            raise ValueError(f"{name} returned {len(points)} draws: expected {n}")
        return points

    def by_name(self, x: np.ndarray) -> dict[str, Any]:
        """Return the parameters for the user's function, at x (d,), or (k, d) if vectorized."""
        if not self.vectorized:
            return self.parameters_at(x)
        values = {
            name: np.repeat(np.asarray(value)[None], len(x), axis=0)
            for name, value in self.space_extras.fixed.items()
        }
        return self._space.constrain(x) | values

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
