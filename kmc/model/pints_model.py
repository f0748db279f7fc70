"""Problems and posteriors of PINTS as models whose simulator is the problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from kmc import likelihoods as of
from kmc.checks import is_number
from kmc.model import named_priors as priors
from kmc.model.model import Model
from kmc.model.parameters import Fixed, Real
from kmc.model.priors import Prior


def from_pints(
    target: Any,
    parameters: Any = None,
    *,
    outputs: Sequence[str] | None = None,
    likelihood: Any = None,
    **options: Any,
) -> Model:
    """Return a PINTS posterior as a model whose simulator is PINTS's problem.

    In this way the outputs of the problem are learned.

    A posterior of PINTS holds all but names: the prior, the log-likelihood, and in this the
    problem. Where PINTS does not have the prior or the likelihood, `parameters` and `likelihood`
    take those of kmc.

    Parameters
    ----------
    target : pints.LogPosterior, log-likelihood of PINTS, or problem of PINTS
        A posterior; or a log-likelihood, with priors as `parameters`; or a ``SingleOutputProblem``
        or ``MultiOutputProblem``, with priors as `parameters`, and `likelihood`.
    parameters : sequence of str, or mapping of str to parameter
        With a posterior, names of its parameters, in PINTS's order: those of the model, then those
        of the errors. By default "p0", "p1", ..., and "sigma", or "nu" and "sigma"; of several
        outputs "sigma_y0", "sigma_y1", ... Otherwise scalar parameters by name, in that order:
        priors, supports or numbers, as for :class:`kmc.Model`.
    outputs : sequence of str, optional
        Names of the problem's outputs; by default "y", or "y0", "y1", ... if there are several.
    likelihood : likelihood of kmc.likelihoods, or mapping of str to likelihood
        Only with a problem: the distribution of its data, such as
        ``kmc.likelihoods.Poisson(problem.values())``; of several outputs, by name, one for each.
        The problem gets the parameters that it does not name.
    **options
        Further arguments of :class:`kmc.Model`, such as ``on_error`` or ``initial``.

    Returns
    -------
    Model
        The density is that of PINTS, constants included. Outputs have the dimension "time", with
        the problem's times.

    Raises
    ------
    ImportError
        PINTS is not installed.
    TypeError, ValueError
        An invalid argument; the message has its name and its value.

    Notes
    -----
    PINTS's log-likelihoods of normal errors, with a known or unknown standard deviation or with
    censored data, and of log-normal, Student-t and Cauchy errors become those of
    ``kmc.likelihoods``; so does ``MultiplicativeGaussianLogLikelihood`` with the power 1, as in
    ``parameters={..., "eta": 1, "sigma": ...}``. Any other log-likelihood stays a function, and the
    surrogate learns the log-density.

    PINTS's priors of one number, its uniform one and compositions of these become those of kmc,
    which know the support. Any other prior stays a function of unbounded parameters, and its
    ``sample``, if it has one, draws start points. A subclass of yours is another one.

    PINTS's transformations are not needed: kmc moves unconstrained parameters.

    Examples
    --------
    >>> import kmc
    >>> import pints, pints.toy  # doctest: +SKIP
    >>> problem = pints.SingleOutputProblem(  # doctest: +SKIP
    ...     pints.toy.LogisticModel(), times, counts
    ... )
    >>> prior = pints.UniformLogPrior([0.01, 400, 1], [0.02, 600, 100])  # doctest: +SKIP
    >>> posterior = pints.LogPosterior(  # doctest: +SKIP
    ...     pints.GaussianLogLikelihood(problem), prior
    ... )
    >>> model = kmc.from_pints(posterior, ["rate", "capacity", "sigma"])  # doctest: +SKIP
    >>> idata = kmc.sample(model, max_evaluations=300)  # doctest: +SKIP
    """
    try:
        import pints
    except ImportError as error:
        raise ImportError("from_pints needs PINTS: pip install pints") from error

    is_problem = isinstance(target, (pints.SingleOutputProblem, pints.MultiOutputProblem))
    if not is_problem and (
        not isinstance(target, pints.LogPDF) or isinstance(target, pints.LogPrior)
    ):
        raise TypeError(
            f"target={target!r}: expected a pints.LogPosterior, a log-likelihood or a problem of "
            f"PINTS"
        )
    if is_problem == (likelihood is None):
        raise TypeError(
            f"likelihood={likelihood!r} with a {type(target).__name__}: expected a likelihood of "
            f"kmc.likelihoods with "
            "a problem of PINTS, and none with a posterior or a log-likelihood, which has one"
        )
    if is_problem:
        return _of_problem(target, parameters, outputs, likelihood, options)
    if not isinstance(target, pints.LogPosterior):
        return _of_log_likelihood(target, {"parameters": _declared(parameters)}, outputs, options)
    log_likelihood = target.log_likelihood()
    default = _default_names(log_likelihood, outputs)
    names = default if parameters is None else _names("parameters", parameters, len(default))
    return _of_log_likelihood(log_likelihood, _prior(target.log_prior(), names), outputs, options)


@dataclass(frozen=True)
class Evaluation:
    """The simulator of a problem of PINTS: it returns a dict of outputs (n_times,)."""

    problem: Any
    names: tuple[str, ...]
    outputs: tuple[str, ...]

    def __call__(self, parameters: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return the outputs by name."""
        found = np.asarray(self.problem.evaluate(_vector(parameters, self.names)), float)
        return dict(zip(self.outputs, found.reshape(-1, len(self.outputs)).T, strict=True))


