"""``kmc.sample_pymc``: :func:`kmc.sample` with the arguments of ``pymc.sample``."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from kmc._names import install
from kmc.checks import as_flag, as_number
from kmc.errors import KmcWarning
from kmc.run.arguments import as_seed
from kmc.run.sample import sample
from kmc.targets.pymc_model import from_pymc

_JITTER = 2**31  # a stream of the seed that no run uses
_NUTS = "is for PyMC's gradient-based samplers"
_UNSUPPORTED = {
    "backend": "as draws are kept in memory, or on disk with store",
    "blas_cores": "set OMP_NUM_THREADS instead",
    "callback": "PyMC's gets (trace, draw) and kmc's a kmc.Progress: use kmc.sample(model, callback=...)",
    "init": f"{_NUTS}; give start points by initvals",
    "jitter_max_retries": "starts of zero density are always redrawn",
    "keep_warning_stat": f"{_NUTS}; the warnings are in attrs['warnings']",
    "mp_ctx": "use cores, or an executor as kmc.sample takes it",
    "n_init": _NUTS,
    "nuts": _NUTS,
    "nuts_sampler": f"{_NUTS}; options of kmc's are given by sampler=kmc.KernelHMC(...)",
    "nuts_sampler_kwargs": f"{_NUTS}; options of kmc's are given by sampler=kmc.KernelHMC(...)",
    "progressbar_theme": "the display has one theme",
    "quiet": "use progressbar=False and compute_convergence_checks=False",
    "step": "use sampler, such as sampler=kmc.KernelHMC(...) or 'adaptive-metropolis'",
    "target_accept": _NUTS,
    "trace": "use store, a path that the draws are written to",
    "var_names": "all variables are kept: select from idata.posterior",
}
_RENAMED = {
    "dim": "leave it out, as the model has it",
    "initial": "use initvals",
    "progress": "use progressbar",
    "save_warmup": "use discard_tuned_samples=False",
    "seed": "use random_seed",
    "target": "use model",
    "warmup": "use tune",
}


def sample_pymc(
    draws: int = 1000,
    *,
    tune: int | None = None,
    chains: int | None = None,
    cores: int | None = None,
    random_seed: Any = None,
    progressbar: Any = True,
    initvals: Any = None,
    discard_tuned_samples: bool = True,
    compute_convergence_checks: bool = True,
    return_inferencedata: bool = True,
    idata_kwargs: Mapping[str, Any] | None = None,
    model: Any = None,
    compile_kwargs: Mapping[str, Any] | None = None,
    nonfinite: str = "reject",
    **options: Any,
) -> Any:
    """Draw from a PyMC model, as a drop-in replacement of ``pymc.sample``.

    Parameters
    ----------
    draws : int
        Draws per chain.
    tune : int, optional
        Sweeps of warm-up; by default the sampler decides, which is recommended.
    chains : int, optional
        By default four.
    cores : int, optional
        Processes that evaluate the log-density; by default it is evaluated in this one.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        The same seed gives the same draws.
    progressbar : bool or str
        Whether to show a display; there is only one kind.
    initvals : mapping or sequence of mappings, optional
        Initial values of variables, by name or variable, for all chains or for each. Missing ones are PyMC's initial
        values. Uniform noise on [-1, 1] is added to all on the unconstrained scale, as PyMC does by default.
    discard_tuned_samples : bool
        False: the groups ``warmup_posterior`` and ``warmup_sample_stats`` are kept.
    compute_convergence_checks : bool
        False: warnings are in ``attrs["warnings"]`` only, not on screen.
    return_inferencedata : bool
        Must be True.
    idata_kwargs : mapping, optional
        ``{"log_likelihood": True}`` adds that group.
    model : pymc.Model, optional
        By default that of the ``with`` block.
    compile_kwargs : mapping, optional
        ``{"mode": ...}``, see :func:`kmc.from_pymc`.
    nonfinite : {"reject", "raise"}
        See :func:`kmc.from_pymc`.
    **options
        Further arguments of :func:`kmc.sample`: `sampler`, `max_evaluations`, `independent_runs`, `store`, `resume`,
        ...

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        As from :func:`kmc.sample`: the groups ``posterior``, ``sample_stats``, ``observed_data`` and
        ``constant_data`` are those of PyMC; ``unconstrained_posterior`` is added.

    Raises
    ------
    ImportError
        PyMC is not installed.
    TypeError
        An argument is unknown, or one of PyMC's that has no meaning here; or there is no model.
    ValueError
        An invalid value. The message has the argument's name and what to do, as in :func:`kmc.sample`.

    Examples
    --------
    >>> import kmc
    >>> import pymc as pm  # doctest: +SKIP
    >>> with pm.Model():  # doctest: +SKIP
    ...     sigma = pm.HalfNormal("sigma")
    ...     pm.Normal("y", 0, sigma, observed=[1.2, -0.3])
    ...     idata = kmc.sample_pymc(1000, chains=4, random_seed=1)
    """
    try:
        import pymc
    except ImportError as error:
        raise ImportError(f"sample_pymc needs PyMC: {install('pymc')}") from error

    _check_names(options)
    if cores is not None and "executor" in options:
        raise TypeError(f"cores={cores!r} and executor={options['executor']!r}: expected one of them")
    if return_inferencedata is not True:
        raise ValueError(f"return_inferencedata={return_inferencedata!r}: expected True, as there is no other trace")
    model = _found(model, pymc)
    chains = 4 if chains is None else as_number("chains", chains, 1)
    with_likelihood = _wants_likelihood(idata_kwargs)
    checks = as_flag("compute_convergence_checks", compute_convergence_checks)
    seed = _seed(random_seed)
    target = from_pymc(model, _mode(compile_kwargs), nonfinite=nonfinite)
    if initvals is not None:
        options["initial"] = _start_points(model, initvals, chains, seed)
    if cores is not None and as_number("cores", cores, 1) > 1:
        options["executor"] = int(cores)
    with nullcontext() if checks else warnings.catch_warnings():
        if not checks:
            warnings.simplefilter("ignore", KmcWarning)
        idata = sample(
            target,
            draws=draws,
            warmup=None if tune is None else as_number("tune", tune, 0),
            chains=chains,
            seed=seed,
            progress=isinstance(progressbar, str) or as_flag("progressbar", progressbar),  # strings: kinds of display
            save_warmup=not as_flag("discard_tuned_samples", discard_tuned_samples),
            **options,
        )
    if with_likelihood:
        pymc.compute_log_likelihood(idata, model=model, progressbar=False)
    return idata


def _check_names(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name in _UNSUPPORTED:
            raise TypeError(f"{name}={value!r}: not supported by kmc.sample_pymc, {_UNSUPPORTED[name]}")
        if name in _RENAMED:
            raise TypeError(f"{name}={value!r}: kmc.sample_pymc has the names of pymc.sample, so {_RENAMED[name]}")
        if name not in inspect.signature(sample).parameters:
            raise TypeError(f"{name}={value!r}: neither pymc.sample nor kmc.sample has an argument of that name")


def _found(model: Any, pymc: Any) -> Any:
    try:
        return pymc.modelcontext(model)
    except TypeError as error:
        raise TypeError("model=None: call kmc.sample_pymc in the `with` block of a model, or pass model") from error


def _wants_likelihood(idata_kwargs: Any) -> bool:
    if idata_kwargs is None:
        return False
    if not isinstance(idata_kwargs, Mapping) or set(idata_kwargs) - {"log_likelihood"}:
        raise ValueError(
            f'idata_kwargs={idata_kwargs!r}: expected {{"log_likelihood": True}}; coords and dims are the model\'s'
        )
    return as_flag('idata_kwargs["log_likelihood"]', idata_kwargs.get("log_likelihood", False))


def _mode(compile_kwargs: Any) -> Any:
    if compile_kwargs is None:
        return None
    if not isinstance(compile_kwargs, Mapping) or set(compile_kwargs) - {"mode"}:
        raise ValueError(f'compile_kwargs={compile_kwargs!r}: expected {{"mode": ...}}')
    return compile_kwargs.get("mode")


def _seed(random_seed: Any) -> Any:
    if isinstance(random_seed, (list, tuple, np.ndarray)):  # PyMC takes one for each chain
        try:
            return np.random.SeedSequence([int(seed) for seed in random_seed])
        except (TypeError, ValueError) as error:
            raise TypeError(f"random_seed={random_seed!r}: expected whole numbers of at least 0") from error
    if random_seed is None:
        return np.random.SeedSequence()
    try:
        return as_seed(random_seed)
    except TypeError:
        raise TypeError(
            f"random_seed={random_seed!r}: expected None, an int >= 0 or a sequence of them, a numpy SeedSequence or a "
            "numpy Generator"
        ) from None


def _start_points(model: Any, initvals: Any, chains: int, seed: np.random.SeedSequence) -> np.ndarray:
    """Unconstrained vectors (chains, d): PyMC's points for these values, with its jitter."""
    from pymc.initial_point import make_initial_point_fns_per_chain

    if not isinstance(initvals, Mapping):
        if not isinstance(initvals, Sequence) or len(initvals) != chains:
            raise ValueError(f"initvals={initvals!r}: expected a mapping, or one for each of chains={chains}")
        initvals = list(initvals)
    names = {variable.name for variable in (*model.free_RVs, *model.value_vars)}
    for given in [initvals] if isinstance(initvals, Mapping) else initvals:
        for variable in given or ():
            if (name := getattr(variable, "name", variable)) not in names:
                raise ValueError(
                    f"initvals has {name!r}, which is not a free variable: expected some of {sorted(names)}"
                )
    jittered = set(model.free_RVs)
    makers = make_initial_point_fns_per_chain(model=model, overrides=initvals, jitter_rvs=jittered, chains=chains)
    own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, _JITTER))
    numbers = own.generate_state(chains)
    points = [make(int(number)) for make, number in zip(makers, numbers, strict=True)]
    return np.array(
        [np.concatenate([np.ravel(point[value.name]) for value in model.value_vars]) for point in points], dtype=float
    )
