import pickle
import sys

import numpy as np
import pytest

from kmc.spectral import AugmentationPairs, DirichletForm, NeuralEigenfunctions, TangentProp
from tests.oracles import differences
from tests.sklearn_conventions import conventions

X = np.random.default_rng(0).standard_normal((1000, 1))


def test_the_import_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'pip install "kernelmc\[torch\]"'):
        NeuralEigenfunctions().fit(X)


@pytest.fixture
def torch():
    found = pytest.importorskip("torch")
    found.set_num_threads(1)
    return found


@pytest.fixture
def training(torch):
    from kmc.spectral import neural

    return neural


def network(training, dim, outputs):
    with training.seeded(0):
        module = training.multilayer_perceptron(dim, (5,), outputs)
    return training.NetworkFunctions(module, np.full(dim, 0.3), np.full(dim, 1.7), outputs)


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("name", ["dirichlet", "tangents", "pairs"])
def test_energies_are_the_forms(training, dim, name):
    basis = network(training, dim, 2)
    x = np.random.default_rng(1).standard_normal((30, dim))
    form = {
        "dirichlet": DirichletForm(),
        "tangents": TangentProp(lambda x: np.stack([x**2, x[:, ::-1]], axis=1)),
        "pairs": AugmentationPairs(lambda x: x * np.linspace(0.5, 1.5, len(x))[:, None]),
    }[name]
    literal = np.diag(form.sum(basis, basis, x, np.ones(30))) / 30
    np.testing.assert_allclose(training.energies(form, basis, x).detach().numpy(), literal)


def test_networks_are_a_basis(training):
    basis = network(training, 2, 3)
    x = np.random.default_rng(1).standard_normal((5, 2))
    for j in range(3):
        literal = differences.gradients(lambda x, j=j: basis.values(x)[:, j], x)
        np.testing.assert_allclose(basis.gradients(x)[:, j], literal, atol=1e-8)


def test_the_minimum_of_equation_18(torch, training):
    """Linear functions of N(0, I2) have eigenvalue 1: outputs shrink to second moments 1 - 1/μ."""
    x = np.random.default_rng(0).standard_normal((4000, 2))
    x = (x - x.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T, ddof=0)).T)
    module = torch.nn.Linear(2, 2, bias=False)
    found = NeuralEigenfunctions(
        2, module=module, cutoff=4.0, max_iter=500, learning_rate=0.02, random_state=0
    ).fit(x)
    outputs = found.basis_.values(x)
    np.testing.assert_allclose(outputs.T @ outputs / len(x), 0.75 * np.eye(2), atol=0.03)
    np.testing.assert_allclose(found.eigenvalues_, 1.0)  # and the shrinkage is undone
    assert found.basis_.module is not module


def test_the_minimum_with_a_cutoff_for_each_output(torch):
    """Linear functions of N(0, diag(1, 1/2)), with eigenvalues 1 and 2, are apart before the
    eigenproblem is solved.
    """
    x = np.random.default_rng(0).standard_normal((4000, 2))
    x = (
        (x - x.mean(axis=0))
        @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T, ddof=0)).T)
        * np.sqrt([1.0, 0.5])
    )
    options = {
        "module": torch.nn.Linear(2, 2, bias=False),
        "max_iter": 500,
        "learning_rate": 0.02,
        "random_state": 0,
    }
    found = NeuralEigenfunctions(2, cutoff=[4.0, 5.0], regularizer="covariance", **options).fit(x)
    outputs = found.basis_.values(x)
    np.testing.assert_allclose(outputs.T @ outputs / len(x), np.diag([3 / 4, 3 / 5]), atol=0.06)
    np.testing.assert_allclose(found.eigenvalues_, [1.0, 2.0])


def test_cosines(torch):
    """The Laplacian of the uniform distribution on an interval: (mπ)², cos mπx."""
    x = (np.arange(1000)[:, None] + 0.5) / 1000
    found = NeuralEigenfunctions(
        2, max_iter=400, batch_size=128, learning_rate=0.01, random_state=0
    ).fit(x)
    np.testing.assert_allclose(found.eigenvalues_ / np.pi**2, [1.0, 4.0], rtol=0.05)
    assert found.loss_curve_[-50:].mean() < found.loss_curve_[:50].mean()
    z = np.linspace(0.05, 0.95, 9)[:, None]
    cosines = np.sqrt(2) * np.cos(np.pi * z * [1, 2])
    values = found.transform(z)
    np.testing.assert_allclose(
        values * np.sign(np.sum(values * cosines, axis=0)), cosines, atol=0.2
    )
    literal = differences.gradients(lambda x: found.transform(x)[:, 0], z)
    np.testing.assert_allclose(found.gradient(z)[:, 0], literal, atol=1e-5)


def test_modes_along_a_circle(torch):
    """With tangents along it, m² for the Fourier mode of order m."""
    angle = np.linspace(0, 2 * np.pi, 500, endpoint=False)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    along = TangentProp(lambda x: x[:, ::-1] * [-1, 1])
    found = NeuralEigenfunctions(
        2, along, (32,), max_iter=300, learning_rate=0.01, random_state=0
    ).fit(circle)
    np.testing.assert_allclose(found.eigenvalues_, [1.0, 1.0], rtol=0.05)


def test_weights_seeds_and_pickles(torch):
    options = {"hidden_layer_sizes": (8,), "max_iter": 20, "random_state": 0}
    weights = np.repeat([1.0, 0.0], 500)
    state = torch.random.get_rng_state()
    one = NeuralEigenfunctions(2, **options).fit(X, weights=weights)
    assert torch.equal(torch.random.get_rng_state(), state)
    two = NeuralEigenfunctions(2, **options).fit(X, weights=weights)
    np.testing.assert_array_equal(one.transform(X), two.transform(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).transform(X), one.transform(X))
    used = one.transform(X[:500])
    np.testing.assert_allclose(used.T @ used / 500, np.eye(2), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"form": "dirichlet"},
            TypeError,
            "form='dirichlet': expected None or an object of DirichletForm",
        ),
        ({"cutoff": "median"}, ValueError, "cutoff='median'"),
        ({"cutoff": -1.0}, ValueError, "cutoff=-1.0"),
        ({"cutoff": [1.0, -1.0]}, ValueError, "expected positive numbers"),
        ({"cutoff": [1.0, 2.0]}, ValueError, "cutoff has 2 numbers, but the network has 8 outputs"),
        ({"regularizer": "whitening"}, ValueError, "regularizer='whitening'"),
        ({"max_iter": 0}, ValueError, "max_iter=0"),
        ({"hidden_layer_sizes": (0,)}, ValueError, r"hidden_layer_sizes=\(0,\)"),
        ({"learning_rate": 0.0}, ValueError, "learning_rate=0.0"),
        ({"module": abs}, TypeError, "expected None or a torch.nn.Module"),
    ],
)
def test_bad_input(torch, options, error, message):
    with pytest.raises(error, match=message):
        NeuralEigenfunctions(**options).fit(X)


@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
@pytest.mark.parametrize(
    ("estimator", "check"),
    conventions([NeuralEigenfunctions(2, hidden_layer_sizes=(8,), max_iter=5)]),
)
def test_conventions(torch, estimator, check):
    check(estimator)
