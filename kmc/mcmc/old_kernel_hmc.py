"""``KernelHMC(surrogate=...)``, the old name of :class:`kmc.ScoreHMC`: it works for one release, and in old stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kmc.deprecation import warn_renamed
from kmc.mcmc.kernel_hmc import KernelHMC
from kmc.mcmc.score_hmc import ScoreHMC


def score_hmc_fields(old: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a ScoreHMC, from the fields of a KernelHMC with an estimator; in the order of the class.

    ``warmup_sampler`` is a dict of the fields of its KernelHMC.
    """
    warmup = {name: value for name, value in old.items() if name not in ("surrogate", "values")}
    return {
        "estimator": old["surrogate"],
        "adaptation": "vanishing" if old["adaptation"] == "vanishing" else "freeze",  # once also called "static"
        "random_walk_probability": old["archive_probability"],
        "trajectory_length": old["trajectory_length"],
        "first_refit": old["first_refit"],
        "max_states": old["max_archive"],
        "values": False if old["values"] is None else old["values"],
        "warmup_sampler": warmup | {"adaptation": "freeze"},
    }


def from_old_fields(old: Mapping[str, Any]) -> ScoreHMC:
    """The ScoreHMC for the fields of a KernelHMC with an estimator."""
    new = score_hmc_fields(old)
    return ScoreHMC(**new | {"warmup_sampler": KernelHMC(**new["warmup_sampler"])})


def kernel_or_score_hmc(*args: Any, surrogate: Any = None, values: Any = None, **options: Any) -> KernelHMC | ScoreHMC:
    """The result of ``KernelHMC(...)`` with one of the two arguments that it no longer has."""
    __tracebackhide__ = True
    names = [option.name for option in fields(KernelHMC)]
    options = dict(zip(names, args, strict=False)) | options
    if surrogate is None:
        if values is not None:
            raise ValueError(
                f"values={values!r} and no surrogate: expected an estimator, kmc.ScoreHMC(estimator, values=...)"
            )
        return KernelHMC(**options)
    warn_renamed("KernelHMC(surrogate=...)", "kmc.ScoreHMC(estimator, ...)")
    adaptation = options.pop("adaptation", "freeze")
    if adaptation != "static":
        KernelHMC(adaptation)  # or an error
    warmup = KernelHMC(**options)
    old = {name: getattr(warmup, name) for name in names}
    return from_old_fields(old | {"adaptation": adaptation, "surrogate": surrogate, "values": values})