@dataclass(frozen=True)
class SumOfLogPDFs:
    """The sum of log-pdfs of PINTS, each with the names of its parameters."""

    parts: tuple[tuple[Any, tuple[str, ...]], ...]

    def __call__(self, parameters: Mapping[str, Any]) -> float:
        """Return the sum."""
        return float(np.sum([log_pdf(_vector(parameters, names)) for log_pdf, names in self.parts]))


@dataclass(frozen=True)
class PriorDraws:
    """Draws from a prior of PINTS, which uses NumPy's global generator; its state is put back."""

    log_prior: Any
    names: tuple[str, ...]

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Return n draws (n,) of each parameter, by name."""
        state = np.random.get_state()  # noqa: NPY002
        np.random.seed(rng.integers(2**32))  # noqa: NPY002
        try:
            drawn = self.log_prior.sample(n)
        finally:
            np.random.set_state(state)  # noqa: NPY002
        return dict(zip(self.names, np.reshape(drawn, (n, len(self.names))).T, strict=True))


@dataclass(frozen=True)
class PositiveCauchy:
    """A Cauchy distribution cut off at zero, which is what PINTS's half-Cauchy is."""

    location: float
    scale: float

    support = (0.0, np.inf)

    def logpdf(self, x: Any) -> np.ndarray:
        """Return the log of the density."""
        whole = stats.cauchy(self.location, self.scale)
        return np.where(np.asarray(x) > 0.0, whole.logpdf(x) - whole.logsf(0.0), -np.inf)

    def rvs(self, size: Any, random_state: np.random.Generator) -> np.ndarray:
        """Return draws."""
        whole = stats.cauchy(self.location, self.scale)
        return whole.isf(random_state.uniform(0.0, whole.sf(0.0), size))


def _uniform(prior: Any) -> list[Any] | None:
    box = prior._boundaries
    if type(box).__name__ != "RectangularBoundaries":
        return None
    return [priors.Uniform(low, high) for low, high in zip(box.lower(), box.upper(), strict=True)]


# By the name of PINTS's class: the priors of its numbers; None if kmc does not have them.
_PRIORS: dict[str, Callable[[Any], list[Any] | None]] = {
    "BetaLogPrior": lambda p: [priors.Beta(p._a, p._b)],
    "CauchyLogPrior": lambda p: [priors.Cauchy(p._location, p._scale)],
    "ExponentialLogPrior": lambda p: [priors.Exponential(p._rate)],
    "GammaLogPrior": lambda p: [priors.Gamma(p._a, p._b)],
    "GaussianLogPrior": lambda p: [priors.Normal(p._mean, p._sd)],
    "HalfCauchyLogPrior": lambda p: [Prior(PositiveCauchy(float(p._location), float(p._scale)))],
    "InverseGammaLogPrior": lambda p: [priors.InverseGamma(p._a, p._b)],
    "LogNormalLogPrior": lambda p: [priors.LogNormal(p._log_mean, p._scale)],
    "LogUniformLogPrior": lambda p: [Prior(stats.loguniform(p._a, p._b))],
    "StudentTLogPrior": lambda p: [priors.StudentT(p._df, p._location, p._scale)],
    "TruncatedGaussianLogPrior": lambda p: [priors.TruncatedNormal(p._mean, p._sd, p._a, p._b)],
    "UniformLogPrior": _uniform,
}


