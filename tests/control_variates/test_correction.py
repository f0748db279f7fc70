"""Corrected expectations are right for any surrogate, and their stated errors are correct."""

import numpy as np
import pytest
from scipy.signal import lfilter

from kmc.control_variates import correction
from kmc.control_variates.correction import corrected
from kmc.control_variates.estimate import mass_gap
from kmc.control_variates.replicate import Transitions
from kmc.convergence import squared_error
from tests.control_variates.synthetic import FalseMode, Flat, Normal, Truncated, Wavy, chains

TRUTH = np.array([0.0, 1.0])
CHAINS, N, REPEATS = 4, 300, 60


def powers(x):
    return np.stack([x, x**2], axis=-1)


def runs_of(surrogate, repeats, noise=0.0, biased=False, share=0.9, n=N):
    """Transitions, states and proposals of several runs."""
    rng = np.random.default_rng(5)
    columns = chains(surrogate, rng, repeats * CHAINS, n, share, noise)
    for x, y, runs, at_x, at_y in zip(
        *(np.split(column, repeats) for column in columns), strict=True
    ):
        runs = np.ones_like(runs) if biased else runs
        yield (
            Transitions.of(at_x - surrogate.log_density(x), at_y - surrogate.log_density(y), runs),
            x,
            y,
        )


def estimates(surrogate, repeats=REPEATS, swapped=False, **options):
    """Means of x and x² (repeats, 2), their errors, and the plain ones."""
    found = []
    for pairs, x, y in runs_of(surrogate, repeats, **options):
        if swapped:
            pairs = Transitions(-pairs.start, -pairs.end, pairs.run, -pairs.shift)
        controls = powers(x) - surrogate.moments, powers(y) - surrogate.moments
        result = corrected(pairs, (powers(x), powers(y)), controls, [[[0], [0, 1]], [[1], [0, 1]]])
        found.append((result.mean, np.sqrt(result.squared_error), powers(x).mean(axis=(0, 1))))
    return (np.array(part) for part in zip(*found, strict=True))


def bias(means):
    """In standard errors of the mean over repeats."""
    return (means - TRUTH).mean(axis=0) / (means.std(axis=0, ddof=1) / np.sqrt(len(means)))


@pytest.mark.parametrize(
    ("surrogate", "noise"),
    [
        (Normal(mean=0.3, constant=5.0), 0.0),
        (Normal(sd=1.3), 0.0),
        (Wavy(), 0.0),
        (Normal(mean=0.2), 0.5),
    ],
    ids=["tilted", "wide", "wavy", "noisy values"],
)
def test_a_wrong_surrogate_gives_no_bias_and_less_error(surrogate, noise):
    means, errors, plain = estimates(surrogate, noise=noise)
    assert np.all(np.abs(bias(means)) < 4)
    rms, plain_rms = (np.sqrt(np.mean((part - TRUTH) ** 2, axis=0)) for part in (means, plain))
    assert np.all(rms < plain_rms)
    off = np.abs(means - TRUTH) / errors
    assert np.mean(off < 1.96) >= 0.85
    assert 0.5 <= np.mean(off < 1.0) <= 0.85


def test_a_close_surrogate_is_worth_many_draws():
    means, _, plain = estimates(Wavy(0.01), repeats=10)
    gain = np.mean((plain - TRUTH) ** 2, axis=0) / np.mean((means - TRUTH) ** 2, axis=0)
    assert np.all(gain > 300)


@pytest.mark.parametrize(
    "surrogate",
    [Normal(mean=0.2, constant=5.0), Normal(sd=1.2), Wavy()],
    ids=["tilted", "wide", "wavy"],
)
def test_a_hundred_draws_give_no_bias_and_honest_errors(surrogate):
    means, errors, plain = estimates(surrogate, repeats=120, n=25)
    assert np.all(np.abs(bias(means)) < 4)
    rms, plain_rms = (np.sqrt(np.mean((part - TRUTH) ** 2, axis=0)) for part in (means, plain))
    assert np.all(rms < plain_rms)
    assert np.mean(np.abs(means - TRUTH) / errors < 1.96) >= 0.85


