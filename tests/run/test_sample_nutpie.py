"""``sampler="nuts"`` for PyMC models."""

import sys

import numpy as np
import pytest

import kmc

pymc = pytest.importorskip("pymc")
QUIET = {"seed": 1, "progress": False}


@pytest.fixture(scope="module")
def model():
    with pymc.Model() as model:
        mu = pymc.Normal("mu", 0.0, 1.0)
        pymc.Normal("y", mu, 1.0, observed=np.array([1.0, 2.0, 3.0]))
    return model


def test_draws_and_the_number_of_gradients(model):
    pytest.importorskip("nutpie")
    idata = kmc.sample(model, sampler="nuts", draws=300, warmup=300, chains=2, **QUIET)
    x = idata.posterior["mu"].values  # N(1.5, 1/4)
    assert x.shape == (2, 300) and abs(x.mean() - 1.5) < 0.2 and abs(x.std() - 0.5) < 0.15
    assert idata.attrs["sampler"] == "nuts" and idata.attrs["n_gradients"] >= 1200
    groups = idata.groups() if callable(idata.groups) else list(idata.children)
    assert not any(name.startswith("warmup_") for name in groups)


def test_without_nutpie_it_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "nutpie", None)
    with pytest.raises(ImportError, match=r"sampler='nuts' needs nutpie: pip install \"kernelmc\[nuts\]\""):
        kmc.sample(model, sampler="nuts", **QUIET)


def test_what_it_does_not_take(model):
    with pytest.raises(TypeError, match="sampler='nuts' is for PyMC models"):
        kmc.sample(lambda x: -0.5 * x @ x, dim=2, sampler="nuts", **QUIET)
    with pytest.raises(TypeError, match="max_evaluations=500: nutpie, which sampler='nuts' runs, has no such argument"):
        kmc.sample(model, sampler="nuts", max_evaluations=500, **QUIET)
