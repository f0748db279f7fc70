"""kmc as a sampler of cobaya.

Ask for it by ``sampler: {kmc.plugins.cobaya.Kmc: {max_evaluations: 4000, draws: null}}``.
"""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

import kmc
from kmc.plugins import missing, sample, support

try:
    from cobaya import mpi
    from cobaya.collection import SampleCollection
    from cobaya.sampler import Sampler
except ImportError as error:
    raise missing("cobaya") from error

_PARTS = "logpriors", "loglikes", "derived"
_STARTS = 32  # reference points for the chains to choose from


class Kmc(Sampler):
    """Sample within the bounds of the priors, from reference points.

    The options below are those of :func:`kmc.sample`, and cobaya's ``seed``. The sample has the
    draws of all chains with equal weights, and their log-priors, log-likelihoods and derived
    parameters without a further evaluation. With an ``output``, the run is kept beside cobaya's
    chains, and cobaya's ``resume`` continues it. The attribute ``idata`` is the result of
    kmc.sample; after an error in a likelihood, it is an attribute of the error.
    """

    sampler = "kernel-hmc"
    draws = 1000
    warmup = None
    chains = 4
    max_evaluations = None
    max_time = None
    progress = True
    executor = None

    def run(self) -> None:
        """Sample, and fill the collection."""
        names = list(self.model.parameterization.sampled_params())
        bounds = self.model.prior.bounds()
        # the same if the run is resumed
        rng = np.random.default_rng([*np.ravel(self.seed or 0), mpi.rank()])
        starts = [
            self.model.prior.reference(warn_if_no_ref=False, random_state=rng)
            for _ in range(_STARTS)
        ]
        model = kmc.Model(
            self._log_density,
            parameters={
                name: support(*map(float, each)) for name, each in zip(names, bounds, strict=True)
            },
            initial=dict(zip(names, np.transpose(starts), strict=True)),
        )
        given = (
            "sampler",
            "draws",
            "warmup",
            "chains",
            "max_evaluations",
            "max_time",
            "progress",
            "executor",
        )
        options = {name: getattr(self, name) for name in given}
        if self.output:
            options["store"] = self.output.add_suffix(f"kmc_{1 + mpi.rank()}")
            options["resume"] = self.output.is_resuming()
        self.idata = sample(
            model, seed=None if options.get("resume") else self.random_state, **options
        )
        columns = [self.idata["posterior"][name].values.ravel() for name in names]
        blobs = self.idata["blobs"]
        self.collection = SampleCollection(self.model, self.output, name=str(1 + mpi.rank()))
        parts = {
            part: blobs[part].values.reshape(-1, blobs[part].shape[-1])
            for part in _PARTS
            if part in blobs
        }
        for k, values in enumerate(np.transpose(columns)):
            self.collection.add(values, **{part: values[k] for part, values in parts.items()})
        self.collection.out_update()

    def samples(self, to_getdist: bool = False) -> Any:
        """Return the draws as a ``SampleCollection``, or as an ``MCSamples`` of GetDist."""
        return self.collection.to_getdist() if to_getdist else self.collection

    def products(self, to_getdist: bool = False) -> dict[str, Any]:
        """Return the draws in a dict, as "sample"."""
        return {"sample": self.samples(to_getdist)}

    @classmethod
    def output_files_regexps(
        cls, output: Any, info: Any = None, minimal: bool = False
    ) -> list[tuple[Any, Any]]:
        """Return patterns of what a run writes: the store of kmc, and cobaya's chains."""
        store = re.compile(re.escape(os.path.basename(output.add_suffix("kmc_"))) + r"\d+$")
        chains = output.collection_regexp()
        return [(store, None)] if minimal else [(store, None), (chains, None)]

    def _log_density(self, parameters: dict[str, float]) -> Any:
        found = self.model.logposterior(parameters, cached=False)
        if not found.logpost > -np.inf:
            return float(found.logpost)
        parts = {part: np.array(getattr(found, part), float) for part in _PARTS}
        return float(found.logpost), {part: values for part, values in parts.items() if values.size}
