"""``kmc.resample``: approximate draws, and how far they are from the posterior."""

import numpy as np
import pytest

import kmc
from kmc.control_variates.means import SurrogateChains
from kmc.readout import resample
from tests.readout.curved import TRUTH, log_density
from tests.readout.test_expectations import tampered


@pytest.fixture(scope="module")
def many(idata):
    return kmc.resample(idata, draws=2000)


def test_draws_have_the_moments_of_the_posterior(many):
    x = many["posterior"]["x"].values
    assert x.shape == (4, 2000, 2)
    mean, sd = TRUTH
    assert np.all(np.abs(x.mean(axis=(0, 1)) - mean) < 0.1 * sd)
    assert np.all(np.abs(x.std(axis=(0, 1)) / sd - 1) < 0.05)


def test_the_distance_is_stated(many):
    attrs = many["posterior"].attrs
    assert 0 <= attrs["total_variation"] <= attrs["total_variation_bound"] < 0.1
    assert "not exact" in attrs["description"]


def test_a_surrogate_that_contradicts_the_draws_has_no_bound(idata):
    wrong = tampered(idata, None, lambda point: point._replace(location=point.location + 1.5))
    with pytest.warns(kmc.KmcWarning, match="The surrogate contradicts the draws"):
        found = kmc.resample(wrong, draws=2000, model=kmc.Model(log_density, dim=2))
    assert found["posterior"].attrs["total_variation_bound"] == 1.0


def test_parameters_with_names(named):
    found = kmc.resample(named, draws=400)
    assert list(found["posterior"]["a"].coords["site"].values) == ["N", "S"]
    assert found["posterior"]["b"].shape == (4, 400)
    assert found["unconstrained_posterior"]["x"].shape == (4, 400, 3)
    assert abs(float(found["posterior"]["b"].mean()) - 1) < 0.1
    assert kmc.resample(named, draws=400)["posterior"].equals(found["posterior"])


def test_many_draws_are_made_in_blocks(idata, monkeypatch):
    blocks = []
    monkeypatch.setattr(resample, "_BLOCK", 500)
    monkeypatch.setattr(
        SurrogateChains, "draws", lambda self, n, draws=SurrogateChains.draws: blocks.append(n) or draws(self, n)
    )
    x = kmc.resample(idata, draws=2000)["posterior"]["x"].values
    assert x.shape == (4, 2000, 2) and len(np.unique(x.reshape(-1, 2), axis=0)) > 4000
    assert blocks.count(-(-4 * 500 // 32)) == 16
    mean, sd = TRUTH
    assert np.all(np.abs(x.mean(axis=(0, 1)) - mean) < 0.1 * sd)
    assert np.all(np.abs(x.std(axis=(0, 1)) / sd - 1) < 0.05)


def test_more_draws_than_fit_in_memory_are_refused(idata):
    with pytest.raises(ValueError, match=r"draws=1000000000: .* take 60 GiB, .*; expected at most 16777216"):
        kmc.resample(idata, draws=10**9)


def test_bad_arguments(idata):
    with pytest.raises(ValueError, match=r"draws=0"):
        kmc.resample(idata, draws=0)
    with pytest.raises(TypeError, match=r"result=int: expected what kmc.sample returned"):
        kmc.resample(3)
