import numpy as np
import pytest

from kmc.surrogates import FitOptions, fit_surrogate
from kmc.surrogates.noise import (
    attainable_acceptance,
    estimate_noise_sd,
)
from kmc.targets.toys import Banana, Gaussian
from tests.grids import slow_except


def history(target, n, sd, seed=0):
    """Points around draws, log-densities there, and estimates of them."""
    rng = np.random.default_rng(seed)
    x = target.sample(rng, n)
    x = x + x.std(0) * rng.standard_normal(x.shape) * rng.choice([0.0, 0.3], (n, 1))
    exact = np.array([target(row) for row in x])
    return x, exact, exact + sd * rng.standard_normal(n) - 0.5 * sd**2


def fitted(x, y, seed=1, **options):
    return fit_surrogate(
        x, y, x[::4], rng=np.random.default_rng(seed), options=FitOptions(n_basis=100, **options), noisy=True
    )


@pytest.mark.parametrize("sd", [0.0, 0.7, 1.0, 2.0])
def test_acceptance_that_noise_allows(sd):
    """Fresh noise N(-v/2, v), and N(+v/2, v) at a stationary state: 100,000 pairs leave a standard error of .0015."""
    rng = np.random.default_rng(3)
    kept, fresh = (rng.normal(0.5 * sign * sd**2, sd, 100_000) for sign in (1, -1))
    assert attainable_acceptance(sd) == pytest.approx(np.mean(np.exp(np.minimum(fresh - kept, 0.0))), abs=0.006)


def test_noise_is_told_from_a_smooth_error():
    """Least squares on a constant: what it misses is smooth, and larger than the noise."""
    rng = np.random.default_rng(5)
    u, weights = rng.random((2000, 2)), np.full(2000, 1 / 2000)
    y = 2.0 * np.sin(3.0 * u[:, 0]) + 0.5 * rng.standard_normal(2000)
    inside = y - y.mean()
    left_out = inside / (1 - 1 / 2000)
    assert np.std(y) > 0.7
    assert estimate_noise_sd(u, inside=inside, left_out=left_out, weights=weights) == pytest.approx(0.5, rel=0.08)


@pytest.mark.parametrize("sd", slow_except([0.5, 1.0, 3.0], {1.0}))
@pytest.mark.parametrize("target", slow_except({"banana": Banana(2, 0.03), "gaussian": Gaussian(4)}, {"banana"}))
def test_noise_sd_and_the_density_under_it(target, sd):
    """The fit misses fresh points by a small part of the noise, up to the constant that the noise adds."""
    x, _, y = history(target, 1200, sd)
    surrogate = fitted(x, y)
    assert surrogate.noise_sd == pytest.approx(sd, rel=0.1)
    assert surrogate.error_sd < 0.5 * sd
    fresh = target.sample(np.random.default_rng(6), 1000)
    error = surrogate.log_density(fresh) - [target(row) for row in fresh]
    assert np.mean(np.abs(error - np.median(error))) < 0.3 * sd


def test_exact_values_are_found_to_be_exact():
    x, exact, _ = history(Banana(2, 0.03), 600, 0.0)
    assert fitted(x, exact).noise_sd < 0.05


def test_luck_is_not_depth():
    """One estimate that is seven nats too high (by Markov's inequality one in e⁷ at most), and the depths of others."""
    x, exact, y = history(Banana(2, 0.03), 800, 1.0)
    lucky = y.copy()
    at = int(np.argsort(exact)[400])
    lucky[at] += 7.0
    before, after = fitted(x, y), fitted(x, lucky)
    assert before.top == pytest.approx(exact.max() - 0.5, abs=0.5)
    assert lucky.max() - y.max() > 2.0 and abs(after.top - before.top) < 0.7
    draws = Banana(2, 0.03).sample(np.random.default_rng(8), 1000)
    change = after.log_density(draws) - before.log_density(draws)
    assert np.mean(np.abs(change - np.median(change))) < 0.25


def test_equal_points_are_all_kept():
    """Estimates at one point are independent: none of them is thrown away, as it is for exact values."""
    x, _, y = history(Gaussian(2), 200, 1.0)
    rng = np.random.default_rng(7)
    again = np.concatenate([y, y + rng.standard_normal(200)])
    assert fitted(np.vstack([x, x]), again).n_values == 400
    exact = fit_surrogate(np.vstack([x, x]), np.concatenate([y, y]), x, rng=rng, options=FitOptions(n_basis=50))
    assert exact.n_values == 200


def test_zero_density_is_legal():
    x, _, y = history(Gaussian(2), 400, 1.0)
    y[::5] = -np.inf
    surrogate = fitted(x, y)
    assert np.isfinite(surrogate.top) and np.isfinite(surrogate.log_density(x)).all()
