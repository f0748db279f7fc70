"""Print hashes of short runs and the public surface, to show that a change of the code changes
neither.

    python benchmarks/gate.py > before.txt
    python benchmarks/gate.py --check before.txt
    python benchmarks/gate.py "kernel-hmc" "surface" --check before.txt

Each configuration is one line: hashes of the positions, the log-densities, the decisions (whether a
proposal was accepted, and which move made it) and the results (means, evidence, estimates). The
lines that follow list the public names with their parameters and defaults, the options of the
command, and what a result contains. With names, only the lines that begin with one of them are made
and compared. With --check, the exit code is 1 if any line differs.

The same code prints the same hashes on one machine with one set of packages; another processor or
another BLAS may round differently. Compare two versions of the code on one machine. The gate takes
a few minutes, most of them for the first compilation.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import inspect
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import kmc
from kmc.cli import _parser
from kmc.model.toys import Banana, Bimodal, Gaussian, Ring
from kmc.samplers import base

CONFIGURATIONS: dict[str, Callable[[], dict[str, Any]]] = {}
DECISIONS = ("accepted", "move")

RNG = np.random.default_rng(41)
SAMPLES = RNG.standard_normal((300, 3)) @ np.array(
    [[1.0, 0.4, 0.0], [0.0, 0.8, 0.0], [0.0, 0.3, 1.5]]
)
TRAJECTORY = np.zeros((2000, 2))
for _step in range(1, len(TRAJECTORY)):
    TRAJECTORY[_step] = [0.95, 0.7] * TRAJECTORY[_step - 1] + RNG.standard_normal(2)


def configuration(
    name: str, make: Callable[..., dict[str, Any]], *args: Any, **options: Any
) -> None:
    CONFIGURATIONS[name] = lambda: make(*args, **options)


# Targets


def standard(x: np.ndarray) -> float:
    return -0.5 * float(x @ x)


def half_space(x: np.ndarray) -> float:
    return -0.5 * float(x @ x) if x[0] > 0 and x[1] < 1 else -np.inf


def funnel(x: np.ndarray) -> float:
    return -0.5 * (x[0] ** 2 / 4 + float(x[1:] @ x[1:]) * np.exp(-x[0]) + (len(x) - 1) * x[0])


def heavy_tails(x: np.ndarray) -> float:
    return -3 * float(np.log1p(x**2 / 5).sum())


def named(p: dict[str, Any]) -> tuple[float, dict[str, float]]:
    residual = np.array([0.9, 2.1, 2.9]) - p["slope"] * np.arange(1, 4)
    spread = float(p["spread"])
    log_density = -0.5 * float(residual @ residual) / spread**2 - 3 * np.log(spread) - spread
    return log_density + float(np.log(p["weights"]).sum()), {"misfit": float(residual @ residual)}


def with_priors(p: dict[str, Any]) -> float:
    return -0.5 * (p["a"] + p["b"] - 1) ** 2 / 0.1


class Noisy:
    """Estimates of a density whose error depends on the number of the call."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)

    def __call__(self, x: np.ndarray) -> float:
        return -0.5 * float(x @ x) + 0.3 * self.rng.standard_normal() - 0.045


class Failing:
    """A target that raises an exception at one of its calls."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, x: np.ndarray) -> float:
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("killed")
        return Banana()(x)


NAMED = kmc.Model(
    named, parameters={"slope": kmc.Real(), "spread": kmc.Positive(), "weights": kmc.Simplex(3)}
)
PRIORS = kmc.Model(
    log_likelihood=with_priors, parameters={"a": kmc.Normal(0, 1), "b": kmc.Gamma(2, 1)}
)
VECTORIZED = kmc.Model(lambda x: -0.5 * np.einsum("ij,ij->i", x, x), dim=3, vectorized=True)


# What is hashed


def draws(target: Any, **options: Any) -> dict[str, Any]:
    return contents(sample(target, **options))


def sample(target: Any, **options: Any) -> Any:
    defaults: dict[str, Any] = {"seed": 3, "progress": False, "save_warmup": True}
    return kmc.sample(target, **(defaults | options))


def contents(idata: Any) -> dict[str, Any]:
    """The draws of a result, warm-up included."""
    found: dict[str, Any] = {"positions": {}, "log-densities": {}, "decisions": {}, "results": {}}
    for prefix in ("", "warmup_"):
        for group, part in (("posterior", "positions"), ("blobs", "results")):
            found[part].update(arrays(idata, prefix + group))
        for name, values in arrays(idata, prefix + "sample_stats").items():
            if name.split("/")[-1] == "lp":
                found["log-densities"][name] = values
            if name.split("/")[-1] in DECISIONS:
                found["decisions"][name] = values
    for name in ("n_evaluations", "n_evaluations_warmup", "warning_codes"):
        found["results"][name] = idata.attrs[name]
    return found


def arrays(idata: Any, group: str) -> dict[str, np.ndarray]:
    if group not in idata:
        return {}
    return {f"{group}/{name}": idata[group][name].values for name in sorted(idata[group].data_vars)}


def resumed(at: int = 900, **options: Any) -> dict[str, Any]:
    """Return the draws of a run that an exception ended at one of its calls, and that its store
    continued.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        with contextlib.suppress(kmc.EvaluationError):
            sample(Failing(at), dim=2, store=store, **options)
        return contents(sample(Banana(), dim=2, store=store, resume=True, **options))


