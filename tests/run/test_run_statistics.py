"""Failures planted in exact draws are detected, and exact draws, also correlated ones, pass."""

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from kmc.run.problems import by_code, problems_of
from kmc.run.run_statistics import FinishedRun, at_both_ends, run_statistics
from kmc.run.run_warnings import WARNINGS

CHAINS, DRAWS, DIM = 4, 500, 4
FACTS = {"surrogate_loo_sd": 0.1, "surrogate_trend_sd": 1.5, "surrogate_metric_spread": 300.0}


def chains(seed, correlation=0.0, draws=DRAWS):
    """Standard normal autoregressive chains, (CHAINS, draws, DIM)."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((CHAINS, draws + 200, DIM)) * np.sqrt(1 - correlation**2)
    return lfilter([1.0], [1.0, -correlation], noise, axis=1)[:, 200:]


def warned(x, acceptance_rate=None, seed=0, independent_runs=2):
    rate = np.full(x.shape[:2], 0.85) if acceptance_rate is None else acceptance_rate
    accepted = np.random.default_rng(seed).random(x.shape[:2]) < rate
    found = run_statistics(
        x, -0.5 * np.sum(x**2, axis=2), rate, accepted=accepted, independent_runs=independent_runs
    )
    return found, set(
        by_code(problems_of(FinishedRun("kernel-hmc", found, [FACTS], x.shape[1], None), WARNINGS))
    )


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_good_draws_have_no_warning(correlation):
    for seed in range(12):
        assert warned(chains(seed, correlation), seed=seed)[1] == set()


def test_slow_chains_do_not_drift_or_disagree():
    """Their standard errors are large."""
    for seed in range(8):
        assert not warned(chains(seed, 0.95, 2000), seed=seed)[1] & {"drift", "runs-disagree"}


def test_probabilities_are_those_of_chance():
    found = [warned(chains(seed))[0] for seed in range(100, 140)]
    # corrected for many columns: at most as frequent as they say
    for name in ("drift", "disagreement"):
        p = 10 ** np.array([row[name] for row in found])
        assert np.mean(p < 0.2) < 0.2 + 3 * np.sqrt(0.2 * 0.8 / len(p))
        assert np.any(p < 0.5)


def test_a_chain_that_comes_from_far_away():
    """Its first draws change a standard deviation by a factor of two, but no rank."""
    x = chains(3)
    x[2, :5] += np.linspace(60.0, 20.0, 5)[:, None]
    found, names = warned(x)
    assert found["burn_in"] == 5 and names == {"burn-in", "few-tail-draws"}
    assert warned(x[:, 5:])[1] == set()


def test_a_mean_that_drifts():
    x = chains(1)
    x[:, :, 2] += np.linspace(0.0, 0.7, DRAWS)
    assert "drift" in warned(x)[1]


def test_a_tail_that_is_found_late():
    x = chains(2)
    early = x[:, : 3 * DRAWS // 5, 1]
    early[early > 1.4] *= -1.0
    found, names = warned(x)
    assert found["drift"] < -4 and "drift" in names


def test_independent_runs_of_which_one_lacks_a_tail():
    x = chains(3)
    second = x[2:, :, 3]
    second[second > 1.3] = 0.0
    assert "runs-disagree" in warned(x)[1] and "drift" not in warned(x)[1]
    assert "runs-disagree" not in warned(x, independent_runs=1)[1]
    assert np.isnan(warned(x, independent_runs=1)[0]["disagreement"])


def test_independent_runs_in_two_modes():
    x = chains(4)
    x[2:] += 6.0
    assert {"runs-disagree", "chains-disagree"} <= warned(x)[1]


def test_proposals_that_fail_in_one_tail():
    x = chains(5)[:, :200]  # with more draws the tails are known in spite of it
    rate = np.full(x.shape[:2], 0.9)
    rate[:, 1:][x[:, :-1, 0] > 1.7] = 0.2
    found, names = warned(x, rate)
    np.testing.assert_allclose(found["tail_acceptance"], 0.2, atol=0.1)
    assert names == {"curved-ridge"}


def test_a_chain_that_stays():
    x = chains(6)
    rate = np.full(x.shape[:2], 0.85)
    rate[2, 100:140] = 0.0
    x[2, 100:140] = x[2, 99]
    found, names = warned(x, rate)
    assert "stuck-chain" in names
    n, rejection = x[..., 0].size, 1 - rate.mean()
    np.testing.assert_allclose(found["stay"], 41 / (np.log(n) / -np.log(rejection)), rtol=0.1)


def test_a_chain_stuck_at_a_quantile_is_in_the_tail():
    """It makes up more than the tail, which therefore is all ties."""
    x = chains(7)
    x[1, 300:] = 3.0
    rate = np.full(x.shape[:2], 0.9)
    rate[1, 300:] = 0.01
    assert warned(x, rate)[0]["tail_acceptance"] < 0.1


def test_slow_chains_have_few_draws_in_their_tails():
    assert "few-tail-draws" in warned(chains(8, 0.99))[1]


@pytest.mark.parametrize("draws", [1, 3, 7, 12])
@pytest.mark.parametrize("n_chains", [1, 2])
def test_short_runs_have_no_warning_of_noise(n_chains, draws):
    found, names = warned(chains(9)[:n_chains, :draws], independent_runs=n_chains)
    assert np.isnan(found["tail_acceptance"]) and names <= {"few-tail-draws"}


def test_a_run_that_never_moved():
    _, names = warned(np.zeros((4, 100, 2)))
    assert "constant-coordinate" in names and not names & {"drift", "runs-disagree"}


def told(y):
    return bool(at_both_ends({"y": (0.0, 1.0)}, {"y": np.reshape(y, (4, -1))}))


@pytest.mark.parametrize("center", [-0.1, -0.02, 0.0, 0.02, 0.1])
@pytest.mark.parametrize("sd", [0.005, 0.02, 0.06, 0.12])
def test_a_mode_across_the_boundary_is_reported(center, sd):
    rng = np.random.default_rng(0)
    expected = abs(center) < 2 * sd  # else one side has next to nothing
    for _ in range(5):
        assert told(rng.normal(center, sd, 2000) % 1.0) == expected


@pytest.mark.parametrize(
    "law",
    [
        stats.uniform(),
        stats.beta(2, 2),
        stats.beta(1, 1.5),
        stats.beta(0.5, 30),
        stats.beta(30, 0.5),
        stats.beta(0.7, 0.7),
        stats.expon(scale=0.05),
        stats.beta(40, 40),
    ],
)
def test_mass_at_one_end_or_everywhere_is_not(law):
    rng = np.random.default_rng(1)
    for _ in range(20):
        y = law.rvs(400, random_state=rng)
        assert not told(np.clip(y, 1e-9, 1 - 1e-9))


def test_two_modes_well_inside_are_not():
    rng = np.random.default_rng(2)
    assert not told(rng.normal(np.repeat([0.06, 0.94], 500), 0.01))


def test_few_draws_say_nothing():
    assert not told(np.random.default_rng(3).normal(0, 0.01, 96) % 1.0)


def test_elements_and_bounds_are_named():
    rng = np.random.default_rng(4)
    values = {"phi": rng.uniform(0, 360, (4, 100, 2)), "p": rng.uniform(0, 1, (4, 100))}
    values["phi"][..., 1] = rng.normal(0, 10, (4, 100)) % 360
    (found,) = at_both_ends({"phi": (0.0, 360.0), "p": (0.0, 1.0)}, values)
    assert found == ("phi[1]", 0.0, 360.0, True)
