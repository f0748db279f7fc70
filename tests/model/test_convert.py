"""Other packages' densities: some are just callables, and the others say what to install."""

import sys

import numpy as np
import pytest

import kmc
from kmc.model.convert import as_model
from kmc.model.evaluate import Evaluator

POINTS = np.array([[0.0, 0.0], [1.0, -2.0], [0.5, 3.0]])
EXPECTED = -0.5 * (POINTS**2).sum(axis=1)


@pytest.mark.parametrize(
    ("package", "make", "install"),
    [
        ("pymc", kmc.from_pymc, r'"kernelmc\[pymc\]"'),
        ("bridgestan", kmc.from_stan, r'"kernelmc\[stan\]"'),
        ("pints", kmc.from_pints, "pints"),
    ],
)
def test_a_missing_package_says_what_to_install(package, make, install, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {install}"):
        make("model.so")


def test_a_pymc_model_is_known_by_the_name_of_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymc", None)
    base = type("Model", (), {"__module__": "pymc.model.core"})
    with pytest.raises(ImportError, match="needs PyMC"):
        as_model(type("Mine", (base,), {})(), None)


def values(log_density):
    return Evaluator(kmc.Model(log_density, 2))(POINTS)


def test_jax_arrays():
    jnp = pytest.importorskip("jax.numpy")
    jax = pytest.importorskip("jax")
    np.testing.assert_allclose(values(jax.jit(lambda x: -0.5 * jnp.sum(x**2))), EXPECTED, rtol=1e-6)


@pytest.mark.parametrize("gradient", [False, True])
def test_torch_tensors(gradient):
    torch = pytest.importorskip("torch")
    scale = torch.tensor(-0.5, dtype=torch.float64, requires_grad=gradient)

    def log_density(x):
        return scale * (torch.from_numpy(x) ** 2).sum()

    # NumPy cannot read a tensor that records its gradient; the error says which point, and what
    # came
    if gradient:
        with pytest.raises(kmc.EvaluationError, match="Tensor"):
            values(log_density)
    else:
        np.testing.assert_allclose(values(log_density), EXPECTED)


def test_pints_log_pdfs():
    pints = pytest.importorskip("pints")

    class Normal(pints.LogPDF):
        def __call__(self, x):
            return -0.5 * np.sum(np.square(x))

        def n_parameters(self):
            return 2

    np.testing.assert_allclose(values(Normal()), EXPECTED)
    idata = kmc.sample(
        Normal(), dim=2, sampler="random-walk", draws=5, warmup=0, seed=1, progress=False
    )
    assert idata.posterior["x"].shape == (4, 5, 2)


def test_a_pints_posterior():
    pints = pytest.importorskip("pints")
    toy = pytest.importorskip("pints.toy")
    times = np.linspace(0, 10, 20)
    problem = pints.SingleOutputProblem(toy.ConstantModel(1), times, np.full(20, 1.5))
    likelihood = pints.GaussianKnownSigmaLogLikelihood(problem, 1.0)
    posterior = pints.LogPosterior(likelihood, pints.UniformLogPrior([0.0], [3.0]))
    inside, outside = Evaluator(kmc.Model(posterior, 1))(np.array([[1.0], [4.0]]))
    assert inside == pytest.approx(posterior([1.0])) and outside == -np.inf


pytestmark = pytest.mark.arviz
