"""Chains that move on their own make the draws of chains that wait for each other."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kmc
from kmc.run.ahead import LEAD, Ahead, Limits
from kmc.samplers.metropolis import Proposal
from kmc.samplers.walkers import Lane
from tests.grids import slow_except
from tests.run.store.runs import assert_same, log_density, settings
from tests.run.streams import Disorder

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")

CASES = {
    "draws": settings("kernel-hmc", max_evaluations=None),
    "score": settings("nystrom"),
    "independent": settings(
        "kernel-hmc", draws=None, chains=4, independent_runs=2, max_evaluations=401
    ),
    "moves": settings("kernel-hmc")
    | {"sampler": kmc.KernelHMC(moves=[(kmc.moves.Snooker(), 0.2)])},
}
MODEL = kmc.Model(log_density, dim=2)
PLAIN = settings("kernel-hmc", chains=3, draws=None, sampler=kmc.KernelHMC(learning_share=0.2))


@pytest.fixture(scope="module")
def in_step():
    """The result of chains that wait for each other."""
    return kmc.sample(log_density, **PLAIN)


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_except(list(CASES), {"draws", "independent"}))
def test_the_same_draws_in_any_order(name):
    order = Disorder(1)
    found = kmc.sample(log_density, executor=order, **CASES[name])
    assert_same(found, kmc.sample(log_density, **CASES[name]))
    assert order.n_alone > 50


def test_no_chain_waits_for_another(in_step):
    """The straggler's values return when the other chains may not go on without them."""
    order = Disorder(straggler=0)
    assert_same(kmc.sample(log_density, executor=order, **PLAIN), in_step)
    assert 20 < order.lead <= LEAD


@pytest.mark.slow
def test_threads_go_on_while_one_evaluation_takes_long():
    """One evaluation ends when another chain has made eight more after it."""
    lock, calls, passed = threading.Lock(), [0], threading.Event()

    def waiting(x):
        with lock:
            calls[0] += 1
            mine = calls[0]
        if mine == 200:
            assert passed.wait(60), "no chain went on"
        if mine == 208:
            passed.set()
        return log_density(x)

    with ThreadPoolExecutor(2) as pool:
        result = kmc.sample(waiting, executor=pool, **PLAIN)
    assert passed.is_set() and result.attrs["n_evaluations"] <= 300


@pytest.mark.parametrize("budget", [297, 299, 302])
def test_no_evaluation_too_many(budget):
    """Proposals that do not move make sweeps cheaper, which is known late."""
    order, rng = Disorder(budget), np.random.default_rng(budget)
    lanes = [
        Lane(_sometimes, np.random.default_rng(i), x=np.zeros(2), log_density=0.0) for i in range(3)
    ]
    made, spent = [], [0]
    with order.open(MODEL):
        ahead = Ahead(
            lanes,
            order,
            lambda: Limits((), budget - spent[0], reserve=int(rng.integers(20))),
            MODEL,
        )
        while (sweep := ahead.sweep()) is not None:
            made.append([one.point is not None for one in sweep])
            spent[0] += sum(made[-1])
    expected = np.array(made).sum(axis=1)
    assert order.n_alone == expected.sum() <= budget < expected.sum() + 3
    assert 0 < np.mean(made) < 1


def _sometimes(rng, x):
    position = x + rng.standard_normal(2)
    return Proposal(position, 0.0, 0, moved=bool(rng.random() < 0.7))


def test_a_stop_gives_whole_sweeps(in_step):
    found = kmc.sample(
        log_density, executor=Disorder(straggler=1), callback=lambda p: p.draw == 20, **PLAIN
    )
    np.testing.assert_array_equal(found.posterior["x"], in_step.posterior["x"][:, :20])
    assert found.attrs["stopped_by"] == "callback" and found.attrs["n_evaluations_ahead"] > 0
    together = found.attrs["n_evaluations"] + found.attrs["n_evaluations_ahead"]
    assert together <= PLAIN["max_evaluations"]


@pytest.mark.slow
def test_an_error_comes_with_the_draws_before_it():
    """Also if the chain that fails is far ahead, and its error known long before."""
    calls = [0]

    def failing(x):
        calls[0] += 1
        if x[0] > limit:
            raise ZeroDivisionError
        return log_density(x)

    limit = np.inf
    free = kmc.sample(failing, **PLAIN)
    limit = float(free.posterior["x"][:, 30:, 0].max()) - 1e-9
    errors = []
    for order in None, Disorder(3), Disorder(4, straggler=2):
        with pytest.raises(kmc.EvaluationError) as caught:
            kmc.sample(failing, executor=order, **PLAIN)
        errors.append(caught.value)
    for error in errors[1:]:
        np.testing.assert_array_equal(error.position, errors[0].position)
        np.testing.assert_array_equal(error.idata.posterior["x"], errors[0].idata.posterior["x"])