def test_chains_whose_means_differ_have_the_error_of_their_spread():
    """Rare draws that the surrogate misses, in one chain: autocovariances hardly show them."""
    series = np.random.default_rng(2).standard_normal((CHAINS, 110, 1))
    series[1, ::14] += 10.0
    means = series.mean(axis=(1, 2))
    assert np.isclose(correction.stated(series)[0], means.var(ddof=1) / CHAINS)
    assert correction.stated(series)[0] > 1.5 * squared_error(series)[0]
    assert np.isclose(correction.stated(series[:1])[0], squared_error(series[:1])[0], rtol=0.5)


def test_few_draws_need_no_coefficients(monkeypatch):
    """With a close surrogate they would be what limits the precision."""
    surrogate, rms = Wavy(0.01), []
    for few in (correction.FEW, 0):
        monkeypatch.setattr(correction, "FEW", few)
        means, errors, _ = estimates(surrogate, n=25)
        rms.append(np.sqrt(np.mean((means - TRUTH) ** 2, axis=0)))
        assert np.mean(np.abs(means - TRUTH) / errors < 1.96) >= 0.85
    assert np.all(rms[0] < 0.5 * rms[1])


@pytest.mark.parametrize(
    ("surrogate", "most"), [(Truncated(), 1.1), (Flat(), 1.5)], ids=["truncated", "constant"]
)
def test_a_bad_surrogate_gives_no_bias_and_hardly_more_error(surrogate, most):
    """One with a false mode would: pairs with both ends there are never drawn. So it has to be
    noticed (below).
    """
    means, _, plain = estimates(surrogate)
    assert np.all(np.abs(bias(means)) < 4)
    rms, plain_rms = (np.sqrt(np.mean((part - TRUTH) ** 2, axis=0)) for part in (means, plain))
    assert np.all(rms < most * plain_rms)


@pytest.mark.parametrize(
    "mutation",
    [{"swapped": True}, {"biased": True, "share": 0.5}],
    ids=["s and p swapped", "other proposals taken for s"],
)
def test_a_mutation_is_seen(mutation):
    means, _, _ = estimates(Normal(mean=0.3), **mutation)
    assert np.abs(bias(means)).max() > 4


def test_a_tempered_surrogate_has_other_means():
    """Effect of a wrong mean under the surrogate, such as one without a Jacobian: the controls are
    not centered.
    """
    surrogate = Normal(mean=0.3)
    (pairs, x, y), *_ = runs_of(surrogate, 1)
    wrong = np.array([0.0, 1.0])
    found = corrected(
        pairs, (powers(x), powers(y)), (powers(x) - wrong, powers(y) - wrong), [[[0]], [[1]]]
    )
    assert np.abs(found.disagreement).max() > 5
    right = corrected(
        pairs,
        (powers(x), powers(y)),
        (powers(x) - surrogate.moments, powers(y) - surrogate.moments),
        [[[0]], [[1]]],
    )
    assert np.abs(right.disagreement).max() < 4


def test_mass_that_the_target_does_not_have_shows():
    for surrogate in (FalseMode(), Flat()):
        (pairs, x, y), *_ = runs_of(surrogate, 1)
        controls = powers(x) - surrogate.moments, powers(y) - surrogate.moments
        found = corrected(pairs, (powers(x), powers(y)), controls, [[], []])
        assert np.abs(found.disagreement).max() > 5
        np.testing.assert_allclose(found.mean, powers(x).mean(axis=(0, 1)), rtol=0, atol=1e-12)
    gap, se = mass_gap(next(runs_of(FalseMode(), 1))[0])
    assert gap < -4 * se


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_the_ratio_of_the_masses(noise):
    surrogate = Normal(mean=0.3, sd=1.2, constant=7.0)
    found, stated = [], []
    for pairs, _, _ in runs_of(surrogate, 30, noise=noise):
        mean, series = pairs.ratio()
        assert abs(series.mean()) < 1e-12
        found.append(np.log(mean) - pairs.shift)
        stated.append(np.sqrt(squared_error(series[..., None])[0]) / mean)
    gap, se = mass_gap(pairs)
    assert abs(gap) < max(5 * se, 0.02)
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - (7.0 - 0.5 * np.log(2 * np.pi))) < 4 * error
    assert error < 0.01
    assert 0.65 < np.sqrt(np.mean(np.square(stated))) / np.std(found, ddof=1) < 1.5


