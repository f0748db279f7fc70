"""Names used in stores of earlier versions, and their new names."""

from __future__ import annotations

import json
from typing import Any

from kmc.mcmc import KernelHMC
from kmc.mcmc.old_kernel_hmc import from_old_fields, score_hmc_fields

_KERNEL_HMC = {
    "archive_share": "archive_probability",
    "tempered_share": "tempered_probability",
    "single_share": "single_move_probability",
    "jump_share": "jump_probability",
    "small_share": "small_step_probability",
    "growth": "refit_growth",
    "settle": "post_freeze_burn_in",
}
_FIT = {"good": "target_loo_sd"}

_NEW: dict[str, Any] = {"moves": [], "gradients": None}
"""Options of KernelHMC that were added, in the order of its fields."""

_MOVED = ("surrogate", "values")  # options of KernelHMC that are now ScoreHMC's

FIELDS = {"kmc.mcmc.kernel_hmc:KernelHMC": _KERNEL_HMC, "kmc.surrogates.fit_options:FitOptions": _FIT}
"""By class, old and new names of fields."""

MODULES = {
    "kmc.bases.contraction": "kmc.bases.base",
    "kmc.scores.candidates": "kmc.scores.ridge",
    "kmc.scores.full_evaluation": "kmc.scores.full_system",
    "kmc.scores.full_preconditioner": "kmc.scores.full_system",
    "kmc.scores.full_selection": "kmc.scores.full",
    "kmc.scores.held_out": "kmc.scores.ridge",
}
"""New locations of the classes of modules that were merged into others."""

CLASSES = {"kmc.surrogates.fit:FitOptions": "kmc.surrogates.fit_options:FitOptions"}
"""New names of other classes that were moved."""


def moved(name: str) -> str:
    """The current name of a class, ``module:Class``.

    Examples
    --------
    >>> moved("kmc.scores.full_selection:Choice")
    'kmc.scores.full:Choice'
    """
    if name in CLASSES:
        return CLASSES[name]
    module, colon, path = name.partition(":")
    return MODULES.get(module, module) + colon + path


def renamed(fields: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The fields under their new names, in the same order.

    Examples
    --------
    >>> renamed({"growth": 1.2, "adaptation": "freeze"}, {"growth": "refit_growth"})
    {'refit_growth': 1.2, 'adaptation': 'freeze'}
    """
    return {names.get(name, name): value for name, value in fields.items()}


def upgraded(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a store, with the new names."""
    settings = renamed(settings, {"replicas": "independent_runs"})
    options = json.loads(settings["settings of the sampler"])
    if settings["sampler"] == "kernel-hmc" and isinstance(options, dict):
        options = renamed(options, _KERNEL_HMC)
        if isinstance(options.get("fit"), dict):
            options["fit"] = renamed(options["fit"], _FIT)
        if options.get("surrogate") is not None:
            settings, options = {**settings, "sampler": "score-hmc"}, score_hmc_fields(options)
        else:
            options = {name: value for name, value in options.items() if name not in _MOVED}
        settings = {**settings, "settings of the sampler": json.dumps(options)}
    return with_new_options(settings)


def with_new_options(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a store, with options that its KernelHMC did not have yet at their defaults."""
    options = json.loads(settings["settings of the sampler"])
    if not isinstance(options, dict):
        return settings
    if settings["sampler"] == "kernel-hmc":
        options = {**options, **{name: options.get(name, value) for name, value in _NEW.items()}}
    warmup = options.get("warmup_sampler")
    if settings["sampler"] == "score-hmc" and isinstance(warmup, dict) and "archive_probability" in warmup:
        options = {**options, "warmup_sampler": {**warmup, **{k: warmup.get(k, v) for k, v in _NEW.items()}}}
    return {**settings, "settings of the sampler": json.dumps(options)}


def is_old_adaptive_metropolis(settings: dict[str, Any]) -> bool:
    """Whether a store is of a run of adaptive Metropolis, or warmed up by it, with proposals that are no longer made.

    Examples
    --------
    >>> options = '{"adaptation": "freeze", "target_acceptance": 0.234}'
    >>> is_old_adaptive_metropolis({"sampler": "adaptive-metropolis", "settings of the sampler": options})
    True
    """
    options = json.loads(settings["settings of the sampler"])
    if settings["sampler"] == "score-hmc" and isinstance(options, dict):
        options = options.get("warmup_sampler")
    elif settings["sampler"] != "adaptive-metropolis":
        return False
    return isinstance(options, dict) and set(options) == {"adaptation", "target_acceptance"}


def instance_of_today(thing: Any) -> Any:
    """An instance with the fields of a store; a KernelHMC with an estimator is a ScoreHMC today."""
    if not isinstance(thing, KernelHMC):
        return thing
    if vars(thing).get("surrogate") is not None:
        return from_old_fields(vars(thing))
    for name in _MOVED:
        vars(thing).pop(name, None)
    return thing
