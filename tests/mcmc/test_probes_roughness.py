import numpy as np
import pytest

import kmc
from kmc.mcmc.probes import Pairs, close_pairs, is_unexplained, roughness_sd
from kmc.mcmc.surrogate_trainer import SurrogateTrainer
from kmc.surrogates import FitOptions, fit_surrogate

HEIGHT = 1.0
BUMPS = HEIGHT / np.sqrt(2)  # their sd


def smooth(x):
    """A ridge that bends too fast for a few wide kernels."""
    return -0.5 * np.sum(x**2, axis=-1) + 1.5 * np.sin(2.5 * x[..., 0])


def rough(x):
    """Bumps of a quarter of a sd in length: far shorter than what a surrogate of so few values can follow."""
    return -0.5 * np.sum(x**2, axis=-1) + HEIGHT * np.sin(25 * x.sum(axis=-1) / np.sqrt(x.shape[-1]))


def fitted(density, rng, n=250, **options):
    x = 1.2 * rng.standard_normal((n, 3))
    surrogate = fit_surrogate(x, density(x), x, rng=rng, options=FitOptions(bandwidths=(7.0,), n_basis=20), **options)
    return surrogate, x


def estimate(density, seed):
    rng = np.random.default_rng(seed)
    surrogate, x = fitted(density, rng)
    assert is_unexplained(surrogate)
    pairs = close_pairs(surrogate, x, density(x), rng=rng)
    return roughness_sd(pairs, density(pairs.close), surrogate.loo_sd), surrogate.loo_sd


def test_bumps_are_roughness():
    """The standard error of a sd from the median of 16 differences is about a quarter of it."""
    found = [estimate(rough, seed)[0] for seed in range(8)]
    assert min(found) > 0.0
    assert np.mean(found) == pytest.approx(BUMPS, abs=3 * 0.25 * BUMPS / np.sqrt(8))


def test_a_smooth_misfit_is_not():
    for seed in range(8):
        sd, missed = estimate(smooth, seed)
        assert missed > 0.4 and sd == 0.0


def test_close_points_are_close_and_predicted():
    rng = np.random.default_rng(1)
    surrogate, x = fitted(rough, rng)
    pairs = close_pairs(surrogate, x, rough(x), rng=np.random.default_rng(3))
    rows = np.random.default_rng(3).choice(len(x), len(pairs.close), replace=False)
    distances = np.linalg.norm(surrogate.coordinates(pairs.close) - surrogate.coordinates(x[rows]), axis=1)
    assert np.all(np.min(np.abs(distances[:, None] - [0.2, 0.1, 0.05, 0.02]), axis=1) < 1e-12)
    np.testing.assert_allclose(pairs.error, rough(x[rows]) - surrogate.log_density(x[rows]))
    np.testing.assert_allclose(pairs.predicted, surrogate.log_density(pairs.close))


def test_too_few_finite_values_tell_nothing():
    pairs = Pairs(np.zeros((16, 1)), np.zeros(16), np.zeros(16))
    values = np.where(np.arange(16) % 2, 1.0, -np.inf)
    assert roughness_sd(pairs, values, 1.0) > 0.0  # eight
    values[1] = np.nan
    assert roughness_sd(pairs, values, 1.0) == 0.0


def test_a_known_roughness_is_no_error():
    rng = np.random.default_rng(2)
    surrogate, _ = fitted(rough, rng, roughness_sd=0.5)
    assert surrogate.noise_sd == 0.5 and surrogate.error_sd == pytest.approx(np.sqrt(surrogate.loo_sd**2 - 0.25))


@pytest.mark.parametrize("noisy", [False, True])
def test_pairs_are_for_exact_values_and_not_for_short_histories(noisy):
    rng = np.random.default_rng(4)
    surrogate, x = fitted(rough, rng)
    trainer = SurrogateTrainer(3, FitOptions(), max_archive=100, rng=rng, noisy=noisy)
    trainer.history.extend(x, rough(x))
    assert trainer.close_pairs(surrogate) is None  # too few
    more = 1.2 * rng.standard_normal((700, 3))
    trainer.history.extend(more, rough(more))
    assert (trainer.close_pairs(surrogate) is None) == noisy


@pytest.mark.slow
def test_a_run_names_the_roughness():
    sampler = kmc.KernelHMC(fit=FitOptions(bandwidths=(2.0, 7.0), n_basis=40))
    with pytest.warns(kmc.KmcWarning, match="is rough"):
        idata = kmc.sample(rough, dim=2, sampler=sampler, seed=1, max_evaluations=1600, draws=None, progress=False)
    assert idata.attrs["roughness_sd"] == pytest.approx(BUMPS, abs=3 * 0.25 * BUMPS)
    assert "rough-values" in idata.attrs["warning_codes"]
