"""kmc as a sampler of cobaya: ``sampler: {kmc.plugins.cobaya.Kmc: {max_evaluations: 4000}}``."""

from __future__ import annotations

from typing import Any

import numpy as np

import kmc
from kmc.plugins import missing, support

try:
    from cobaya import mpi
    from cobaya.collection import SampleCollection
    from cobaya.sampler import Sampler
except ImportError as error:
    raise missing("cobaya") from error

_PARTS = "logpriors", "loglikes", "derived"
_STARTS = 32  # reference points for the chains to choose from


class Kmc(Sampler):
    """Samples by kernel HMC within the bounds of the priors.

    The options below are those of :func:`kmc.sample`, and cobaya's ``seed``. Chains start at reference points. The
    sample has the draws of all chains with equal weights, and their log-priors, log-likelihoods and derived parameters
    without a further evaluation. The attribute ``idata`` is the result of kmc.sample.
    """

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
        starts = np.array([self.model.prior.reference(random_state=self.random_state) for _ in range(_STARTS)])
        model = kmc.Model(
            self._log_density,
            parameters={name: support(*map(float, each)) for name, each in zip(names, bounds, strict=True)},
            initial=dict(zip(names, starts.T, strict=True)),
        )
        given = ("draws", "warmup", "chains", "max_evaluations", "max_time", "progress", "executor")
        options = {name: getattr(self, name) for name in given}
        self.idata = kmc.sample(model, seed=self.random_state, **options)
        columns = [self.idata["posterior"][name].values.ravel() for name in names]
        blobs = self.idata["blobs"]
        parts = [blobs[f"cobaya.{part}"].values.reshape(columns[0].size, -1) for part in _PARTS]
        self.collection = SampleCollection(self.model, self.output, name=str(1 + mpi.rank()))
        for values, *found in zip(np.transpose(columns), *parts, strict=True):
            self.collection.add(values, **dict(zip(_PARTS, found, strict=True)))
        self.collection.out_update()

    def samples(self, to_getdist: bool = False) -> Any:
        """Return the draws as a ``SampleCollection``, or as an ``MCSamples`` of GetDist."""
        return self.collection.to_getdist() if to_getdist else self.collection

    def products(self, to_getdist: bool = False) -> dict[str, Any]:
        """Return them in a dict, as "sample"."""
        return {"sample": self.samples(to_getdist)}

    def _log_density(self, parameters: dict[str, float]) -> Any:
        found = self.model.logposterior(parameters, cached=False)
        if not found.logpost > -np.inf:
            return float(found.logpost)
        return float(found.logpost), {f"cobaya.{part}": np.array(getattr(found, part), float) for part in _PARTS}
