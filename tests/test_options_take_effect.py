"""Each option of a public class or function changes a result, or is refused: none is ignored.

Those of functions have tests in the file of their subject.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import kmc
from kmc.bases import Monomials
from kmc.kernels import Matern52
from kmc.model.toys import Banana

RNG = np.random.default_rng(0)
TARGET = Banana(2, b=0.03)
START = RNG.normal(0.0, 3.0, (8, 2))
X = RNG.standard_normal((120, 2)) @ np.array([[1.0, 0.4], [0.0, 0.6]])
Y = np.sin(X[:, 0]) + X[:, 1]
PATH = np.zeros((400, 2))
for _t in range(1, len(PATH)):
    PATH[_t] = [0.9, 0.5] * PATH[_t - 1] + RNG.standard_normal(2)


class Change(NamedTuple):
    """Another value of an option, and what it needs beside it to matter."""

    value: Any
    options: Mapping[str, Any] = {}
    given: Mapping[str, Any] = {}  # limits of a run, or arguments of a fit


# Samplers: the points that they ask for, and their draws

ESTIMATOR, ANOTHER = (
    kmc.scores.FullKEF("gaussian", bandwidth, 0.01, "gaussian") for bandwidth in (1.5, 3.0)
)
REFITTED = {"adaptation": "vanishing", "first_refit": 10}
LONG = {"warmup": 200, "max_evaluations": 700}  # enough states for a fit, and a refit


def two_modes(x: np.ndarray) -> float:
    return float(np.logaddexp(*(-0.5 * np.sum((x - center) ** 2) for center in (-3.0, 3.0))))


def run(sampler: Any, target: Any = TARGET, **limits: Any) -> list[np.ndarray]:
    state = sampler.start(
        initial=START, **({"chains": 2, "seed": 1, "max_evaluations": 300} | limits)
    )
    asked = []
    while not state.done:
        asked.append(state.ask())
        state.tell([target(x) for x in asked[-1]])
    return [np.concatenate(asked), state.positions]


SAMPLERS: dict[Any, tuple[dict[str, Any], dict[str, Any]]] = {
    kmc.RandomWalkMetropolis: ({}, {"scale": 0.5, "target_acceptance": 0.5}),
    kmc.AdaptiveMetropolis: (
        {},
        {
            "adaptation": "freeze",
            "target_acceptance": 0.4,
            "moves": ("random-walk",),
            "pooled": False,
            "max_archive": 10,
            "estimator": ESTIMATOR,
        },
    ),
    kmc.Kameleon: (
        {},
        {
            "adaptation": "freeze",
            "gamma": 0.5,
            "max_states": 10,
            "bandwidth": 3.0,
            "target_acceptance": 0.5,
        },
    ),
    kmc.AdaptiveLangevin: (
        {"estimator": ESTIMATOR},
        {
            "estimator": ANOTHER,
            "adaptation": "freeze",
            "target_acceptance": 0.3,
            "random_walk_probability": 0.5,
            "max_states": 20,
            "covariance": "hessian",
            "schedule": 0.5,
        },
    ),
    kmc.DelayedAcceptance: (
        {"estimator": ESTIMATOR},
        {"sampler": kmc.Kameleon(), "estimator": ANOTHER, "max_states": 20},
    ),
    kmc.ScoreHMC: (
        {"estimator": ESTIMATOR, "warmup_sampler": kmc.AdaptiveMetropolis(), "max_states": 60},
        {
            "estimator": Change(ANOTHER, given=LONG),
            "adaptation": Change("vanishing", given=LONG),
            "random_walk_probability": Change(0.5, given=LONG),
            "trajectory_length": Change(1.0, given=LONG),
            "first_refit": Change(20, REFITTED, LONG),
            "max_states": Change(20, given=LONG),
            "schedule": Change(0.5, {"adaptation": "vanishing"}, LONG),
            "values": Change(True, given=LONG),
            "warmup_sampler": kmc.RandomWalkMetropolis(),
        },
    ),
    kmc.Tempered: (
        {},
        {"sampler": kmc.AdaptiveMetropolis(moves=("random-walk",)), "temperatures": 3},
    ),
    kmc.KernelHMC: (
        {"learning_share": 0.05},
        {
            "learning_share": 0.2,
            "burn_in": 3,
            "archive_probability": 0.3,
            "tempered_probability": 0.5,
            "mode_jump_probability": Change(0.5, {"learning_share": 0.2}, {"target": two_modes}),
            "moves": [(kmc.moves.Snooker(), 0.3)],
            "gradients": lambda x: np.array([0.1, 0.1]),
        },
    ),
}


# Score estimators, spectra and regression: values at the samples


def score(estimator: Any, **data: Any) -> list[np.ndarray]:
    gradient = estimator.fit(X, **data).gradient(X)
    return [gradient, getattr(estimator, "cv_results_", {}).get("objective", np.empty(0))]


def modes(estimator: Any, x: np.ndarray = X) -> list[np.ndarray]:
    return [estimator.fit(x).transform(x)]


def slow_modes(estimator: Any) -> list[np.ndarray]:
    return modes(estimator, PATH)


def regression(estimator: Any) -> list[np.ndarray]:
    return [estimator.fit(X, Y, np.column_stack([np.cos(X[:, 0]), np.ones(len(X))])).predict(X)]


KERNEL = {"kernel": "gaussian", "bandwidth": 1.5, "regularization": 0.01}
SECTIONS = {**KERNEL, "n_basis": 10, "base": "gaussian", "random_state": 0}
CHANGES: dict[str, Any] = {
    "kernel": "matern52",
    "bandwidth": 0.7,
    "regularization": 0.1,
    "n_basis": 12,
    "landmarks": "k-means",
    "base": "uniform",
    "jitter": 1e-2,
    "value_weight": Change(9.0, given={"values": Y}),
    "cv": Change(2, {"regularization": "cv", "bandwidth": "cv"}),
    "random_state": 1,
}


def changes(*names: str, **others: Any) -> dict[str, Any]:
    return {name: CHANGES[name] for name in names} | others


COMMON = ("kernel", "bandwidth", "regularization", "base", "value_weight", "cv", "random_state")
EMBEDDING = {
    "n_components": 3,
    "kernel": Matern52(),
    "bandwidth": 0.7,
    "n_basis": 12,
    "random_state": 1,
}

ESTIMATORS: dict[Any, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    kmc.scores.NystromKEF: (
        score,
        SECTIONS,
        changes(
            *(*COMMON, "n_basis", "landmarks", "jitter"),
            components=0.5,
            basis=Change(Monomials(2, 2), {"n_basis": 100}),
        ),
    ),
    kmc.scores.LiteKEF: (
        score,
        SECTIONS,
        changes(*COMMON, "n_basis", "landmarks", "jitter", penalty="norm+coefficients"),
    ),
    kmc.scores.FiniteKEF: (score, SECTIONS, changes(*COMMON, "n_basis", "jitter")),
    kmc.scores.FullKEF: (
        score,
        {**KERNEL, "base": "gaussian", "random_state": 0},
        changes(
            *COMMON,
            solver="cg",
            tolerance=Change(1e-2, {"solver": "cg"}),
            random_state=Change(1, {"regularization": "cv", "bandwidth": "cv"}),
        ),
    ),
    kmc.scores.GaussianScore: (score, {}, {}),
    kmc.scores.DenoisingAutoencoder: (
        score,
        {"n_hidden": 3, "noise": 0.3, "max_iter": 10, "n_corruptions": 2, "random_state": 0},
        {
            "n_hidden": 4,
            "noise": 0.5,
            "max_iter": 5,
            "n_corruptions": 4,
            "tied": True,
            "cv": Change(2, {"noise": "cv"}),
            "random_state": 1,
        },
    ),
    kmc.spectral.DiffusionMap: (
        modes,
        {
            "n_components": 2,
            "bandwidth": 1.5,
            "regularization": 1e-3,
            "n_basis": 15,
            "random_state": 0,
        },
        changes(
            *("kernel", "bandwidth", "regularization", "n_basis", "landmarks", "random_state"),
            n_components=3,
            basis="fourier",
            score_function=lambda x: -x,
            normals=lambda x: np.tile([1.0, 0.0], (len(x), 1)),
            method="penalized",
            tolerance=1e-3,
        ),
    ),
    kmc.spectral.GraphLaplacian: (
        modes,
        {"n_components": 2},
        {
            "n_components": 3,
            "bandwidth": 0.3,
            "n_neighbors": 20,
            "alpha": 1.0,
            "basis": Monomials(3, 2),
            "metric": "cityblock",
        },
    ),
    kmc.spectral.TransitionOperator: (
        slow_modes,
        {
            "n_components": 2,
            "bandwidth": 1.5,
            "regularization": 1e-3,
            "n_basis": 15,
            "random_state": 0,
        },
        changes(
            *("kernel", "bandwidth", "regularization", "n_basis", "landmarks", "random_state"),
            lagtime=3,
            n_components=3,
            basis=Monomials(3, 2),
            reversible=False,
        ),
    ),
    kmc.spectral.KernelJL: (
        modes,
        {"n_components": 2, "n_basis": 10, "random_state": 0},
        {**EMBEDDING, "center": False},
    ),
    kmc.spectral.KernelPCA: (
        modes,
        {"n_components": 2, "n_basis": 10, "random_state": 0},
        EMBEDDING,
    ),
    kmc.spectral.NystromEmbedding: (
        modes,
        {"n_components": 2, "n_basis": 10, "random_state": 0},
        EMBEDDING,
    ),
    kmc.regression.HermiteRegression: (
        regression,
        {**KERNEL, "n_basis": 10, "random_state": 0},
        changes(
            *(
                "kernel",
                "bandwidth",
                "regularization",
                "n_basis",
                "landmarks",
                "cv",
                "random_state",
            ),
            gradient_weight=3.0,
            basis="fourier",
            degree=Change(2, {"basis": "monomials"}),
            fit_intercept=False,
        ),
    ),
}


# Functions and small classes, as far as the tests of their subjects leave options out


def driven(state: Any) -> list[np.ndarray]:
    while not state.done:
        state.tell([TARGET(x) for x in state.ask()])
    return [state.positions, np.array([state.report()["noisy"]])]


def numbers(found: Any) -> list[np.ndarray]:
    return [np.array(list(found.values()) if isinstance(found, dict) else found)]


def decomposed(form: Any) -> list[np.ndarray]:
    basis = Monomials(1, 2)
    found = kmc.spectral.galerkin(form, basis, basis, X)
    return [found.singular_values_, np.array(found.eigenvalues_ is None)]


CHAINS = X.reshape(4, 30, 2)
OTHERS: dict[Any, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    kmc.AskTell: (
        driven,
        {"sampler": kmc.RandomWalkMetropolis(), "initial": START, "draws": 20, "seed": 1},
        {"draws": 30, "warmup": 5, "chains": 3, "max_evaluations": 50, "seed": 2, "noisy": True},
    ),
    kmc.diagnostics.nested_rhat: (
        numbers,
        {"data": CHAINS, "superchains": 2},
        {"var_names": ["x[1]"]},
    ),
    kmc.diagnostics.spectral_gap: (
        numbers,
        {"data": CHAINS, "n_basis": 20},
        {"lagtime": 2, "var_names": ["x[1]"], "n_basis": 10, "random_state": 1},
    ),
    kmc.diagnostics.langevin_gap: (
        numbers,
        {"data": CHAINS, "n_basis": 20},
        {"var_names": ["x[1]"], "n_basis": 10, "random_state": 1},
    ),
    kmc.diagnostics.langevin_modes: (
        lambda found: [found["eigenvalue"].values],
        {"data": CHAINS, "n_modes": 1, "n_basis": 20},
        {"n_modes": 2, "var_names": ["x[1]"], "n_basis": 10, "random_state": 1},
    ),
    kmc.diagnostics.control_functional: (
        lambda found: [np.array([found.estimate])],
        {
            "data": CHAINS,
            "f": lambda x: x[:, 0] ** 2,
            "score": lambda x: -x,
            "n_basis": 20,
            "random_state": 0,
        },
        {"var_names": ["x[1]"]},
    ),
    kmc.spectral.implied_timescales: (
        lambda found: [found.timescales],
        {
            "data": PATH,
            "lagtimes": [1, 2],
            "estimator": kmc.spectral.TransitionOperator(n_basis=10, random_state=0),
        },
        {"n_timescales": 2, "weights": np.linspace(0.0, 1.0, len(PATH))},
    ),
    kmc.spectral.Bilinear: (
        decomposed,
        {
            "function": lambda left, right, x, w: (
                (w[:, None] * left.values(x)).T @ right.values(x + 1.0)
            )
        },
        {"symmetric": True, "annihilates_constants": True},
    ),
    kmc.spectral.galerkin: (
        lambda found: [found.singular_values_],
        {
            "form": kmc.spectral.DirichletForm(),
            "left": Monomials(3, 2),
            "right": Monomials(3, 2),
            "X": X,
        },
        {"tolerance": 1e-1, "regularization": 0.5},
    ),
}

TABLE = {cls: (run, *rest) for cls, rest in SAMPLERS.items()} | ESTIMATORS | OTHERS
ROWS = [(cls, name) for cls, (_, _, changed) in TABLE.items() for name in changed]


@cache
def before(cls: Any, name: str) -> list[np.ndarray]:
    """What the class makes without the change; the same for all options that need nothing else."""
    make, base, changed = TABLE[cls]
    change = changed.get(name)
    if not isinstance(change, Change):
        return make(cls(**base))
    if not (change.options or change.given):
        return before(cls, "")
    return make(cls(**base | change.options), **change.given)


def same(one: list[np.ndarray], two: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("cls", "name"), [pytest.param(*row, id=f"{row[0].__name__}-{row[1]}") for row in ROWS]
)
def test_the_option_changes_what_is_made(cls, name):
    make, base, changed = TABLE[cls]
    change = changed[name] if isinstance(changed[name], Change) else Change(changed[name])
    known = before(cls, name if isinstance(changed[name], Change) else "")
    assert not same(
        known, make(cls(**base | change.options | {name: change.value}), **change.given)
    )


# Options that have no effect beside others are refused

REFUSED = {
    "first_refit=40 has no effect with adaptation='freeze'": lambda: kmc.ScoreHMC(
        ESTIMATOR, first_refit=40
    ),
    "schedule=0.5 has no effect with adaptation='freeze'": lambda: kmc.ScoreHMC(
        ESTIMATOR, schedule=0.5
    ),
    "first_refit=40 has no effect with a schedule": lambda: kmc.ScoreHMC(
        ESTIMATOR, "vanishing", first_refit=40, schedule=0.5
    ),
    "target_acceptance=0.5 has no effect with a given scale": lambda: kmc.RandomWalkMetropolis(
        2.0, 0.5
    ),
    "trust=True and resume=False": lambda: kmc.sample(TARGET, dim=2, trust=True),
    "vectorized=True and f=None": lambda: kmc.expectations(None, vectorized=True),
}


@pytest.mark.parametrize("message", REFUSED)
def test_options_without_an_effect_are_refused(message):
    with pytest.raises(ValueError, match=message):
        REFUSED[message]()


# No public option is forgotten
