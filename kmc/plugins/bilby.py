"""kmc as a sampler of bilby.

Call ``bilby.run_sampler(likelihood, priors, sampler="kmc", max_evaluations=4000)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kmc
from kmc.plugins import missing, sample

try:
    from bilby.core.sampler.base_sampler import NestedSampler
    from bilby.core.utils import logger
except ImportError as error:
    raise missing("bilby") from error


class Kmc(NestedSampler):
    """Sample in the priors' unit cube, and estimate the evidence; bilby finds it by the name "kmc".

    The options below are those of :func:`kmc.sample`, given to ``bilby.run_sampler``;
    ``kmc_sampler`` is its `sampler`. With ``npool`` the likelihood is evaluated in so many
    processes. ``store="line.zarr", resume=True`` continues a run that was killed. Warnings of the
    run are in the result's ``meta_data["kmc_warnings"]``; after an error in the likelihood, the
    draws are ``idata`` of the error.
    """

    sampler_name = "kmc"
    sampling_seed_key = "seed"
    default_kwargs = {  # noqa: RUF012, as in bilby
        "kmc_sampler": "kernel-hmc",
        "draws": 1000,
        "warmup": None,
        "chains": 4,
        "max_evaluations": None,
        "max_time": None,
        "seed": None,
        "progress": True,
        "executor": None,
        "store": None,
        "resume": False,
    }

    def run_sampler(self) -> Any:
        """Sample, and fill bilby's result."""
        options = dict(self.kwargs)
        if options["executor"] is None and (self.npool or 1) > 1:
            options["executor"] = self.npool
        plain = (bool, int, float, str, type(None))
        # for JSON
        self.result.sampler_kwargs = {
            k: v if isinstance(v, plain) else str(v) for k, v in options.items()
        }
        options["sampler"] = options.pop("kmc_sampler")
        model = kmc.Model(
            log_likelihood=self._log_likelihood,
            prior_transform=self._prior_transform,
            dim=self.ndim,
        )
        idata = sample(model, **options)
        try:
            found = kmc.evidence(idata, progress=False)
            self.result.log_evidence = float(found["log_evidence"][0])
            self.result.log_evidence_err = float(found["se"][0])
        except ValueError as error:  # few draws, or a sampler that has no evidence
            logger.warning("kmc has no evidence: %s", error)
        self.result.samples = idata["posterior"]["x"].values.reshape(-1, self.ndim)
        self.result.log_likelihood_evaluations = idata["blobs"][
            "total_log_likelihood"
        ].values.ravel()
        self.result.meta_data["kmc_warnings"] = kmc.warnings(idata)
        self.result.num_likelihood_evaluations = idata.attrs["n_evaluations"]
        return self.result

    def _prior_transform(self, u: np.ndarray) -> np.ndarray:
        return np.array(self.prior_transform(u), float)

    def _log_likelihood(self, x: np.ndarray) -> float:
        value = float(self.log_likelihood(x))
        # bilby's number where a constraint is violated
        return -np.inf if value == np.nan_to_num(-np.inf) else value
