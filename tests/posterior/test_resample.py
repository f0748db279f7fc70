"""``kmc.resample``: approximate draws, and how far they are from the posterior."""

import numpy as np
import pytest

import kmc
from kmc.control_variates.replicate import Replicate
from kmc.posterior import resample
from kmc.posterior.resample import _of_replicate
from kmc.samplers.base import MOVES
from kmc.surrogate.coordinates.transport import IDENTITY
from kmc.surrogate.coordinates.whitening import Whitening
from kmc.surrogate.density import Component, Density
from tests.control_variates.synthetic import gaussian_state
from tests.posterior.curved import TRUTH, log_density
from tests.posterior.test_expectations import tampered

pytestmark = pytest.mark.usefixtures("few_particles")


@pytest.fixture(scope="module")
def many(idata):
    """Draws that are made in four blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resample, "_BLOCK", 500)
        return kmc.resample(idata, draws=2000)


def test_draws_have_the_moments_of_the_posterior(many):
    x = many["posterior"]["x"].values
    assert x.shape == (4, 2000, 2)
    mean, sd = TRUTH
    assert np.all(np.abs(x.mean(axis=(0, 1)) - mean) < 0.1 * sd)
    assert np.all(np.abs(x.std(axis=(0, 1)) / sd - 1) < 0.05)
    assert len(np.unique(x.reshape(-1, 2), axis=0)) > 4000


def test_the_distance_is_stated(many):
    attrs = many["posterior"].attrs
    assert 0 <= attrs["total_variation"] <= attrs["total_variation_bound"] < 0.1
    assert "not exact" in attrs["description"]


@pytest.mark.slow
def test_a_surrogate_that_contradicts_the_draws_has_no_bound(idata):
    wrong = tampered(idata)
    with pytest.warns(kmc.KmcWarning, match="The surrogate contradicts the draws"):
        found = kmc.resample(wrong, draws=400, model=kmc.Model(log_density, dim=2))
    assert found["posterior"].attrs["total_variation_bound"] == 1.0


@pytest.mark.slow
def test_parameters_with_names(named):
    found = kmc.resample(named, draws=400)
    assert list(found["posterior"]["a"].coords["site"].values) == ["N", "S"]
    assert found["posterior"]["b"].shape == (4, 400)
    assert found["unconstrained_posterior"]["x"].shape == (4, 400, 3)
    assert abs(float(found["posterior"]["b"].mean()) - 1) < 0.1
    assert not kmc.resample(named, draws=400, seed=1)["posterior"].equals(found["posterior"])


def test_more_draws_than_fit_in_memory_are_refused(idata):
    with pytest.raises(
        ValueError, match=r"draws=1000000000: .* take 60 GiB, .*; expected at most 16777216"
    ):
        kmc.resample(idata, draws=10**9)


def test_bad_arguments(idata):
    with pytest.raises(ValueError, match=r"draws=0"):
        kmc.resample(idata, draws=0)
    with pytest.raises(TypeError, match=r"result=int: expected what kmc.sample returned"):
        kmc.resample(3)


@pytest.mark.slow
def test_several_modes_of_a_density_with_a_large_constant():
    """The masses of the modes would be zero without their largest one."""
    eye, rng = np.eye(2), np.random.default_rng(1)
    gaussians = [gaussian_state(np.full(2, center), constant=-2000.0) for center in (-6.0, 6.0)]
    density = Density(
        tuple(Component(IDENTITY, Whitening(np.zeros(2), eye, eye), state) for state in gaussians)
    )
    x, y = rng.standard_normal((2, 4, 100, 2)) + rng.choice([-6.0, 6.0], (2, 4, 100, 1))
    values = (density.log_density(points.reshape(-1, 2)).reshape(4, 100) for points in (x, y))
    at_x, at_y = values
    moves = np.full((4, 100), MOVES.index("surrogate"))
    replicate = Replicate(x, at_x, y, at_y, moves, density)
    points, _, _ = _of_replicate(replicate, 400, np.random.SeedSequence(1))
    assert abs(np.mean(points[:, 0] > 0) - 0.5) < 4 * np.sqrt(0.25 / 400)
