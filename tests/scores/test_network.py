import numpy as np
import pytest

from kmc.scores.network import Denoiser, Network, flatten, initial, loss, unflatten
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
    value, _ = loss(flatten(denoiser.network, denoiser.tied), CORRUPTED, CLEAN, WEIGHTS, denoiser.tied)
    assert value == pytest.approx(oracle.loss(CORRUPTED, CLEAN, WEIGHTS, *denoiser.network), rel=1e-13)


def test_the_gradient_of_the_loss_is_its_finite_difference(denoiser):
    parameters = flatten(denoiser.network, denoiser.tied)
    value, slope = loss(parameters, CORRUPTED, CLEAN, WEIGHTS, denoiser.tied)
    expected = differences.gradient(
        lambda p: oracle.loss(CORRUPTED, CLEAN, WEIGHTS, *unflatten(p, DIM, denoiser.tied)), parameters
    )
    np.testing.assert_allclose(slope, expected, atol=1e-10 * value)


def test_blocks_of_rows_do_not_matter(denoiser):
    parameters = flatten(denoiser.network, denoiser.tied)
    copies = 200  # 1400 rows, more than a block
    once = loss(parameters, CORRUPTED, CLEAN, WEIGHTS, denoiser.tied)
    repeated = (np.tile(CORRUPTED, (copies, 1)), np.tile(CLEAN, (copies, 1)), np.tile(WEIGHTS / copies, copies))
    many = loss(parameters, *repeated, denoiser.tied)
    assert many[0] == pytest.approx(once[0], rel=1e-12)
    np.testing.assert_allclose(many[1], once[1], rtol=1e-10, atol=1e-12 * once[0])


def test_parameters_go_there_and_back(denoiser):
    parameters = flatten(denoiser.network, denoiser.tied)
    assert len(parameters) == (HIDDEN * (DIM + 1) if denoiser.tied else HIDDEN * (2 * DIM + 1)) + DIM
    for array, back in zip(denoiser.network, unflatten(parameters, DIM, denoiser.tied)):
        np.testing.assert_array_equal(array, back)


def test_the_field_is_the_reconstruction_error(denoiser):
    expected = [oracle.score(x, NOISE, CENTER, SCALE, *denoiser.network) for x in CLEAN]
    np.testing.assert_allclose(denoiser.gradient(CLEAN), expected, rtol=1e-12)


def test_the_laplacian_is_the_divergence_of_the_field(denoiser):
    divergence = sum(differences.gradients(lambda x, i=i: denoiser.gradient(x)[:, i], CLEAN)[:, i] for i in range(DIM))
    np.testing.assert_allclose(denoiser.laplacian(CLEAN), divergence, atol=1e-9)


def test_tied_weights_have_a_density():
    tied = Denoiser(network(True), CENTER, SCALE, NOISE, True)
    encoder, code_bias, _, bias = tied.network
    expected = [oracle.log_density(x, NOISE, CENTER, SCALE, encoder, code_bias, bias) for x in CLEAN]
    np.testing.assert_allclose(tied.log_density(CLEAN), expected, rtol=1e-12)
    np.testing.assert_allclose(tied.gradient(CLEAN), differences.gradients(tied.log_density, CLEAN), atol=1e-10)


def test_far_away_the_density_of_tied_weights_does_not_overflow():
    """cosh overflows at 710; there log cosh(u) is |u| - log 2."""
    tied = Denoiser(network(True), CENTER, SCALE, NOISE, True)
    values = tied.log_density(np.array([[1e4, -1e4, 0.0], [1e8, 1e8, 1e8]]))
    assert np.all(np.isfinite(values)) and np.all(values < -1e8)


def test_untied_weights_have_none():
    with pytest.raises(ValueError, match=r"tied=False is not a gradient.*tied=True"):
        Denoiser(network(False), CENTER, SCALE, NOISE, False).log_density(CLEAN)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("dim", "n_hidden"), [(1, 1), (2, 100), (30, 5)])
def test_initial_weights_neither_saturate_nor_stretch(dim, n_hidden, tied):
    """White points give codes of about one and come back no longer than a few times their length."""
    x = RNG.standard_normal((200, dim))
    lengths = []
    for seed in range(20):
        start = initial(dim, n_hidden, tied, np.random.default_rng(seed))
        assert np.median(np.abs(x @ start.encoder.T)) < 2.0
        lengths.append(np.mean((start.code(x) @ start.decoder.T) ** 2) / np.mean(x**2))
    assert np.mean(lengths) < 3.0