def test_the_ratio_does_not_vary_with_the_number_of_pairs():
    """A perfect surrogate has the same ratio at all pairs, and no error, whichever sweeps have
    other moves.
    """
    run = np.random.default_rng(1).random((4, 300)) < 0.8
    mean, series = Transitions.of(np.full(run.shape, 3.0), np.full(run.shape, 3.0), run).ratio()
    assert mean == pytest.approx(1.0) and np.abs(series).max() < 1e-12


def test_the_error_of_an_autocorrelated_mean():
    rng = np.random.default_rng(1)
    series = np.empty((200, 4, 500, 2))
    noise = rng.standard_normal(series.shape)
    series[:, :, 0] = noise[:, :, 0]
    for t in range(1, 500):
        series[:, :, t] = [0.8, -0.4] * series[:, :, t - 1] + noise[:, :, t] * np.sqrt(
            [1 - 0.8**2, 1 - 0.4**2]
        )
    claimed = np.mean([squared_error(part) for part in series], axis=0)
    actual = series.mean(axis=(1, 2)).var(axis=0)
    np.testing.assert_allclose(claimed, actual, rtol=0.3)


def test_the_choice_of_controls_does_not_make_errors_too_small():
    """Of ten that are equally good, the one with the smallest estimated error: with it errors are
    0.6 of the true ones.

    Series are autocorrelated, so that their errors are hardly known.
    """
    rng, found = np.random.default_rng(3), []
    for _ in range(150):
        parts = lfilter([1.0], [1.0, -0.8], rng.standard_normal((CHAINS, 210, 11)), axis=1)[:, 100:]
        x = parts[..., :1]
        equal = np.zeros(x.shape[:2])
        pairs, controls = (
            Transitions.of(equal, equal, np.ones(x.shape[:2], bool)),
            x - parts[..., 1:],
        )
        result = corrected(pairs, (x, x), (controls, controls), [[[j] for j in range(10)]])
        found.append((result.mean[0] ** 2, result.squared_error[0]))
    actual, claimed = np.mean(found, axis=0)
    assert 0.75 < claimed / actual < 1.6


def test_means_that_are_hardly_known_are_hardly_used():
    surrogate, plain_errors, errors, claimed = Wavy(0.01), [], [], []
    rng = np.random.default_rng(2)
    for pairs, x, y in runs_of(surrogate, 60):
        known = surrogate.moments + 0.2 * rng.standard_normal(2)
        controls = powers(x) - known, powers(y) - known
        sets = [[[0]], [[1]]]
        found = corrected(pairs, (powers(x), powers(y)), controls, sets, 0.04 * np.eye(2))
        errors.append(found.mean - TRUTH)
        plain_errors.append(powers(x).mean(axis=(0, 1)) - TRUTH)
        claimed.append(found.squared_error / correction.stated(powers(x)))
    assert np.all(np.mean(claimed, axis=0) < 1.0)
    assert np.all(
        np.mean(np.square(errors), axis=0) < 1.05 * np.mean(np.square(plain_errors), axis=0)
    )


def test_errors_include_what_the_draws_may_have_missed():
    """The surrogate lacks three quarters of the highest 1 % of a uniform target, which 120 draws
    often miss.
    """
    rng = np.random.default_rng(6)

    def log_ratio(u):
        return np.where(u > 0.99, np.log(4.0), 0.4 * np.sin(40.0 * u))

    grid = (np.arange(100_000) + 0.5) / 100_000
    weights = np.exp(-log_ratio(grid))
    weights /= weights.sum()
    expected = weights @ (grid <= 0.95)
    z = []
    for _ in range(400):
        x, y = rng.random((CHAINS, 30)), rng.choice(grid, (CHAINS, 30), p=weights)
        below = [(u <= 0.95).astype(float)[..., None] for u in (x, y)]
        controls = below[0] - expected, below[1] - expected
        pairs = Transitions.of(log_ratio(x), log_ratio(y), np.ones(x.shape, bool))
        found = corrected(pairs, tuple(below), controls, [[[0]]])
        if found.squared_error[0] > 0.0:
            z.append((found.mean[0] - 0.95) / np.sqrt(found.squared_error[0]))
    assert np.mean(np.abs(z) > 3.5) < 0.02
