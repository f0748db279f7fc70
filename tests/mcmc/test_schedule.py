import numpy as np
import pytest

from kmc.mcmc.base import SamplerSetup
from kmc.mcmc.schedule import Round, Schedule

GROWTH, EARLIEST, SETTLE, FIRST = 1.2, 1500, 15, 120
LENGTH = {"refit_growth": GROWTH, "earliest": EARLIEST, "post_freeze_burn_in": SETTLE}


def problem(max_evaluations=None, draws=1000, warmup=None, chains=4):
    start = np.zeros((chains, 2))
    return SamplerSetup(2, chains, start, np.zeros(chains), draws, warmup, max_evaluations, np.random.SeedSequence(0))


def schedule(first_fit=FIRST, **options):
    return Schedule.of(problem(**options), first_fit=first_fit, **LENGTH)


def good():
    return Round(cold=[1.0] * 10, hot=[1.0] * 10, n_points=100)


def bad(acceptance=0.1):
    return Round(cold=[acceptance] * 10, hot=[acceptance] * 10, n_points=100)


def end(plan, rounds, settled_at=0):
    """Drive a schedule one evaluation at a time: the counts at which it fits, and the one at which warm-up ends."""
    fits = []
    for n in range(1, 100_000):
        if plan.due(n):
            fits.append(n)
            if plan.finish(n, rounds(len(fits)), settled_at):
                return fits, n
        if plan.exhausted(0, n):
            return fits, n
    raise AssertionError("warm-up does not end")


def test_fits_come_at_growing_counts():
    fits, _ = end(schedule(max_evaluations=20_000), lambda _: bad())
    assert fits[0] == FIRST
    ratios = np.array(fits[1:]) / fits[:-1]
    assert np.all(ratios < GROWTH + 0.01)  # never later than the growth says,
    assert len(fits) < 3 + np.log(10_000 / FIRST) / np.log(GROWTH) + 3  # and sooner only to meet the three limits


def test_two_good_rounds_end_it_once_it_has_seen_enough():
    _, n = end(schedule(max_evaluations=20_000), lambda _: good())
    assert n == EARLIEST


def test_good_rounds_must_follow_each_other():
    late = 8  # from there on all rounds are good
    fits, n = end(schedule(max_evaluations=200_000), lambda k: good() if k >= late or k % 2 else bad())
    assert n == fits[-1] >= EARLIEST
    _, alternating = end(schedule(max_evaluations=200_000), lambda k: good() if k % 2 else bad())
    assert alternating >= 200_000 // 3  # where one good round is enough


def test_a_third_of_the_budget_is_enough_if_it_passes():
    _, n = end(schedule(max_evaluations=9000), lambda _: bad(0.45))
    assert n == 3000


@pytest.mark.parametrize(("rounds", "otherwise"), [(good(), EARLIEST), (bad(0.45), 3000)], ids=["good", "passable"])
def test_warm_up_lasts_twice_as_long_as_it_took_to_settle(rounds, otherwise):
    for settled_at in (otherwise // 3, 1700, 2000):
        _, n = end(schedule(max_evaluations=9000), lambda _: rounds, settled_at)
        assert max(otherwise, 2 * settled_at) <= n < max(otherwise, 2 * settled_at) * GROWTH + 1
    _, n = end(schedule(max_evaluations=9000), lambda _: rounds, 4000)
    assert n == 4500


@pytest.mark.parametrize("budget", [100, 1000, 6000, 60_000])
def test_half_of_the_budget_is_the_end(budget):
    _, n = end(schedule(max_evaluations=budget), lambda _: bad())
    assert n == budget // 2
    _, never_fitted = end(schedule(10**9, max_evaluations=budget), lambda _: bad())
    assert never_fitted == budget // 2


@pytest.mark.parametrize("budget", [600, 3000])
def test_a_small_budget_lowers_the_least_length(budget):
    _, n = end(schedule(max_evaluations=budget), lambda _: good())
    assert n == budget // 3


def test_without_a_budget_the_draws_set_one():
    _, n = end(schedule(draws=5000), lambda _: bad())
    assert n == 5000 * 4
    _, n = end(schedule(draws=10), lambda _: bad())
    assert n >= EARLIEST


def test_warm_up_sweeps_given_by_the_user_decide_alone():
    plan = schedule(max_evaluations=6000, warmup=500)
    for n in range(1, 20_000, 50):
        assert not (plan.due(n) and plan.finish(n, good(), 0))
    assert not plan.exhausted(500 - SETTLE - 1, 6000)
    assert plan.exhausted(500 - SETTLE, 1)


@pytest.mark.parametrize("warmup", [0, 3, SETTLE])
def test_a_short_warm_up_is_over_at_once(warmup):
    assert schedule(warmup=warmup).exhausted(0, 1)


# Rounds


def test_a_good_round():
    assert good().good() and not bad().good() and not Round().good()


@pytest.mark.parametrize(
    "spoilt",
    [
        Round(cold=[0.2] * 10, hot=[1.0] * 10, n_points=100),
        Round(cold=[1.0] * 10, hot=[0.2] * 10, n_points=100),
        Round(cold=[1.0] * 10, n_points=100, low=10),
        Round(cold=[1.0] * 10, n_points=100, probes=10, surprises=5),
        Round(hot=[1.0] * 10, n_points=100),
    ],
    ids=["cold", "hot", "low", "surprises", "nothing cold"],
)
def test_one_flaw_spoils_a_round(spoilt):
    assert not spoilt.good()


def test_the_acceptance_of_a_round_is_the_mean_over_all_runs():
    assert Round(cold=[1.0, 0.0], hot=[0.5, 0.5]).acceptance() == 0.5
    assert np.isnan(Round().acceptance())


def test_noise_is_allowed_for():
    """Noise of one nat lets 48 % of proposals through at best, and moves values by more than two nats now and then."""
    half = Round(cold=[0.4] * 10, hot=[0.3] * 10, n_points=100, noise_sd=1.0)
    assert half.good() and half.acceptance() == pytest.approx(0.35 / 0.4795, abs=1e-3)
    assert not Round(cold=[0.4] * 10, hot=[0.3] * 10, n_points=100).good()
    assert not Round(cold=[0.2] * 10, hot=[0.2] * 10, n_points=100, noise_sd=1.0).good()
    assert Round().surprising == 2.0 and Round(noise_sd=1.0).surprising == pytest.approx(8**0.5)
