import multiprocessing
import os
import re
import threading
import warnings
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import numpy as np
import pytest

import kmc
from kmc.errors import EvaluationError
from kmc.model.evaluate import Evaluator, stream_of
from kmc.model.model import Model
from kmc.run.executors import DaskExecutor, MapExecutor, ProcessExecutor, as_executor
from kmc.run.executors.base import packed
from kmc.run.executors.maps import Package
from tests.run.executors import models
from tests.run.executors.models import POINTS, gone, wait_until


def sampled(executor, target=models.quartic, **options):
    """A short run; the points of its sweeps are evaluated in parallel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)  # it is too short to converge
        return kmc.sample(
            target,
            dim=2,
            sampler="adaptive-metropolis",
            draws=50,
            seed=3,
            progress=False,
            executor=executor,
            **options,
        )


class SerialPool:
    """The minimal interface of a pool."""

    def __init__(self):
        self.seen = []

    def map(self, function, iterable):
        self.seen.append(len(iterable))
        return map(function, iterable)


class OtherProcess:
    """A pool that behaves like one with another process: tasks are pickled, and memory is not
    shared.
    """

    def __init__(self, monkeypatch):
        self.payloads, self._remembered, self._patch = 0, {}, monkeypatch

    def map(self, function, iterable):
        self.payloads += function.payload is not None
        with self._patch.context() as patch:
            patch.setattr("kmc.run.executors.maps._models", self._remembered)
            return [function(x) for x in iterable]


@pytest.mark.parametrize("pool", [lambda: ThreadPoolExecutor(2), lambda: ThreadPool(2)])
def test_threads_give_the_same_draws(pool):
    expected = sampled(None)
    with pool() as executor:
        found = sampled(executor)
    for group, name in ("posterior", "x"), ("blobs", "twice"), ("blobs", "value"):
        np.testing.assert_array_equal(found[group][name], expected[group][name])
    assert found.posterior.attrs["n_evaluations"] == expected.posterior.attrs["n_evaluations"]


@pytest.mark.parametrize("executor", ["4", 2.0, True, SerialPool, map])
def test_invalid_executors(executor):
    with pytest.raises(
        TypeError,
        match=rf"executor={re.escape(repr(executor))}: expected None, a number of processes",
    ):
        as_executor(executor)


@pytest.mark.parametrize("workers", [0, -1])
def test_there_is_at_least_one_process(workers):
    with pytest.raises(
        ValueError, match=rf"workers={workers}: expected a whole number of at least 1"
    ):
        as_executor(workers)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: ProcessExecutor(1, timeout=t),
        lambda t: MapExecutor(SerialPool(), timeout=t),
        lambda t: DaskExecutor(_Client(), timeout=t),
    ],
)
@pytest.mark.parametrize(
    ("timeout", "kind"), [(0, ValueError), (-1.0, ValueError), ("1 s", TypeError)]
)
def test_a_timeout_is_positive(make, timeout, kind):
    with pytest.raises(kind, match="timeout="):
        make(timeout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("on_error", "expected"),
    [("reject", [0.2, None, 0.6]), ("raise", [0.2, None, None])],  # what follows is not waited for
)
def test_late_calls_of_a_task(tmp_path, on_error, expected):
    """Their processes are ended."""
    task = Package(Model(models.Hung(tmp_path), dim=2, on_error=on_error), timeout=0.5).whole
    found, seconds, n_timeouts = task(POINTS[1:4])
    assert [getattr(outcome, "value", None) for outcome in found] == expected
    assert n_timeouts == 1 and 0.5 <= seconds < 2
    (hung,) = tmp_path.iterdir()
    assert gone(int(hung.name))


@pytest.mark.slow
def test_processes_that_evaluate_for_workers_end_when_they_are_idle(tmp_path, monkeypatch):
    monkeypatch.setattr("kmc.run.executors.maps._IDLE_SECONDS", 1.0)
    task = Package(Model(lambda x: (0.0, {"pid": os.getpid()}), dim=2), timeout=60.0).whole
    first, second = (int(task(POINTS[:1]).outcomes[0].blobs["pid"]) for _ in range(2))
    assert first == second != os.getpid()
    wait_until(lambda: gone(first), 10)
    assert int(task(POINTS[:1]).outcomes[0].blobs["pid"]) != first


POOLS = {
    "threads": lambda: ThreadPoolExecutor(2),
    "spawned": lambda: multiprocessing.get_context("spawn").Pool(1),  # whose processes are daemonic
    "futures": lambda: ProcessPoolExecutor(1),
}


@pytest.mark.parametrize(
    ("pool", "log_density", "timeout"),
    [
        ("threads", models.hanging_far_out, 0.5),
        pytest.param("threads", models.dying_far_out, 60.0, marks=pytest.mark.slow),
        pytest.param("spawned", models.hanging_far_out, 0.5, marks=pytest.mark.slow),
        pytest.param("spawned", models.dying_far_out, None, marks=pytest.mark.slow),
        pytest.param("futures", models.dying_far_out, None, marks=pytest.mark.slow),
    ],
)
def test_calls_that_hang_or_die_in_a_pool(pool, log_density, timeout):
    """The draws are those of a function that raises an error there."""
    expected = sampled(None, Model(models.raising_far_out, dim=2, on_error="reject"))
    with POOLS[pool]() as opened:
        found = sampled(MapExecutor(opened, timeout), Model(log_density, dim=2, on_error="reject"))
    np.testing.assert_array_equal(found.posterior["x"], expected.posterior["x"])
    assert found.attrs["n_failed"] == expected.attrs["n_failed"] > 0
    assert found.attrs["n_timeouts"] == (timeout == 0.5) * found.attrs["n_failed"]


def test_a_pool_has_a_map():
    with pytest.raises(
        TypeError, match=r"pool=4: expected an object with a method map\(function, iterable\)"
    ):
        MapExecutor(4)


def test_a_result_tells_how_workers_spent_their_time():
    with ThreadPoolExecutor(2) as pool:
        attrs = sampled(pool).attrs
    assert attrs["workers"] == 2 and 0 <= attrs["workers_waited"] <= 1 and attrs["n_timeouts"] == 0
    assert 0 < attrs["evaluation_seconds"] <= attrs["longest_evaluation_seconds"]
    assert "workers" not in sampled(None).attrs


def test_a_model_goes_to_another_process_once(monkeypatch):
    pool = OtherProcess(monkeypatch)
    with MapExecutor(pool).open(Model(lambda x: float(x[0]), dim=2)) as mapper:
        for _ in range(3):
            assert [outcome.value for outcome in mapper(POINTS)] == POINTS[:, 0].tolist()
    assert pool.payloads == 1
    assert len(pool._remembered) == 1


class Immediate(Executor):
    """A pool with another process, which ends each task at once."""

    def __init__(self, monkeypatch):
        self.other = OtherProcess(monkeypatch)

    def submit(self, function, x):
        future = Future()
        try:
            future.set_result(self.other.map(function, [x])[0])
        except Exception as error:
            future.set_exception(error)
        return future


def test_values_one_by_one_from_a_pool(monkeypatch):
    pool = Immediate(monkeypatch)
    with MapExecutor(pool).open(Model(lambda x: float(x[0]), dim=2)) as mapper:
        for key, x in enumerate(POINTS):
            mapper.submit(key, x)
        outcomes = dict(mapper.ready())
        assert [outcomes[i].value for i in range(6)] == POINTS[:, 0].tolist()
    assert pool.other.payloads == 6  # all were under way before one of them brought the model


def test_a_pool_that_has_only_a_map_is_used_by_its_map():
    class OnlyMap(Executor):
        def map(self, function, *iterables):
            return map(function, *iterables)

    with MapExecutor(OnlyMap()).open(Model(models.quartic, dim=2)) as mapper:
        assert stream_of(mapper) is None
        assert [outcome.value for outcome in mapper(POINTS)] == [
            models.quartic(x)[0] for x in POINTS
        ]


def test_a_pool_that_breaks_is_named_when_values_come_one_by_one():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    broken = pytest.raises(
        EvaluationError, match="ThreadPoolExecutor object.*failed, RuntimeError: cannot schedule"
    )
    with MapExecutor(pool).open(Model(models.quartic, dim=2)) as mapper, broken:
        mapper.submit(0, POINTS[0])


def test_rows_of_a_vectorized_model_go_in_blocks():
    pool = SerialPool()
    pool.size = 4
    with MapExecutor(pool).open(Model(models.rows, dim=2, vectorized=True)) as mapper:
        evaluate = Evaluator(Model(models.rows, dim=2, vectorized=True), mapper)
        np.testing.assert_array_equal(evaluate(POINTS), models.rows(POINTS)[0])
        assert [int(outcome.blobs["rows"]) for outcome in mapper(POINTS)] == [2, 2, 2, 2, 1, 1]
    assert pool.seen == [4, 4]
    assert evaluate.n_evaluations == 6


def test_the_first_failure_is_raised_and_all_points_count():
    with MapExecutor(SerialPool()).open(Model(models.raising, dim=2)) as mapper:
        evaluate = Evaluator(Model(models.raising, dim=2), mapper)
        with pytest.raises(
            EvaluationError, match=r"UnpicklableError: this and that, at x = \[0.4, 0.5\]"
        ) as caught:
            evaluate(POINTS)
    np.testing.assert_array_equal(caught.value.position, [0.4, 0.5])
    assert "in raising" in caught.value.__notes__[0]
    assert evaluate.n_evaluations == 6


def test_a_pool_that_breaks_is_named():
    class Broken:
        def map(self, function, iterable):
            raise OSError("no such host")

    with pytest.raises(
        EvaluationError, match="Broken object.*failed, OSError: no such host"
    ) as caught:
        sampled(Broken())
    assert caught.value.idata.posterior.sizes["draw"] == 0


def test_a_pool_that_loses_results_is_named():
    class Forgetful:
        def map(self, function, iterable):
            return [function(x) for x in iterable[1:]]

    with pytest.raises(EvaluationError, match="map returned 3 results, expected 4"):
        sampled(Forgetful())


def test_what_cannot_be_sent_is_named():
    lock = threading.Lock()
    with pytest.raises(
        TypeError, match="cannot be sent to another process .*lock.* open files, locks"
    ):
        packed(Model(lambda x: float(lock.locked()), dim=2))


class _Client:
    def submit(self): ...

    def gather(self): ...