def _censored(log_likelihood: Any, i: int, y: np.ndarray, known: Any, sigma: str) -> of.Normal:
    low, high = float(log_likelihood._a[i]), float(log_likelihood._b[i])
    return of.Normal(np.clip(y, low, high), sd=sigma, lower=low, upper=high)


def _log_normal(log_likelihood: Any, i: int, y: np.ndarray, known: Any, sigma: str) -> of.LogNormal:
    if not log_likelihood._mean_adjust:
        return of.LogNormal(y, sd=sigma)
    return of.LogNormal(y, sd=sigma, observe=lambda mean, p: mean * np.exp(-0.5 * p[sigma] ** 2))


def _multiplicative(
    log_likelihood: Any, i: int, y: np.ndarray, known: Any, eta: str, sigma: str
) -> of.Normal | None:
    return of.Normal(y, relative=sigma) if known.get(eta) == 1.0 else None


# By the name of PINTS's class: the parameters of each output's errors, and a function of the
# log-likelihood, the number of an output, its data, known values of parameters, and the names of
# those of the errors. It returns None if kmc does not have the likelihood.
_LIKELIHOODS: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "CauchyLogLikelihood": (("sigma",), lambda _, i, y, known, sigma: of.StudentT(y, 1.0, sigma)),
    "CensoredGaussianLogLikelihood": (("sigma",), _censored),
    "GaussianKnownSigmaLogLikelihood": (
        (),
        lambda p, i, y, known: of.Normal(y, sd=float(p._isigma2[i]) ** -0.5),
    ),
    "GaussianLogLikelihood": (("sigma",), lambda _, i, y, known, sigma: of.Normal(y, sd=sigma)),
    "LogNormalLogLikelihood": (("sigma",), _log_normal),
    "MultiplicativeGaussianLogLikelihood": (("eta", "sigma"), _multiplicative),
    "StudentTLogLikelihood": (
        ("nu", "sigma"),
        lambda _, i, y, known, nu, sigma: of.StudentT(y, nu, sigma),
    ),
}


def _of_log_likelihood(
    log_likelihood: Any, declared: dict[str, Any], outputs: Any, options: dict[str, Any]
) -> Model:
    """Return the model of a log-likelihood, of parameters that are declared in PINTS's order."""
    names = list(declared["parameters"])
    if len(names) != log_likelihood.n_parameters():
        raise ValueError(
            f"parameters has {len(names)} of them: expected {log_likelihood.n_parameters()}, as "
            f"PINTS has"
        )
    found = _likelihoods(log_likelihood, declared["parameters"], outputs)
    if found is not None:
        problem = log_likelihood._problem
        return _simulated(problem, names[: problem.n_parameters()], found, declared | options)
    return Model(
        log_likelihood=SumOfLogPDFs(((log_likelihood, tuple(names)),)), **declared, **options
    )


def _likelihoods(
    log_likelihood: Any, parameters: Mapping[str, Any], outputs: Any
) -> dict[str, Any] | None:
    """Return the likelihood of each output, by name; None if kmc does not have them."""
    if _kind(log_likelihood) not in _LIKELIHOODS:
        return None
    noise, make = _LIKELIHOODS[_kind(log_likelihood)]
    problem = log_likelihood._problem
    names = list(parameters)[problem.n_parameters() :]
    numbers = {
        name: each.value if isinstance(each, Fixed) else each for name, each in parameters.items()
    }
    known = {name: float(each) for name, each in numbers.items() if is_number(each)}
    columns = problem.values().reshape(problem.n_times(), -1).T
    found = {
        output: make(
            log_likelihood, i, columns[i], known, *names[i * len(noise) : (i + 1) * len(noise)]
        )
        for i, output in enumerate(_output_names(problem, outputs))
    }
    return None if None in found.values() else found


