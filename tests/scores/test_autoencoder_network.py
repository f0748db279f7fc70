import numpy as np
import pytest

from kmc.scores.autoencoder import Denoiser, Network, flatten, loss, unflatten
from tests.oracles import autoencoder as oracle
from tests.oracles import differences

RNG = np.random.default_rng(0)
DIM, HIDDEN = 3, 4
CENTER, SCALE, NOISE = np.array([0.5, -1.0, 2.0]), 1.7, 0.4
CLEAN = RNG.standard_normal((7, DIM))
CORRUPTED = CLEAN + 0.3 * RNG.standard_normal((7, DIM))
WEIGHTS = RNG.random(7)


def network(tied):
    encoder = RNG.standard_normal((HIDDEN, DIM))
    decoder = encoder.T if tied else RNG.standard_normal((DIM, HIDDEN))
    return Network(encoder, RNG.standard_normal(HIDDEN), decoder, RNG.standard_normal(DIM))


@pytest.fixture(params=[False, True], ids=["untied", "tied"])
def denoiser(request):
    return Denoiser(network(request.param), CENTER, SCALE, NOISE, request.param)


def test_the_loss_is_the_definition(denoiser):
    value, _ = loss(
        flatten(denoiser.network, denoiser.tied), CORRUPTED, CLEAN, WEIGHTS, denoiser.tied
    )
    assert value == pytest.approx(
        oracle.loss(CORRUPTED, CLEAN, WEIGHTS, *denoiser.network), rel=1e-13
    )


def test_the_gradient_of_the_loss_is_its_finite_difference(denoiser):
    parameters = flatten(denoiser.network, denoiser.tied)
    value, slope = loss(parameters, CORRUPTED, CLEAN, WEIGHTS, denoiser.tied)
    expected = differences.gradient(
        lambda p: oracle.loss(CORRUPTED, CLEAN, WEIGHTS, *unflatten(p, DIM, denoiser.tied)),
        parameters,
    )
    np.testing.assert_allclose(slope, expected, atol=1e-10 * value)


def test_tied_weights_have_a_density():
    tied = Denoiser(network(True), CENTER, SCALE, NOISE, True)
    encoder, code_bias, _, bias = tied.network
    expected = [
        oracle.log_density(x, NOISE, CENTER, SCALE, encoder, code_bias, bias) for x in CLEAN
    ]
    np.testing.assert_allclose(tied.log_density(CLEAN), expected, rtol=1e-12)
    np.testing.assert_allclose(
        tied.gradient(CLEAN), differences.gradients(tied.log_density, CLEAN), atol=1e-10
    )


def test_far_away_the_density_of_tied_weights_does_not_overflow():
    """cosh overflows at 710; there log cosh(u) is |u| - log 2."""
    tied = Denoiser(network(True), CENTER, SCALE, NOISE, True)
    values = tied.log_density(np.array([[1e4, -1e4, 0.0], [1e8, 1e8, 1e8]]))
    assert np.all(np.isfinite(values)) and np.all(values < -1e8)