def extended(**options: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        sample(standard, dim=2, store=store, **options)
        kmc.extend(store, draws=100, target=standard, progress=False)
        return contents(kmc.load(store))


def read_out(read: Callable[[Any], Any], make: Callable[[], Any]) -> dict[str, Any]:
    result = read(make())
    if hasattr(result, "posterior"):
        return {"results": arrays(result, "posterior")}
    return {"results": {name: result[name].values for name in sorted(result.data_vars)}}


@cache
def long_run() -> Any:
    return sample(Banana(), dim=2, max_evaluations=2500, draws=400)


@cache
def run_with_few_draws() -> Any:
    return sample(standard, dim=3, max_evaluations=500, draws=None)


@cache
def tempered_run() -> Any:
    return sample(PRIORS, sampler="tempered", draws=300)


@cache
def run_between_modes() -> Any:
    return sample(Bimodal(separation=4), dim=2, sampler="random-walk", draws=500)


def ask_and_tell() -> dict[str, Any]:
    state = kmc.AdaptiveMetropolis().start(initial=np.eye(4, 2), draws=100, seed=5)
    asked = []
    while not state.done:
        points = state.ask()
        asked.append(points)
        state.tell([standard(x) for x in points])
    return {"positions": {"asked": np.concatenate(asked)}}


def score(estimator: Any) -> dict[str, Any]:
    estimator.fit(SAMPLES)
    points = SAMPLES[:20] + 0.1
    return {
        "results": {
            "gradient": estimator.gradient(points),
            "objective": estimator.objective(points),
        }
    }


def spectrum(estimator: Any, *data: Any) -> dict[str, Any]:
    estimator.fit(*data)
    values = {
        name: getattr(estimator, name)
        for name in ("eigenvalues_", "timescales_")
        if hasattr(estimator, name)
    }
    return {"results": values | {"transform": estimator.transform(data[0][:20])}}


def values_of(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    return {"results": make()}


# Configurations: samplers

SHORT = {"draws": 100, "chains": 4, "warmup": 100}
DEFAULT = {"max_evaluations": 1200, "draws": 100}

configuration("kernel-hmc gaussian", draws, Gaussian(3), dim=3, **DEFAULT)
configuration("kernel-hmc banana", draws, Banana(), dim=2, **DEFAULT)
configuration("kernel-hmc small budget", draws, Banana(), dim=2, max_evaluations=250, draws=None)
configuration("kernel-hmc ring", draws, Ring(), dim=2, initial=np.eye(2) * 3, chains=2, **DEFAULT)
configuration("kernel-hmc walls", draws, half_space, dim=2, initial=np.full((4, 2), 0.5), **DEFAULT)
configuration("kernel-hmc funnel", draws, funnel, dim=4, max_evaluations=2500, draws=100)
configuration("kernel-hmc heavy tails", draws, heavy_tails, dim=3, **DEFAULT)
configuration("kernel-hmc modes", draws, Bimodal(), dim=2, max_evaluations=5000, draws=200)
configuration("kernel-hmc named", draws, NAMED, **DEFAULT)
configuration("kernel-hmc priors", draws, PRIORS, **DEFAULT)
configuration("kernel-hmc noisy", lambda: draws(kmc.Model(Noisy(), dim=2, noisy=True), **DEFAULT))
configuration("kernel-hmc vectorized", draws, VECTORIZED, **DEFAULT)
configuration("kernel-hmc 60 parameters", draws, standard, dim=60, max_evaluations=2000, draws=100)
configuration(
    "kernel-hmc 1 chain", draws, Banana(), dim=2, chains=1, max_evaluations=1000, draws=200
)
configuration(
    "kernel-hmc 20 chains", draws, Banana(), dim=2, chains=20, max_evaluations=2500, draws=50
)
configuration(
    "kernel-hmc 2 runs", draws, standard, dim=2, independent_runs=2, max_evaluations=1500, draws=50
)
configuration("kernel-hmc processes", draws, Banana(), dim=2, executor=2, **DEFAULT)
configuration(
    "kernel-hmc history",
    draws,
    standard,
    dim=3,
    history=(SAMPLES, -0.5 * (SAMPLES**2).sum(axis=1)),
    **DEFAULT,
)
configuration(
    "kernel-hmc moves",
    draws,
    standard,
    dim=2,
    sampler=kmc.KernelHMC(moves=[(kmc.moves.Snooker(), 0.2)]),
    **DEFAULT,
)
configuration(
    "kernel-hmc gradients",
    draws,
    standard,
    dim=3,
    sampler=kmc.KernelHMC(gradients=lambda x: -x),
    **DEFAULT,
)
configuration("kernel-hmc store, killed and resumed", resumed, max_evaluations=1500, draws=100)
configuration(
    "kernel-hmc store, killed in warm-up and resumed",
    resumed,
    at=400,
    max_evaluations=1500,
    draws=100,
)
configuration("kernel-hmc store, extended", extended, **DEFAULT)

configuration("random-walk", draws, standard, dim=3, sampler="random-walk", **SHORT)
configuration("adaptive-metropolis", draws, standard, dim=3, sampler="adaptive-metropolis", **SHORT)
configuration(
    "adaptive-metropolis 20 chains",
    draws,
    Banana(),
    dim=2,
    sampler="adaptive-metropolis",
    chains=20,
    draws=50,
)
configuration(
    "adaptive-metropolis processes",
    draws,
    NAMED,
    sampler="adaptive-metropolis",
    executor=2,
    **SHORT,
)
configuration(
    "adaptive-metropolis store, killed and resumed",
    resumed,
    sampler="adaptive-metropolis",
    draws=200,
    warmup=150,
)
configuration("adaptive-langevin", draws, standard, dim=2, sampler="adaptive-langevin", **SHORT)
configuration("kameleon", draws, Banana(), dim=2, sampler="kameleon", **SHORT)
configuration("delayed-acceptance", draws, Banana(), dim=2, sampler="delayed-acceptance", **SHORT)
configuration("tempered", draws, Bimodal(), dim=2, sampler="tempered", **SHORT)
for _estimator in (kmc.scores.NystromKEF(n_basis=30, random_state=0), kmc.scores.GaussianScore()):
    configuration(
        f"score-hmc {type(_estimator).__name__}",
        draws,
        Banana(),
        dim=2,
        sampler=kmc.ScoreHMC(_estimator, warmup_sampler=kmc.AdaptiveMetropolis(), max_states=200),
        draws=100,
    )
configuration("ask and tell", ask_and_tell)

# Read-outs

configuration("expectations", read_out, kmc.expectations, long_run)
configuration("expectations of few draws", read_out, kmc.expectations, run_with_few_draws)
configuration("evidence", read_out, kmc.evidence, long_run)
configuration("evidence tempered", read_out, kmc.evidence, tempered_run)
configuration("resample", read_out, lambda idata: kmc.resample(idata, draws=300, seed=1), long_run)
configuration("summary", read_out, lambda idata: kmc.summary(idata).to_xarray(), long_run)
configuration("slow modes", read_out, kmc.diagnostics.slow_modes, run_between_modes)

# Estimators

configuration("scores NystromKEF", score, kmc.scores.NystromKEF(random_state=0))
configuration(
    "scores NystromKEF components",
    score,
    kmc.scores.NystromKEF(n_basis=40, components=0.5, random_state=0),
)
configuration(
    "scores FullKEF", score, kmc.scores.FullKEF(bandwidth=2.0, regularization=0.01, random_state=0)
)
configuration("scores LiteKEF", score, kmc.scores.LiteKEF(random_state=0))
configuration("scores FiniteKEF", score, kmc.scores.FiniteKEF(random_state=0))
configuration("scores DenoisingAutoencoder", score, kmc.scores.DenoisingAutoencoder(random_state=0))
configuration("scores GaussianScore", score, kmc.scores.GaussianScore())


def hermite() -> dict[str, Any]:
    fit = kmc.regression.HermiteRegression(random_state=0).fit(
        SAMPLES, np.sin(SAMPLES[:, 0]), np.cos(SAMPLES)
    )
    return {"predicted": fit.predict(SAMPLES[:20])}


def galerkin() -> dict[str, Any]:
    basis = kmc.bases.Monomials(2, 3)
    found = kmc.spectral.galerkin(kmc.spectral.DirichletForm(), basis, basis, SAMPLES)
    return {"singular_values": found.singular_values_}


def kmeans() -> dict[str, Any]:
    found = kmc.spectral.kernel_kmeans(SAMPLES, 3, random_state=0)
    return {"labels": found.labels, "inertia": found.inertia}


configuration("regression HermiteRegression", values_of, hermite)
configuration(
    "spectral DiffusionMap",
    spectrum,
    kmc.spectral.DiffusionMap(4, n_basis=50, random_state=0),
    SAMPLES,
)
configuration(
    "spectral TransitionOperator",
    spectrum,
    kmc.spectral.TransitionOperator(5, 2, random_state=0),
    TRAJECTORY,
)
configuration("spectral GraphLaplacian", spectrum, kmc.spectral.GraphLaplacian(4), SAMPLES)
configuration("spectral KernelJL", spectrum, kmc.spectral.KernelJL(5, random_state=0), SAMPLES)
configuration("spectral KernelPCA", spectrum, kmc.spectral.KernelPCA(5, random_state=0), SAMPLES)
configuration(
    "spectral NystromEmbedding",
    spectrum,
    kmc.spectral.NystromEmbedding(5, n_basis=50, random_state=0),
    SAMPLES,
)
configuration("spectral kernel_kmeans", values_of, kmeans)
configuration("spectral galerkin", values_of, galerkin)


# Lines


def line(name: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = CONFIGURATIONS[name]()
    return f"{name}: " + ", ".join(f"{part} {digest(parts[part])}" for part in parts)


def digest(values: dict[str, Any]) -> str:
    """Return eight digits that depend on the names, types, shapes and bits of all values."""
    found = hashlib.sha256()
    for name, value in sorted(values.items()):
        array = np.asarray(value)
        content = (
            repr(array.tolist()).encode()
            if array.dtype.hasobject
            else np.ascontiguousarray(array).tobytes()
        )
        found.update(f"{name} {array.dtype.kind} {array.shape} ".encode() + content)
    return found.hexdigest()[:8]


def surface() -> Iterator[str]:
    """Yield a line for each public name, for each option of the command and for each part of a
    result.
    """
    modules = [
        kmc,
        *(value for name in kmc.__all__ if inspect.ismodule(value := getattr(kmc, name))),
    ]
    names = [
        (module, name)
        for module in modules
        for name in sorted(getattr(module, "__all__", set(dir(module))))
    ]
    listed = []
    for module, name in [
        *names,
        *((base, name) for name in ("Sampler", "SamplerSetup", "SamplerState", "Step")),
    ]:
        value = getattr(module, name)
        if name.startswith("_") or inspect.ismodule(value):
            continue
        label = f"{module.__name__}.{name}"
        yield f"surface {label}{signature(value)}"
        if inspect.isclass(value) and value not in listed:
            listed.append(value)
            yield from members(label, value)
    for command, parser in _parser()._subparsers._group_actions[0].choices.items():
        for action in parser._actions:
            options = " ".join(action.option_strings) or action.dest
            yield f"surface command {command} {options} = {action.default!r}"
    idata = sample(standard, dim=2, max_evaluations=300, draws=None)
    yield from (f"surface result attribute {name}" for name in sorted(idata.attrs))
    for group in idata.groups():
        yield from (f"surface result {group}/{name}" for name in sorted(idata[group].variables))


def members(label: str, cls: type) -> Iterator[str]:
    for name in sorted(
        set(dir(cls)) - set(dir(BaseException) if issubclass(cls, BaseException) else ())
    ):
        value = inspect.getattr_static(cls, name)
        if name.startswith("_"):
            continue
        if isinstance(value, classmethod | staticmethod):
            value = value.__func__
        yield f"surface {label}.{name}{signature(value) if inspect.isfunction(value) else ''}"


def signature(value: Any) -> str:
    """Return names and defaults of the parameters: annotations may be made sharper."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in found.parameters.values()
    ]
    text = str(inspect.Signature(parameters))
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(text.split()))


def lines(prefixes: list[str]) -> Iterator[str]:
    started = time.perf_counter()
    for name in CONFIGURATIONS:
        if chosen(name, prefixes):
            yield line(name)
            print(f"{time.perf_counter() - started:7.1f} s  {name}", file=sys.stderr)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from (text for text in (surface() if chosen("surface", prefixes) else ()))


def chosen(text: str, prefixes: list[str]) -> bool:
    return not prefixes or any(text.startswith(prefix) for prefix in prefixes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "prefixes", nargs="*", help="the lines to make, by how they begin (default: all)"
    )
    parser.add_argument(
        "--check", type=Path, metavar="FILE", help="an earlier output to compare with"
    )
    args = parser.parse_args()
    now = []
    for text in lines(args.prefixes):
        now.append(text)
        if args.check is None:
            print(text, flush=True)
    if args.check is None:
        return 0
    before = [
        text
        for text in args.check.read_text(encoding="utf-8").splitlines()
        if chosen(text, args.prefixes)
    ]
    different = [f"- {text}" for text in before if text not in now] + [
        f"+ {text}" for text in now if text not in before
    ]
    print("\n".join(different) or f"{len(now)} lines are equal")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