def _of_problem(
    problem: Any, parameters: Any, outputs: Any, likelihood: Any, options: dict[str, Any]
) -> Model:
    """Return the model of a problem with a likelihood of kmc."""
    found = _output_names(problem, outputs)
    likelihoods = likelihood if isinstance(likelihood, Mapping) else {found[0]: likelihood}
    if set(likelihoods) != set(found):
        raise ValueError(
            f"likelihood={likelihood!r}: expected one for each output, by name: {', '.join(found)}"
        )
    declared = _declared(parameters)
    errors = {
        name
        for each in likelihoods.values()
        if isinstance(each, of.Likelihood)
        for name in each.names
    }
    names = [name for name in declared if name not in errors]
    if len(names) != problem.n_parameters():
        raise ValueError(
            f"parameters has {', '.join(names)} besides those that likelihood names: expected "
            f"{problem.n_parameters()}, as the problem has"
        )
    ordered = {name: likelihoods[name] for name in found}
    return _simulated(problem, names, ordered, {"parameters": declared} | options)


def _simulated(
    problem: Any, names: Sequence[str], likelihoods: dict[str, Any], options: dict[str, Any]
) -> Model:
    return Model(
        simulator=Evaluation(problem, tuple(names), tuple(likelihoods)),
        inputs=names,
        likelihood=likelihoods,
        **{"dims": {name: ["time"] for name in likelihoods}, "coords": {"time": problem.times()}}
        | options,
    )


def _prior(log_prior: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of a model that declare this prior."""
    declared: dict[str, Any] = {"parameters": {}}
    others = []
    for part in _parts(log_prior):
        begin = len(declared["parameters"])
        own = tuple(names[begin : begin + part.n_parameters()])
        made = _PRIORS[_kind(part)](part) if _kind(part) in _PRIORS else None
        if made is None:
            others.append((part, own))
            made = [Real() for _ in own]
        declared["parameters"] |= dict(zip(own, made, strict=True))
    if others:
        declared["log_prior"] = SumOfLogPDFs(tuple(others))
        draws = PriorDraws(log_prior, tuple(names))
        try:
            draws(np.random.default_rng(0), 1)
        except NotImplementedError:
            return declared
        declared["prior"] = draws
    return declared


def _parts(log_prior: Any) -> Iterator[Any]:
    """Yield the independent parts of a prior, in order."""
    if _kind(log_prior) == "ComposedLogPrior":
        for part in log_prior._priors:
            yield from _parts(part)
    else:
        yield log_prior


def _kind(given: Any) -> str:
    """Return the name of a class of PINTS; "" for another, which may compute something else."""
    return type(given).__name__ if type(given).__module__.split(".")[0] == "pints" else ""


def _declared(parameters: Any) -> dict[str, Any]:
    if not isinstance(parameters, Mapping):
        raise TypeError(
            f"parameters={parameters!r}: expected a mapping, such as "
            f"{{'rate': kmc.LogNormal(0, 1), ...}}, as a "
            "log-likelihood or a problem has no prior; or give a pints.LogPosterior"
        )
    return dict(parameters)


def _names(argument: str, given: Any, n: int) -> list[str]:
    if (
        isinstance(given, str)
        or not isinstance(given, Sequence)
        or not all(isinstance(name, str) for name in given)
    ):
        raise TypeError(f"{argument}={given!r}: expected a list of {n} names")
    if len(given) != n or len(set(given)) != n:
        raise ValueError(f"{argument}={given!r}: expected {n} different names")
    return list(given)


def _default_names(log_likelihood: Any, outputs: Any) -> list[str]:
    n = log_likelihood.n_parameters()
    if _kind(log_likelihood) not in _LIKELIHOODS:
        return [f"p{i}" for i in range(n)]
    noise, problem = _LIKELIHOODS[_kind(log_likelihood)][0], log_likelihood._problem
    found = _output_names(problem, outputs)
    of_errors = [
        name if len(found) == 1 else f"{name}_{output}" for output in found for name in noise
    ]
    return [f"p{i}" for i in range(n - len(of_errors))] + of_errors


def _output_names(problem: Any, outputs: Any) -> list[str]:
    n = problem.n_outputs()
    if outputs is None:
        return ["y"] if n == 1 else [f"y{i}" for i in range(n)]
    return _names("outputs", outputs, n)


def _vector(parameters: Mapping[str, Any], names: Sequence[str]) -> np.ndarray:
    return np.array([parameters[name] for name in names], float)
