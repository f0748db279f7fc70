"""The final state of a run in its result, from which :func:`kmc.extend` continues it.

It is plain data (:mod:`kmc.run.store.plain`), signed as a store's snapshots are, without the draws:
these are in the other groups of the result.
"""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import numpy as np

from kmc._version import __version__
from kmc.model.evaluate import Evaluation, Evaluator
from kmc.model.returned import GROUPS, LOG_LIKELIHOOD
from kmc.run.frozen_surrogates import joined, pieces
from kmc.run.store.base import NullRecorder, RecordedRun
from kmc.run.store.evaluations import Found
from kmc.run.store.open import settings
from kmc.run.store.parts import signature
from kmc.run.store.plain import Plain, flatten, restore
from kmc.run.store.recorder import cut, difference
from kmc.samplers.base import FURTHER_STATS, STATS

GROUP = "final_state"
"""The group of the result."""


def as_group(run: RecordedRun) -> Any:
    """Return a run's state as an xarray Dataset; None if it holds objects that are not from kmc."""
    import xarray

    request, chains = run.request, run.request.chains
    content = {
        "state": run.state(),
        "blobs": run.blobs.state(),
        "sampler": request.sampler,
        "ahead": [(chain, x, tuple(evaluation)) for chain, x, evaluation in run.evaluated_ahead()],
    }
    try:
        parts = flatten(content)
    except TypeError:  # of a sampler from outside the package
        return None
    if parts.foreign:
        return None
    context = json.dumps(settings(request), sort_keys=True)
    packed = parts.packed()
    return xarray.Dataset(
        {
            "state": ("chain", pieces(base64.b64encode(packed), chains)),
            "index": ("chain", np.arange(chains)),
        },
        coords={"chain": np.arange(chains)},
        attrs={
            "inference_library_version": __version__,
            "settings": context,
            "signature": signature(packed, context + __version__),
            "description": "the state of the run after its last draw, from which kmc.extend "
            "continues: a piece of text for each chain",
        },
    )


class Continued(NullRecorder):
    """Lets a run continue from a result.

    Parameters
    ----------
    idata : InferenceData or DataTree
    groups : set of str
        Names of its groups.
    draws, max_evaluations : int or None
        Further ones.
    trust : bool
        Whether a state may be used that this user did not sign.

    Attributes
    ----------
    settings : dict
        Those of the run.
    sampler : Sampler
        Its options.

    Raises
    ------
    ValueError
        The result has no state, or not all of its draws, or it was written by another version, or
        by somebody else.
    """

    def __init__(
        self,
        idata: Any,
        groups: set[str],
        draws: int | None,
        max_evaluations: int | None,
        trust: bool,
    ):
        if GROUP not in groups:
            raise ValueError(
                "result has no final state: a run that was interrupted, or made with "
                "save_surrogate=False or with a sampler from outside kmc, has none; for a run with "
                "a store, give the path of the store"
            )
        group = idata[GROUP]
        version = group.attrs.get("inference_library_version")
        if version != __version__:
            raise ValueError(
                f"result was written by kmc {version}: kmc {__version__} cannot continue it"
            )
        content = _content(group, trust)
        self.settings: dict[str, Any] = json.loads(group.attrs["settings"])
        self.sampler, self._state, self._state_blobs = (
            content["sampler"],
            content["state"],
            content["blobs"],
        )
        self._found = Found([(chain, x, Evaluation(*made)) for chain, x, made in content["ahead"]])
        self._rows, self._blobs = _rows(idata, groups), _blob_rows(idata, groups)
        made = self._state["independent_runs"][0]["n_draws"]
        if (
            len(self._rows["position"]) != made
            or self._rows["position"].shape[1] != self.settings["chains"]
        ):
            raise ValueError(
                f"result has {len(self._rows['position'])} draws of "
                f"{self._rows['position'].shape[1]} chains: expected "
                f"all {made} of {self.settings['chains']}, as kmc.sample returned them"
            )
        spent = self._state["n_evaluations"]
        self._limits = (
            None if draws is None else made + draws,
            None if max_evaluations is None else spent + max_evaluations,
        )

    def attach(self, run: RecordedRun) -> tuple[int | None, int | None]:
        """Return the new limits."""
        self._run = run
        return self._limits

    def restore(self) -> bool:
        """Restore the run."""
        run = self._run
        run.restore(self._state)
        chains = run.independent_runs[0].chains
        for i, (one, state) in enumerate(
            zip(run.independent_runs, self._state["independent_runs"], strict=True)
        ):
            mine = np.s_[:, i * chains : (i + 1) * chains]
            one.trace.restore(cut(self._rows, mine), cut(self._blobs, mine))
            one.warmup_trace.left_out = state["n_warmup"]
        run.blobs.restore(self._state_blobs)
        run.meter.go_on(*self._limits, run.meter.elapsed)
        self._check_function()
        return True

    def recall_ahead(self, chain: int, x: np.ndarray) -> Any:
        """Return the result at x (d,) that a chain on its own needs next, if it is known."""
        return self._found.take(chain, x)

    def _check_function(self) -> None:
        """Evaluate two draws again; ValueError if the function has changed."""
        run, points, values = (
            self._run,
            self._rows["position"][[0, -1], 0],
            self._rows["log_density"][[0, -1], 0],
        )
        if run.request.model.noisy:
            return
        if what := difference(Evaluator(run.request.model, run.evaluate.mapper), points, values):
            raise ValueError(f"target is another function than that of result: {what}")


def _content(group: Any, trust: bool) -> dict[str, Any]:
    index = group["index"].values
    if not np.array_equal(index, np.arange(json.loads(group.attrs["settings"])["chains"])):
        raise ValueError(
            f"result has the chains {index.tolist()}: expected all chains of one run, in their "
            f"order"
        )
    packed = base64.b64decode(joined(group["state"].values))
    signed = signature(packed, group.attrs["settings"] + __version__)
    if not (trust or hmac.compare_digest(signed, group.attrs["signature"])):
        raise ValueError(
            "result was not made by you on this machine, and its state could make compiled code "
            "read any memory: pass trust=True if you know where it comes from"
        )
    return restore(Plain.unpacked(packed))


def _rows(idata: Any, groups: set[str]) -> dict[str, np.ndarray]:
    """Return the columns of the trace, draws first."""
    unconstrained = "unconstrained_posterior" in groups
    stats = idata["sample_stats"]
    rows = {
        "position": _draws_first(
            idata["unconstrained_posterior" if unconstrained else "posterior"]["x"]
        ),
        "log_density": _draws_first(stats["lp"]),
    }
    for name, dtype in {**STATS, **FURTHER_STATS}.items():
        if name in stats:
            rows[name] = _draws_first(stats[name]).astype(dtype)
    proposals = idata["proposals"] if "proposals" in groups else None
    for name, column, like in (
        ("proposal", "x", "position"),
        ("proposal_log_density", "lp", "log_density"),
    ):
        rows[name] = (
            np.full_like(rows[like], np.nan)
            if proposals is None
            else _draws_first(proposals[column])
        )
    return rows


def _blob_rows(idata: Any, groups: set[str]) -> dict[str, np.ndarray]:
    rows = {}
    for group, prefix in (("blobs", ""), *((group, f"{group}.") for group in GROUPS)):
        for name, variable in idata[group].data_vars.items() if group in groups else ():
            rows[name if name == LOG_LIKELIHOOD else f"{prefix}{name}"] = _draws_first(variable)
    return rows


def _draws_first(variable: Any) -> np.ndarray:
    return np.ascontiguousarray(variable.transpose("draw", "chain", ...).values)
