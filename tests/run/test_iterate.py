import json

import numpy as np
import pytest

import kmc
from kmc.model.toys import Gaussian

NORMAL = Gaussian(2, correlation=0.5, spread=1.5)
OPTIONS = {"dim": 2, "sampler": "random-walk", "draws": 40, "warmup": 30, "seed": 1}

# the runs are too short to converge
pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")


class Failing:
    """Raises at one of its calls."""

    def __init__(self, error, call):
        self.error, self.call, self.calls = error, call, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.call:
            raise self.error
        return NORMAL(x)


def iterate(target=NORMAL, **options):
    return kmc.iterate(target, **(OPTIONS | options))


def sample(target=NORMAL, **options):
    return kmc.sample(target, **(OPTIONS | {"progress": False} | options))


def positions(idata, group="posterior"):
    return np.asarray(idata[group]["x"])


def check_prefix(idata, draws):
    """The draws are the first of an undisturbed run."""
    assert positions(idata).shape == (4, draws, 2)
    np.testing.assert_array_equal(positions(idata), positions(sample())[:, :draws])


@pytest.mark.parametrize("sampler", ["random-walk", "kernel-hmc"])
def test_it_is_the_run_of_sample(sampler):
    options = {"sampler": sampler, "draws": 10, "warmup": 10, "independent_runs": 2}
    seen = []
    reference = sample(callback=seen.append, **options)
    run = iterate(**options)
    records = list(run)
    idata = run.result()
    np.testing.assert_array_equal(positions(idata), positions(reference))
    for name in ("n_evaluations", "n_evaluations_warmup", "warnings", "seed", "settings"):
        assert idata.attrs[name] == reference.attrs[name]
    assert [(r.phase, r.draw, r.n_evaluations) for r in records] == [
        (r.phase, r.draw, r.n_evaluations) for r in seen
    ]
    assert all(type(record) is kmc.Progress for record in records)
    assert (
        [r.phase for r in records].count("start") == [r.phase for r in records].count("done") == 1
    )


def test_nothing_is_evaluated_before_the_loop():
    target = Failing(None, 0)
    run = iterate(target)
    assert target.calls == 0
    assert next(run).phase == "start" and target.calls == 0
    next(run)
    assert target.calls == 9  # the start, its best point again, and the first sweep


def test_a_bad_argument_is_named_at_once():
    with pytest.raises(ValueError, match="chains=0"):
        iterate(chains=0)
    with pytest.raises(TypeError, match="target=3"):
        iterate(3)


def test_a_loop_can_be_left_and_taken_up_again():
    run = iterate()
    for record in run:
        if record.draw == 10:
            break
    check_prefix(run.result(), 10)
    for record in run:
        if record.draw == 25:
            break
    check_prefix(run.result(), 25)
    assert [record.phase for record in run][-1] == "done"
    check_prefix(run.result(), 40)
    assert list(run) == []


def test_results_on_the_way_change_nothing_and_stay_what_they_are():
    run, results = iterate(save_warmup=True), []
    for number, record in enumerate(run):
        if number % 7 == 0:
            results.append((record, run.result()))
    assert len(results) > 9
    for record, idata in results:
        check_prefix(idata, record.draw)
        assert idata.attrs["n_evaluations"] == record.n_evaluations
        assert positions(idata, "warmup_posterior").shape[1] == idata.attrs["tuning_steps"] <= 30


def test_closing_ends_the_run():
    run = iterate()
    while next(run).draw < 5:
        pass
    run.close()
    run.close()
    assert list(run) == []
    check_prefix(run.result(), 5)
    with iterate() as run:
        while next(run).draw < 7:
            pass
    assert list(run) == []
    check_prefix(run.result(), 7)


def test_leaving_the_loop_gives_no_advice_to_raise_the_budget():
    run = iterate()
    while next(run).draw < 5:
        pass
    assert not any(
        "max_evaluations." in sentence for sentence in json.loads(run.result().attrs["warnings"])
    )
    run = iterate(draws=5000, max_evaluations=400)
    list(run)
    with pytest.warns(kmc.KmcWarning, match=r"Only \d+ of 5000 draws per chain .*max_evaluations"):
        run.result()


def test_an_exception_keeps_the_draws_so_far():
    cause = ZeroDivisionError("a rate of zero")
    run = iterate(Failing(cause, 4 + 4 * 30 + 4 * 12 + 2))
    with pytest.raises(kmc.EvaluationError, match="a rate of zero") as caught:
        list(run)
    assert caught.value.__cause__ is cause
    check_prefix(caught.value.idata, 12)
    check_prefix(run.result(), 12)
    assert positions(run.result(), "warmup_posterior").shape == (4, 30, 2)
    assert list(run) == []


@pytest.mark.parametrize(
    "call", [2, 5 + 4 * 9 + 3, 5 + 4 * 30 + 4 * 12 + 2], ids=["start", "warm-up", "draws"]
)
def test_an_interruption_in_the_function_keeps_the_draws_so_far(call):
    run = iterate(Failing(KeyboardInterrupt(), call))
    with pytest.raises(KeyboardInterrupt):
        list(run)
    draws = max(call - 5 - 4 * 30, 0) // 4
    with pytest.warns(kmc.KmcWarning, match=f"interrupted after {draws} draws"):
        idata = run.result()
    check_prefix(idata, draws)
    assert idata.attrs["n_evaluations"] == call
    assert idata.attrs["n_evaluations_warmup"] == min(call, 5 + 4 * 30)
    assert "warmup_posterior" in idata


def test_an_exception_in_the_loop_is_its_own():
    run = iterate()
    with pytest.raises(OSError, match="disk full"), run:
        for record in run:
            if record.draw == 3:
                raise OSError("disk full")
    check_prefix(run.result(), 3)


def test_a_seed_is_recorded_so_that_it_can_be_used_again():
    seeds = [
        7,
        None,
        np.random.SeedSequence(7).spawn(3)[2],
        np.random.default_rng(3),
        np.random.SeedSequence([5, 2**70]),
    ]
    for seed in seeds:
        one = sample(seed=seed, draws=5)
        entropy, key = (json.loads(str(one.attrs[name])) for name in ("seed", "seed_spawn_key"))
        again = sample(seed=np.random.SeedSequence(entropy, spawn_key=key), draws=5)
        np.testing.assert_array_equal(positions(one), positions(again))


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_a_run_shows_where_it_is():
    run = kmc.iterate(
        lambda x: -0.5 * float(x @ x), dim=2, sampler="random-walk", draws=5, warmup=0, seed=1
    )
    assert repr(run) == "<kmc run: not started>"
    for _ in run:
        pass
    assert repr(run).startswith("<kmc run: done, 5/5 draws")
