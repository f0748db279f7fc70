"""``kmc.simulation_based_calibration``: find parameters again whose data a model has simulated."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats

from kmc.checks import as_flag, as_number, check_some
from kmc.convergence import LEAST_DRAWS, bulk_ess
from kmc.errors import EvaluationError, warn
from kmc.model.evaluate import Evaluation, Mapper, Outcome, stream_of, total_log_likelihood
from kmc.model.model import Model
from kmc.run.arguments import RunRequest, as_history, as_sampler, refuse_unknown
from kmc.run.display import steps
from kmc.run.executors import InProcess, as_executor
from kmc.run.results import container, described, labeled
from kmc.run.run import Run
from kmc.run.run_warnings import CODES
from kmc.run.sample import sample
from kmc.run.store.files import LOCK, Folder, Lock, StoreError, as_path
from kmc.seeds import Seed, as_seed, substream

_SETTINGS = "calibration.json"
_DEFAULTS = {
    name: p.default
    for name, p in inspect.signature(sample).parameters.items()
    if name in {each.name for each in fields(RunRequest)} - {"seed"}
}
_LEVEL = 0.01  # of a warning, for all quantities together
_SIMULATIONS = 10_000  # sets of uniform numbers; a p-value is at least about the inverse of it
_MOST_POINTS = 1000  # at which distribution functions are compared: tables grow with them
_AT_ONCE = 32  # runs that a pool gets that returns no single results


def simulation_based_calibration(
    model: Model,
    simulate: Callable[[Any, np.random.Generator], Any] | None = None,
    n: int = 100,
    *,
    seed: Seed = None,
    executor: Any = None,
    store: Any = None,
    resume: bool = False,
    progress: bool = True,
    **options: Any,
) -> Any:
    """Check by simulation that runs of a model give its posterior.

    They do if prior, simulator, likelihood and sampler agree. Each of n runs draws parameters from
    the prior, simulates data at them, and samples the posterior of these data. Among the draws of
    the run, the parameters that made the data must have a uniform rank [1]_, and so must their
    log-likelihood.

    Parameters
    ----------
    model : Model
        With a prior for each parameter, and a likelihood that takes the data as its first further
        argument: ``kmc.Model(log_likelihood=f, parameters=..., args=(data,))``, with
        ``f(parameters, data)``. Simulated data take the place of `data`. Or a model with
        ``simulator=`` and a likelihood of :mod:`kmc.likelihoods`.
    simulate : callable, optional
        It takes parameters, as the likelihood does, and a Generator, as in :func:`kmc.predictive`,
        and returns data, as the likelihood takes them. By default the likelihood of a model with a
        simulator draws them.
    n : int
        Number of runs. 100 show gross errors, 1000 small ones.
    seed : int, SeedSequence or Generator, optional
        The same seed gives the same ranks, whatever the executor; the first runs of a larger n are
        those of a smaller.
    executor : None, int, or an object, optional
        Where runs are made, as in :func:`kmc.sample`; each is one task.
    store : path, optional
        A folder that keeps the results of finished runs.
    resume : bool
        Go on in `store`, where larger n adds runs. If there is no store yet, it is made.
    progress : bool
        Show a bar in a terminal or a notebook.
    **options
        Of :func:`kmc.sample`, such as ``max_evaluations=1000, draws=None``.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        Groups of variables with the names of the parameters, and ``log_likelihood`` if the model
        has it apart from the prior. ``prior_sbc`` has the ranks as numbers in (0, 1), shape (1, n,
        ...), for :func:`kmc.plot_calibration` and ``arviz_plots.plot_ecdf_pit``: (rank + u) /
        (n_draws + 1), with uniform random u. ``ranks`` has the ranks, ``prior`` the parameters that
        made the data, and ``p_value`` is that of uniform ranks, see the notes. ``runs`` has the
        number ``n_draws`` of nearly independent draws among which a rank is one, ``n_evaluations``,
        and ``warned``, which of the :func:`kmc.warnings` each run had. The attribute "warnings" is
        a JSON list of sentences.

    Warns
    -----
    KmcWarning
        Ranks are not uniform (p < 0.01, for all parameters together).

    Raises
    ------
    TypeError, ValueError
        An invalid argument; a parameter without a prior; a run without draws.
    EvaluationError
        A run failed. Leaving it out would bias the ranks; ``kmc.Model(on_error=...)`` says what
        becomes of failed calls.
    FileExistsError, StoreError, RuntimeError
        `store` exists, is of another calibration, or another process writes to it.

    Notes
    -----
    The draws of a run are thinned to its smallest bulk effective sample size. Ties get a random
    rank. Ranks of parameters alone do not see a posterior that ignores the data; those of the
    log-likelihood do [2]_. The p-value compares the empirical distribution function with those of
    10,000 sets of uniform numbers, by the pointwise probability of its largest deviation [3]_: it
    is less than 0.05 if the line of the picture leaves the band.

    References
    ----------
    .. [1] Talts, Betancourt, Simpson, Vehtari and Gelman (2018), "Validating Bayesian inference
       algorithms with simulation-based calibration".
    .. [2] Modrák, Moon, Kim, Bürkner, Huurre, Faltejsková, Gelman and Vehtari (2025),
       "Simulation-based calibration checking for Bayesian computation: the choice of test
       quantities shapes sensitivity", Bayesian Analysis 20.
    .. [3] Säilynoja, Bürkner and Vehtari (2022), "Graphical test for discrete uniformity and its
       applications in goodness-of-fit evaluation and multiple sample comparison", Statistics and
       Computing 32.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> model = kmc.Model(
    ...     log_likelihood=lambda p, y: -0.5 * np.sum((y - p["mu"]) ** 2),
    ...     parameters={"mu": kmc.Normal(0, 2)},
    ... )
    >>> found = kmc.simulation_based_calibration(
    ...     model,
    ...     lambda p, rng: rng.normal(p["mu"], 1.0, 3),
    ...     n=5,
    ...     draws=100,
    ...     sampler="random-walk",
    ...     seed=1,
    ... )
    >>> found["ranks"]["mu"].shape, bool(found["p_value"]["mu"] > 0.01)
    ((1, 5), True)
    """
    n = as_number("n", n, 1)
    _check_model(model)
    if simulate is None and model.simulation is not None:
        simulate = model.simulation.simulate
    if not callable(simulate):
        raise TypeError(
            f"simulate={simulate!r}: expected a function of the parameters and of a Generator"
        )
    refuse_unknown(
        sample, {name: value for name, value in options.items() if name not in _DEFAULTS}
    )
    asked = {**_DEFAULTS, **options}
    check_some(**{name: asked[name] for name in ("draws", "max_evaluations", "max_time")})
    where = as_executor(executor)
    progress = as_flag("progress", progress)
    with closing(_Kept(store, as_flag("resume", resume), seed, options)) as kept:
        one = _Run(model, simulate, options, kept.seed)
        kept.check(one)
        todo = [i for i in range(n) if i not in kept.found]
        with where.open(Model(one, dim=1)) as mapper:
            runs = _made(one, todo, mapper)
            for i, found in steps(
                runs, "kmc.simulation_based_calibration", progress, total=len(todo)
            ):
                kept.keep(i, found)
    return _result(model, [kept.found[i] for i in range(n)], kept.seed)


def uniformity(u: np.ndarray, prob: float = 0.95) -> tuple[float, np.ndarray]:
    """Compare the empirical distribution function of numbers (n,) with the uniform one on (0, 1).

    Returns
    -------
    p_value : float
        See [3]_ of :func:`simulation_based_calibration`.
    band : ndarray, shape (3, k)
        Points z, and the least and the greatest fraction of the numbers below each: the
        distribution function of uniform numbers is at all of them within this band with probability
        ``prob``.
    """
    n = len(u)
    z, tail, uniform = _of_uniform_numbers(n)
    found = _smallest(tail, np.searchsorted(np.sort(u), z[1:], side="right"))
    p_value = (1 + np.sum(uniform <= found)) / (1 + len(uniform))
    inside = tail >= np.quantile(uniform, 1.0 - prob)
    return float(p_value), np.array(
        [z, np.argmax(inside, axis=0) / n, 1.0 - np.argmax(inside[::-1], axis=0) / n]
    )


@lru_cache(maxsize=4)
def _of_uniform_numbers(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points (k,), pointwise probabilities (n + 1, k) and the smallest in each of many sets.

    A pointwise probability, by count and point, is that of so extreme a count of n uniform numbers
    below a point, two-sided.
    """
    cells = min(n, _MOST_POINTS)
    z, counts = np.arange(cells + 1) / cells, np.arange(n + 1)[:, None]
    below, above = stats.binom.cdf(counts, n, z), stats.binom.sf(counts - 1, n, z)
    tail = np.minimum(2.0 * np.minimum(below, above), 1.0)
    rng = np.random.default_rng(0)
    sets = (
        rng.multinomial(n, np.full(cells, 1.0 / cells), _SIMULATIONS // 100) for _ in range(100)
    )
    return z, tail, np.concatenate([_smallest(tail, np.cumsum(each, axis=1)) for each in sets])


def _smallest(tail: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the smallest pointwise probability of the counts (..., k - 1).

    The counts are those below each point but the first.
    """
    return tail[counts, np.arange(1, tail.shape[1])].min(axis=-1)


def _check_model(model: Any) -> None:
    if not isinstance(model, Model):
        raise TypeError(f"model={model!r}: expected a kmc.Model")
    if model.noisy:
        raise ValueError(
            "noisy=True: the ranks of noisy log-likelihoods are not uniform; use one without noise"
        )
    missing = model.without_prior
    if model.prior is None or missing:
        which = f" for {', '.join(missing)}" if missing else ""
        raise ValueError(
            f"the model has no prior{which}: declare parameters with priors, such as "
            f"kmc.Normal(0, 1)"
        )


@dataclass(frozen=True)
class _Run:
    """Makes one run: parameters, data, draws and ranks.

    It is called with the number of the run as a vector.
    """

    model: Model
    simulate: Callable[[Any, np.random.Generator], Any]
    options: Mapping[str, Any]
    seed: np.random.SeedSequence

    def __call__(self, x: np.ndarray) -> tuple[float, dict[str, Any]]:
        return 0.0, self.ranks(round(float(x[0])))

    def problem(
        self, i: int
    ) -> tuple[Model, np.ndarray, np.random.SeedSequence, np.random.Generator]:
        """Return the posterior of simulated data and its true quantities (q,).

        The other two results are random numbers for the rest.
        """
        own, rest = substream(self.seed, i).spawn(2)
        rng = np.random.default_rng(own)
        x = self.model.prior_points(rng, 1)[0]
        model = self.model.with_data(self.simulate(self.model.parameters_at(x), rng))
        truth = [np.ravel(value) for value in self.model.constrain(x[None]).values()]
        if model.has_likelihood_apart:
            truth.append(np.array([total_log_likelihood(model, x)]))
        return model, np.concatenate(truth), rest, rng

    def ranks(self, i: int) -> dict[str, Any]:
        """Make the run, and return numbers and arrays."""
        model, truth, seed, rng = self.problem(i)
        options = {**_DEFAULTS, "initial": model.initial, **self.options}
        options["sampler"] = as_sampler(options["sampler"])
        options["history"] = as_history(options["history"], model, options["sampler"])
        run = Run(RunRequest(model=model, seed=seed, **options), InProcess())
        with closing(run.sweeps()) as sweeps:
            for _ in sweeps:
                pass
        idata, _ = run.result(save_warmup=False)
        codes = json.loads(idata.attrs["warning_codes"])
        if not idata["posterior"].sizes["draw"]:
            raise ValueError(f"run {i} ended within warm-up: raise max_evaluations or max_time")
        values = [
            idata["posterior"][name].values for name in model.constrain(np.zeros((1, model.dim)))
        ]
        if model.has_likelihood_apart:
            values.append(idata["blobs"]["total_log_likelihood"].values)
        draws = np.concatenate([value.reshape(*value.shape[:2], -1) for value in values], axis=2)
        kept = _independent(draws)
        rank = np.sum(kept < truth, axis=0) + rng.integers(0, np.sum(kept == truth, axis=0) + 1)
        return {
            "truth": truth,
            "rank": rank,
            "pit": (rank + rng.random(len(rank))) / (len(kept) + 1),
            "n_draws": len(kept),
            "n_evaluations": int(idata.attrs["n_evaluations"]),
            "warned": np.array([code in codes for code in CODES]),
        }


def _independent(draws: np.ndarray) -> np.ndarray:
    """Thin draws (chains, n, q) to about as many as are effective, shape (k, q)."""
    moving = draws[..., np.ptp(draws, axis=(0, 1)) > 0]
    effective = 1.0
    if draws.shape[1] >= LEAST_DRAWS and moving.size:
        effective = float(np.min(bulk_ess(moving)))
    flat = draws.reshape(-1, draws.shape[2])
    count = int(np.clip(effective, 1, len(flat))) if np.isfinite(effective) else 1
    return flat[np.linspace(len(flat) - 1, 0, count).astype(int)]


def _made(
    one: _Run, todo: Sequence[int], mapper: Mapper | None
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the runs as they end."""
    if mapper is None:
        for i in todo:
            yield i, one.ranks(i)
    elif (stream := stream_of(mapper)) is not None:
        for i in todo:
            stream.submit(i, np.array([float(i)]))
        left = len(todo)
        while left:
            for i, outcome in stream.ready():
                left -= 1
                yield i, _blobs(i, outcome)
    else:
        for some in (todo[k : k + _AT_ONCE] for k in range(0, len(todo), _AT_ONCE)):
            for i, outcome in zip(some, mapper(np.array(some, float)[:, None]), strict=True):
                yield i, _blobs(i, outcome)


def _blobs(i: int, outcome: Outcome) -> Mapping[str, Any]:
    """Return the result of a run made elsewhere, or raise its error."""
    if not isinstance(outcome, Evaluation):
        try:
            outcome.throw()
        except EvaluationError as error:
            cause = error.__cause__ or error
            cause.add_note(f"in run {i} of kmc.simulation_based_calibration")
            raise cause from None
    assert outcome.blobs is not None
    return outcome.blobs


class _Kept:
    """Keeps results of finished runs by number, in memory and in a folder if there is one."""

    def __init__(self, store: Any, resume: bool, seed: Seed, options: Mapping[str, Any]):
        self.found: dict[int, Mapping[str, Any]] = {}
        self.seed = as_seed(seed)
        self._folder = self._lock = None
        if store is None:
            if resume:
                raise ValueError("resume=True and store=None: give the path of the store to resume")
            return
        path = as_path("store", store)
        path.mkdir(parents=True, exist_ok=True)
        names = {entry.name for entry in path.iterdir()} - {LOCK, f".{_SETTINGS}.partial"}
        if names and not (resume and _SETTINGS in names):
            raise FileExistsError(
                f"store={str(path)!r} exists: pass resume=True to go on, or use another path"
            )
        self._folder, self._lock = Folder(path), Lock(path)
        settings = {"options": re.sub(r" at 0x\w+", "", repr(sorted(options.items())))}
        if not self._folder.exists(_SETTINGS):
            about = {"entropy": self.seed.entropy, "spawn_key": self.seed.spawn_key}
            self._folder.write_json(_SETTINGS, {"attributes": settings | about})
            return
        stored = self._folder.read_json(_SETTINGS)["attributes"]
        kept = np.random.SeedSequence(stored["entropy"], spawn_key=tuple(stored["spawn_key"]))
        same_seed = seed is None or (self.seed.entropy, self.seed.spawn_key) == (
            kept.entropy,
            kept.spawn_key,
        )
        if not same_seed or stored["options"] != settings["options"]:
            raise StoreError(
                f"store={str(path)!r} is of another seed or other options, {stored['options']}"
            )
        self.seed = kept
        for file in path.glob("run-*.json"):
            attributes = self._folder.read_json(file.name)["attributes"]
            self.found[int(file.stem[4:])] = {
                name: np.array(value) for name, value in attributes.items()
            }

    def check(self, one: _Run) -> None:
        """Raise StoreError if a stored run is of another model or simulator."""
        for i in sorted(self.found)[:1]:
            truth, stored = one.problem(i)[1], self.found[i]["truth"]
            if truth.shape != stored.shape or not np.allclose(truth, stored, rtol=1e-6):
                raise StoreError(
                    f"run {i} in the store differs: the prior, the simulator or the likelihood "
                    f"has changed"
                )

    def keep(self, i: int, found: Mapping[str, Any]) -> None:
        self.found[i] = {name: np.asarray(value) for name, value in found.items()}
        if self._folder is not None:
            attributes = {name: value.tolist() for name, value in self.found[i].items()}
            self._folder.write_json(f"run-{i}.json", {"attributes": attributes})

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()


def _result(model: Model, runs: Sequence[Mapping[str, Any]], seed: np.random.SeedSequence) -> Any:
    shapes = {
        name: value.shape[1:] for name, value in model.constrain(np.zeros((1, model.dim))).items()
    }
    if model.has_likelihood_apart:
        shapes["log_likelihood"] = ()
    splits = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1]

    def group(values: np.ndarray, *leading: str) -> Any:
        variables = {}
        for (name, shape), part in zip(
            shapes.items(), np.split(values, splits, axis=-1), strict=True
        ):
            variables[name] = (
                (*leading, *model.dims.get(name, ())),
                part.reshape((*part.shape[:-1], *shape)),
            )
        return labeled(variables, model.coords)

    columns = {name: np.array([run[name] for run in runs])[None] for name in runs[0]}
    p_value = group(np.array([uniformity(u)[0] for u in columns["pit"][0].T]))
    counts = {name: (("chain", "draw"), columns[name]) for name in ("n_draws", "n_evaluations")}
    warned = {"warned": (("chain", "draw", "code"), columns["warned"])}
    groups = {
        "prior_sbc": group(columns["pit"], "chain", "draw"),
        "ranks": group(columns["rank"], "chain", "draw"),
        "prior": group(columns["truth"], "chain", "draw"),
        "p_value": p_value,
        "runs": labeled({**counts, **warned}, {"code": list(CODES)}),
    }
    found = _sentences(p_value, columns["warned"][0].any(axis=1))
    for sentence in found:
        warn(sentence)
    attrs = {"warnings": found, "seed": seed.entropy, "seed_spawn_key": list(seed.spawn_key)}
    return container(groups, described(attrs))


def _sentences(p_value: Any, warned: np.ndarray) -> list[str]:
    level = max(_LEVEL / sum(p.size for p in p_value.data_vars.values()), 1.0 / _SIMULATIONS)
    wrong = [
        f"{name} (p = {float(p.min()):.2g})"
        for name, p in p_value.data_vars.items()
        if p.min() < level
    ]
    if not wrong:
        return []
    return [
        f"The ranks of {', '.join(wrong)} are not uniform: prior, simulator and likelihood "
        f"disagree, or the runs do not find the posterior ({warned.sum()} of {len(warned)} have "
        "warnings). See kmc.plot_calibration."
    ]
