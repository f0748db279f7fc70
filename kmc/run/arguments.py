"""Checked arguments of a run: every error names the argument, its value and what was expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from kmc.checks import as_number, is_whole
from kmc.checks import as_seed as as_seed
from kmc.kernel_hmc.sampler import KernelHMC
from kmc.model.model import Model
from kmc.model.pymc_model import from_pymc
from kmc.model.stan_model import from_stan
from kmc.run.history import Given, as_given
from kmc.samplers.adaptive_langevin import AdaptiveLangevin
from kmc.samplers.adaptive_metropolis import AdaptiveMetropolis
from kmc.samplers.base import Sampler
from kmc.samplers.delayed_acceptance import DelayedAcceptance
from kmc.samplers.kameleon import Kameleon
from kmc.samplers.parallel_tempering import Tempered
from kmc.samplers.random_walk import RandomWalkMetropolis
from kmc.samplers.score_hmc import ScoreHMC


def _score_hmc() -> ScoreHMC:
    """Return the published sampler with its Nyström estimator."""
    from kmc.scores import NystromKEF  # only here: the other samplers need no estimator

    return ScoreHMC(NystromKEF())


SAMPLERS: dict[str, Callable[[], Sampler]] = {
    sampler.name: sampler
    for sampler in (
        KernelHMC,
        AdaptiveMetropolis,
        AdaptiveLangevin,
        DelayedAcceptance,
        Kameleon,
        RandomWalkMetropolis,
        Tempered,
    )
} | {ScoreHMC.name: _score_hmc}
"""By the name that :func:`kmc.sample` takes: functions that return the options."""

MAKERS: dict[str, Callable[[Any], Model]] = {"pymc": from_pymc, "bridgestan": from_stan}
"""Functions that convert another package's model, by the name of that package."""


def as_model(target: Any, dim: int | None, name: str = "target") -> Model:
    """Return a Model, made from a bare callable, a PyMC or a Stan model if necessary.

    Errors call the argument ``name``.
    """
    for cls in type(target).__mro__:  # by name: neither package need be installed
        if (package := cls.__module__.split(".")[0]) in MAKERS:
            target = MAKERS[package](target)
            break
    if isinstance(target, Model):
        if dim is not None and not (is_whole(dim) and dim == target.dim):
            raise ValueError(f"dim={dim!r} contradicts the model's dim={target.dim}; leave it out")
        return target
    if not callable(target):
        raise TypeError(f"{name}={target!r}: expected a callable x -> log-density, a kmc.Model or a PyMC model")
    if dim is None:
        raise ValueError("dim=None: a bare callable needs its number of parameters, such as dim=3")
    return Model(target, dim=dim)


def as_sampler(sampler: Any) -> Sampler:
    """Options of a sampler, from its name or the options themselves."""
    if isinstance(sampler, str):
        if sampler not in SAMPLERS:
            close = get_close_matches(sampler, SAMPLERS, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"sampler={sampler!r}: expected one of {', '.join(map(repr, SAMPLERS))}, or options such as "
                f"kmc.KernelHMC(){hint}"
            )
        return SAMPLERS[sampler]()
    if isinstance(sampler, type) or not callable(getattr(sampler, "start", None)):
        raise TypeError(f"sampler={sampler!r}: expected a name or options such as kmc.KernelHMC()")
    return sampler


def as_independent_runs(independent_runs: Any, chains: int) -> int:
    """Check that the number of independent runs divides the number of chains, and return it."""
    independent_runs = as_number("independent_runs", independent_runs, 1)
    if chains % independent_runs:
        raise ValueError(
            f"independent_runs={independent_runs!r} does not divide chains={chains!r}: expected the same number of "
            f"chains in each, such as chains={independent_runs * max(round(chains / independent_runs), 2)!r}"
        )
    return independent_runs


def as_initial(initial: Any, chains: int, model: Model) -> np.ndarray | None:
    """Start points (k, d), k >= chains: those given, or else the model's `initial`; None for random ones."""
    if initial is None:
        initial = model.initial
    return None if initial is None else model.start_points(initial, chains)


def as_history(history: Any, model: Model, sampler: Sampler) -> Given | None:
    """Existing evaluations, for a sampler that learns from them."""
    if history is not None and not getattr(sampler, "_takes_history", False):
        raise ValueError(
            f"history is given, and sampler={sampler.name!r} does not use it: leave it out, or use 'kernel-hmc'"
        )
    return as_given(history, model)


def as_callback(callback: Any) -> Any:
    """Check that a callback is callable or None, and return it."""
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={callback!r}: expected a callable or None")
    return callback


@dataclass(frozen=True)
class Request:
    """All arguments that determine the draws, after the checks; see :func:`kmc.sample` for their meaning.

    Attributes
    ----------
    model : Model
    sampler : Sampler
        Options of an algorithm.
    chains, independent_runs : int
        The first is a multiple of the second.
    draws, max_evaluations : int or None
        Not both are None.
    warmup : int or None
    seed : SeedSequence
    initial : ndarray, shape (k, d), or None
        Unconstrained.
    history : Given or None
        Existing evaluations.
    """

    model: Model
    sampler: Sampler
    chains: int
    independent_runs: int
    draws: int | None
    warmup: int | None
    max_evaluations: int | None
    seed: np.random.SeedSequence
    initial: np.ndarray | None
    history: Given | None = None
