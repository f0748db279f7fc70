"""Possible user code, for a type checker: it is never run.

``assert_type`` checks the public types, and an unnecessary ``type: ignore`` is an error: so each of
them shows that mypy detects that mistake.
"""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
import scipy.stats

import kmc
from kmc.run.sample import RunIterator


def log_density(x: np.ndarray) -> float:
    return -0.5 * float(x @ x)


def named(parameters: dict[str, Any], rate: float) -> float:
    return -rate * float(parameters["sigma"])


def stop(progress: kmc.Progress) -> bool:
    return progress.ess > 400 and progress.remaining is not None and progress.remaining > 60


# Models

vector = kmc.Model(log_density, dim=2, nonfinite="reject", vectorized=False, noisy=False)
model = kmc.Model(
    named,
    parameters={
        "sigma": kmc.Positive(),
        "theta": kmc.Real((2, 3)),
        "share": kmc.Simplex(4),
        "cuts": kmc.Ordered(3),
        "p": kmc.Interval(0, 1),
        "low": kmc.LowerBound(1.0),
        "high": kmc.UpperBound(1.0),
        "factor": kmc.CorrelationCholesky(3),
        "phase": kmc.Circular(0, 24, shape=2),
        "angle": kmc.Angle(),
        "slope": kmc.Normal(0, 1, shape=3),
        "scale": scipy.stats.gamma(2),
        "weights": kmc.Dirichlet([1, 2]),
        "rate": kmc.Prior(scipy.stats.invgamma(3), shape=2),
    },
    coords={"school": ["A", "B"]},
    dims={"theta": ["school", "year"]},
    args=(2.0,),
    kwargs={"rate": 1.0},
)
assert_type(model.dim, int)
assert_type(model.constrain(np.zeros((1, model.dim))), dict[str, np.ndarray])
assert_type(kmc.from_pymc(object(), noisy=True), kmc.Model)
served = kmc.from_umbridge(
    "http://localhost", "forward", likelihood=object(), parameters={}, config={"level": 2}
)
assert_type(served, kmc.Model)
assert_type(kmc.from_pints(object(), ["rate", "sigma"], on_error="reject"), kmc.Model)

kmc.Model("no function", dim=2)  # type: ignore[arg-type]
kmc.Model(log_density, dim="two")  # type: ignore[arg-type]
kmc.Model(log_density, dim=2, noisy="yes")  # type: ignore[arg-type]
kmc.Model(log_density, dim=2, vectorize=True)  # type: ignore[call-arg]
kmc.Model(named, parameters={"sigma": 3.0, "mu": kmc.Normal(0, "sigma")})
kmc.Model(named, parameters={"sigma": (0, 10)})  # type: ignore[dict-item]
kmc.Interval(0, "one")  # type: ignore[arg-type]
kmc.Circular(0)  # type: ignore[call-arg]
kmc.HalfNormal("one")  # type: ignore[arg-type]

# Runs

idata = kmc.sample(
    model, draws=100, chains=4, seed=1, callback=stop, progress=False, save_warmup=True, executor=4
)
kmc.sample(
    log_density,
    dim=2,
    initial=np.zeros((4, 2)),
    draws=None,
    max_evaluations=10_000,
    independent_runs=2,
)
kmc.sample(vector, sampler="random-walk", seed=np.random.default_rng(1))
for sampler in (
    kmc.KernelHMC(archive_probability=0.1),
    kmc.KernelHMC(gradients=lambda x: -x if x[0] > 0 else None),
    kmc.AdaptiveMetropolis(),
    kmc.Kameleon(),
    kmc.RandomWalkMetropolis(scale=0.5),
    kmc.Tempered(kmc.AdaptiveMetropolis(), temperatures=[1, 2.5, 6]),
):
    kmc.sample(vector, sampler=sampler)
kmc.sample(vector, sampler=kmc.ScoreHMC(kmc.scores.NystromKEF(n_basis=50), values=True))
kmc.sample(
    vector, sampler=kmc.ScoreHMC(kmc.scores.LiteKEF(), warmup_sampler=kmc.AdaptiveMetropolis())
)

state = kmc.KernelHMC().start(initial=np.zeros((4, 2)), draws=100, seed=1)
assert_type(state, kmc.AskTell)
state.tell([log_density(x) for x in state.ask()])
kmc.Kameleon().start(draws=100)  # type: ignore[call-overload]

