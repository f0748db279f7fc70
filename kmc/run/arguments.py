"""Checks of what :func:`kmc.sample` is given; every error names the argument, its value and what was expected."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.mcmc import SAMPLERS, Sampler
from kmc.targets.model import Model


def as_model(target: Any, dim: int | None) -> Model:
    """A Model, made from a bare callable if that is what came."""
    if isinstance(target, Model):
        if dim is not None and dim != target.dim:
            raise ValueError(f"dim={dim!r} contradicts the model's dim={target.dim}; leave it out")
        return target
    if not callable(target):
        raise TypeError(f"target={target!r}: expected a callable x -> log-density, or a kmc.Model")
    if dim is None:
        raise ValueError("dim=None: a bare callable needs its number of parameters, kmc.sample(f, dim=...)")
    return Model(target, dim=dim)


def as_sampler(sampler: Any) -> Sampler:
    """Options of a sampler, from its name or as they are."""
    if isinstance(sampler, str):
        if sampler not in SAMPLERS:
            raise ValueError(f"sampler={sampler!r}: expected one of {', '.join(map(repr, SAMPLERS))}, or an object")
        return SAMPLERS[sampler]()
    if isinstance(sampler, type) or not callable(getattr(sampler, "start", None)):
        raise TypeError(f"sampler={sampler!r}: expected a name or options such as kmc.KernelHMC()")
    return sampler


def as_seed(seed: Any) -> np.random.SeedSequence:
    """A fresh SeedSequence; the same int or SeedSequence gives the same one each time, a Generator moves on."""
    if seed is None:
        return np.random.SeedSequence()
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(seed.integers(2**32, size=4, dtype=np.uint32).tolist())
    if _is_whole(seed) and seed >= 0:
        return np.random.SeedSequence(int(seed))
    raise TypeError(f"seed={seed!r}: expected None, an int >= 0, a numpy SeedSequence or a numpy Generator")


def as_number(name: str, value: Any, least: int) -> int:
    """A whole number of at least ``least``."""
    if not _is_whole(value):
        raise TypeError(f"{name}={value!r}: expected a whole number")
    if value < least:
        raise ValueError(f"{name}={value!r}: expected at least {least}")
    return int(value)


def as_count(name: str, value: Any, least: int) -> int | None:
    """A whole number of at least ``least``, or None."""
    return None if value is None else as_number(name, value, least)


def as_replicas(replicas: Any, chains: int) -> int:
    """A whole number that divides the number of chains."""
    replicas = as_number("replicas", replicas, 1)
    if chains % replicas:
        raise ValueError(
            f"replicas={replicas!r} does not divide chains={chains!r}: expected the same number of chains in each, "
            f"such as chains={replicas * max(round(chains / replicas), 2)!r}"
        )
    return replicas


def as_initial(initial: Any, chains: int, model: Model, seed: np.random.SeedSequence) -> np.ndarray | None:
    """Start points (k, d), k >= chains: those given, or else the model's own; None for the sampler's default."""
    if initial is None:
        initial = model.initial_points(np.random.default_rng(seed), chains)
    return None if initial is None else model.start_points(initial, chains)


def as_callback(callback: Any) -> Any:
    """A function, or None."""
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={callback!r}: expected a callable or None")
    return callback


def _is_whole(value):
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
