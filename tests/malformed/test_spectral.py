"""Spectral estimators and regression with malformed arguments and data."""

import numpy as np
from hypothesis import given

from kmc import bases, spectral
from kmc.regression import HermiteRegression
from tests.malformed.cases import Case, calls, finite, hold
from tests.malformed.estimators import ABOUT_X, estimator
from tests.malformed.examples import PATH, POINTS, WEIGHTS, X, Y, the


def is_an_embedding(estimator, arguments):
    d = estimator.n_features_in_
    if d <= 2:
        found = np.asarray(estimator.transform(POINTS[:, :d]))
        finite(found, (3, found.shape[1]))
    if hasattr(estimator, "eigenvalues_"):
        finite(np.abs(estimator.eigenvalues_), estimator.eigenvalues_.shape)


def is_a_regression(estimator, arguments):
    x = POINTS[:, : estimator.n_features_in_]
    finite(estimator.predict(x), (3,))
    finite(estimator.gradient(x), x.shape)


def is_a_decomposition(found, arguments):
    finite(found.singular_values_, found.singular_values_.shape)
    finite(found.left.values(POINTS), (3, len(found.singular_values_)))


def is_a_clustering(found, arguments):
    assert found.labels.ndim == 1 and len(found.labels) > 1 and found.labels.dtype.kind == "i"
    assert np.isfinite(found.inertia)


TWO = {"n_components": 2}
FEW = TWO | {"n_basis": 12}
OTHERS = [
    estimator(
        spectral.DiffusionMap,
        is_an_embedding,
        {"X": X, "weights": WEIGHTS},
        ["n_basis"],
        **FEW,
        bandwidth=1.0,
        also={"normals": ("score_function",)},
    ),
    estimator(
        spectral.TransitionOperator,
        is_an_embedding,
        {"X": PATH, "weights": np.ones(len(PATH))},
        ["n_basis"],
        **FEW,
        bandwidth=1.0,
    ),
    estimator(spectral.GraphLaplacian, is_an_embedding, {"X": X}, **TWO),
    estimator(spectral.KernelJL, is_an_embedding, {"X": X}, ["n_components"], **FEW),
    estimator(spectral.KernelPCA, is_an_embedding, {"X": X}, **FEW),
    estimator(spectral.NystromEmbedding, is_an_embedding, {"X": X}, **FEW),
    estimator(
        HermiteRegression,
        is_a_regression,
        {"X": X, "y": Y, "gradients": -X, "weights": WEIGHTS},
        ["n_basis", "degree"],
        regularization=0.01,
        n_basis=5,
    ),
    Case(
        "galerkin",
        spectral.galerkin,
        {
            "form": spectral.DirichletForm(),
            "left": bases.Monomials(2, 2),
            "right": None,
            "X": X,
            "weights": WEIGHTS,
            "n_components": 2,
            "which": "smallest",
            "tolerance": 1e-8,
            "block": 100,
        },
        is_a_decomposition,
        also={"X": ABOUT_X, "form": ("arguments?",)},  # of a function of something else
    ),
    Case(
        "kernel_kmeans",
        spectral.kernel_kmeans,
        {"X": X, "n_clusters": 2, "embedding": "nystrom", "n_init": 2, "random_state": 0},
        is_a_clustering,
        also={"X": ABOUT_X},
        costly=frozenset({"n_init"}),
    ),
]


@the("others")
@given(calls(OTHERS))
def test_spectral_estimators_and_regression(call):
    hold(*call)