kmc.sample(vector, draws="many")  # type: ignore[arg-type]
kmc.sample(vector, callback=3)  # type: ignore[arg-type]
kmc.sample(vector, sampler=3)  # type: ignore[arg-type]
kmc.sample(vector, chain=4)  # type: ignore[arg-type]
kmc.Tempered(temperatures="many")  # type: ignore[arg-type]
kmc.Tempered(kmc.Tempered())  # type: ignore[arg-type]
kmc.KernelHMC(archive_probability="some")  # type: ignore[arg-type]
kmc.ScoreHMC(3)  # type: ignore[arg-type]
kmc.ScoreHMC()  # type: ignore[call-arg]

with kmc.iterate(vector, draws=1000) as run:
    assert_type(run, RunIterator)
    for progress in run:
        assert_type(progress, kmc.Progress)
        assert_type(progress.n_evaluations, int)
        assert_type(progress.fraction, float | None)
        progress.draw = 3  # type: ignore[misc]
    idata = run.result()

try:
    kmc.sample(vector)
except kmc.EvaluationError as error:
    assert_type(error.position, np.ndarray | None)
    assert_type(error.parameters, dict[str, Any] | None)

# Estimators

X = np.zeros((10, 2))
score = kmc.scores.NystromKEF(n_basis=50, bandwidth="median", kernel=kmc.kernels.Gaussian(2.0)).fit(
    X, values=X[:, 0]
)
assert_type(score, kmc.scores.NystromKEF)
assert_type(score.partial_fit(X), kmc.scores.NystromKEF)
assert_type(score.gradient(X), np.ndarray)
assert_type(score.objective(X), float)
assert_type(kmc.scores.GaussianScore().fit(X).log_density(X), np.ndarray)
kmc.scores.LiteKEF(n_basis="all")  # type: ignore[arg-type]
kmc.scores.FullKEF(landmarks=X)  # type: ignore[call-arg]

modes = kmc.spectral.DiffusionMap(n_components=3).fit(X)
assert_type(modes, kmc.spectral.DiffusionMap)
assert_type(modes.spectral_gap_, float)
assert_type(modes.transform(X), np.ndarray)
assert_type(kmc.spectral.TransitionOperator(lagtime=2).fit([X, X]), kmc.spectral.TransitionOperator)
assert_type(kmc.spectral.kernel_kmeans(X, 2), kmc.spectral.KernelClusters)
decomposition = kmc.spectral.galerkin(
    kmc.spectral.DirichletForm(), kmc.bases.Monomials(2, 2), None, X
)
assert_type(decomposition, kmc.spectral.Decomposition)
assert_type(decomposition.eigenvalues_, np.ndarray | None)
kmc.spectral.galerkin(kmc.spectral.DirichletForm(), 3, None, X)  # type: ignore[arg-type]

regression = kmc.regression.HermiteRegression(cv=3).fit(X, X[:, 0], gradients=X)
assert_type(regression.predict(X), np.ndarray)

# Kernels and bases

kernel = (
    2.0 * (kmc.kernels.Gaussian(1.0) + kmc.kernels.Matern52()) * kmc.kernels.Polynomial(degree=2)
)
assert_type(kernel, kmc.kernels.Kernel)
assert_type(kmc.kernels.kernel_derivative(kernel, "k", X, X), np.ndarray)
assert_type(kmc.bases.KernelSections(kernel, X).values(X), np.ndarray)
kmc.bases.KernelSections("gaussian", X)  # type: ignore[arg-type]

# Diagnostics

assert_type(kmc.diagnostics.spectral_gap(idata), kmc.diagnostics.Gap)
assert_type(kmc.diagnostics.nested_rhat(idata, superchains=2), dict[str, float])
assert_type(kmc.report(idata, "report.html", var_names=["sigma"], title="A run"), Path)
kmc.report(idata, 3)  # type: ignore[arg-type]
assert_type(kmc.diagnostics.langevin_gap(idata, var_names=["x"]), kmc.diagnostics.Gap)
assert_type(
    kmc.diagnostics.kernel_stein_discrepancy(idata, score), kmc.diagnostics.SteinDiscrepancy
)
assert_type(kmc.diagnostics.kernel_stein_discrepancy(idata, score).discrepancy, float)
assert_type(
    kmc.diagnostics.control_functional(idata, log_density, score.gradient),
    kmc.diagnostics.ControlFunctional,
)
