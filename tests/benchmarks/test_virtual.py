"""Workers in virtual time: prices decide when values arrive, never what they are."""

import numpy as np
import pytest
from virtual import Several, Workers, constant, lognormal

import kmc

POINTS = np.arange(6.0)[:, None]


def square(x):
    return -float(x[0] ** 2)


def test_a_batch_waits_for_the_slowest():
    workers = Workers(2, lambda x: float(x[0]), own=0.0)
    with workers.open(kmc.Model(square, dim=1)):
        assert [outcome.value for outcome in workers(POINTS[1:4])] == [-1.0, -4.0, -9.0]
    assert workers.clock == 4.0  # 1 and then 3, beside 2
    assert workers.share() == 6.0 / 8.0
    assert workers.share(2.0) == 2.0 / 4.0


def test_several_pools_evaluate_once():
    calls, pools = [], [Workers(count, lambda x: float(x[0]), own=0.0) for count in (1, 2, 8)]

    def noted(x):
        calls.append(x)
        return square(x)

    for points in (POINTS[1:4], POINTS[:1]):
        assert Several(pools).map(noted, points) == [square(x) for x in points]
    assert len(calls) == 4
    assert [pool.clock for pool in pools] == [6.0, 4.0, 3.0]


def test_values_arrive_one_by_one_in_the_order_of_their_ends():
    workers = Workers(2, lambda x: float(x[0]), own=0.0)
    arrived = []
    with workers.open(kmc.Model(square, dim=1)):
        for key in (5, 1, 3):
            workers.submit(key, POINTS[key])
        while len(arrived) < 3:
            arrived += [(key, workers.clock) for key, _ in workers.ready()]
    assert arrived == [(1, 1.0), (3, 4.0), (5, 5.0)]


def test_a_price_belongs_to_its_point():
    price = lognormal(2.0)
    prices = np.array([price(x) for x in np.linspace(0, 1, 4000)[:, None]])
    assert price(np.array([0.0])) == prices[0] and constant(2.0)(POINTS[0]) == 2.0
    assert np.log(prices).std() == pytest.approx(1.0, abs=5 / np.sqrt(8000))
    assert np.log(prices).mean() == pytest.approx(np.log(2.0) - 0.5, abs=5 / np.sqrt(4000))


def test_the_time_of_the_sampler_itself_counts():
    workers = Workers(1, constant(0.0))
    with workers.open(kmc.Model(square, dim=1)):
        sum(range(200_000))
        workers(POINTS[:1])
    assert workers.clock == workers.own > 0
