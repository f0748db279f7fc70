"""Compile what most tests use into numba's cache, so that two processes do not both do it.

With ``--sampler`` only those of the default sampler, which is what tests of stores, results and
plots run.
"""

import sys
import warnings

import numpy as np

import kmc


def banana(x):
    return -0.5 * float(x[0] ** 2 / 100 + (x[1] + 0.03 * x[0] ** 2 - 3) ** 2)


warnings.simplefilter("ignore")  # about a run this short
idata = kmc.sample(banana, dim=2, draws=None, max_evaluations=700, seed=1, progress=False)
if "--sampler" not in sys.argv:
    kmc.evidence(idata)
    kmc.expectations(idata, max_surrogate_draws=8000)
    X = np.random.default_rng(0).standard_normal((60, 2))
    for estimator in (
        kmc.scores.NystromKEF(n_basis=10),
        kmc.scores.LiteKEF(n_basis=10),
        kmc.scores.FullKEF(),
    ):
        estimator.fit(X).gradient(X)
    simulator, data = (lambda p: [p["a"], p["a"] ** 2]), kmc.likelihoods.Normal([1.0, 1.1], sd=0.1)
    model = kmc.Model(simulator=simulator, likelihood=data, parameters={"a": kmc.Normal(0, 1)})
    kmc.expectations(
        kmc.sample(model, max_evaluations=300, draws=None, seed=1, progress=False), model=model
    )
    kmc.sample(
        banana,
        dim=2,
        draws=4,
        warmup=60,
        seed=1,
        sampler=kmc.ScoreHMC(kmc.scores.LiteKEF(n_basis=10)),
        progress=False,
    )
