import os

import numpy as np
import pytest

import kmc
from kmc.errors import EvaluationError
from kmc.model.evaluate import Evaluation, Evaluator
from kmc.model.model import Model
from kmc.run.executors import DaskExecutor
from kmc.run.executors.maps import Answer
from tests.run.executors import models
from tests.run.executors.models import POINTS, gone
from tests.run.executors.test_executors import sampled
from tests.run.store.runs import log_density, settings

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.packages


@pytest.fixture(scope="module")
def client():
    """In this process: quick to start."""
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def processes():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_something_else_is_no_client():
    with pytest.raises(TypeError, match="client='tcp://.*expected a dask.distributed.Client"):
        DaskExecutor("tcp://127.0.0.1:8786")


def test_the_same_draws_as_in_process(client):
    expected, found = sampled(None), sampled(client)
    for group, name in ("posterior", "x"), ("blobs", "twice"), ("blobs", "value"):
        np.testing.assert_array_equal(found[group][name], expected[group][name])
    assert found.posterior.attrs["n_evaluations"] == expected.posterior.attrs["n_evaluations"]


def learn(mapper, seconds):
    """Let the mapper know what an evaluation costs."""
    for _ in range(50):
        mapper.note(Answer([Evaluation(0.0)], seconds), POINTS[:1])


def test_a_failure_within_a_task_is_that_of_its_point(client):
    with DaskExecutor(client).open(Model(models.raising, dim=2)) as mapper:
        learn(mapper, 1e-4)
        for key, x in enumerate(POINTS):
            mapper.submit(key, x)
        outcomes = {}
        while len(outcomes) < len(POINTS):
            outcomes |= dict(mapper.ready())
    assert [outcomes[key].value for key in (0, 1)] == [0.0, 0.0]
    with pytest.raises(EvaluationError) as caught:
        outcomes[3].throw()
    np.testing.assert_array_equal(caught.value.position, POINTS[3])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
def test_a_cluster_may_grow_and_shrink_and_retire_workers(monkeypatch):
    monkeypatch.setattr("kmc.run.executors.dask._LOOK_SECONDS", 0.0)
    asked = settings("kernel-hmc", max_evaluations=200)
    counts = set()
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):

        def resize(progress):
            workers = client.nthreads()
            counts.add(len(workers))
            if progress.n_evaluations > 100 and len(workers) == 3:
                client.retire_workers([next(iter(workers))])
            elif progress.n_evaluations < 50 and len(workers) == 1:
                cluster.scale(3)
                client.wait_for_workers(3)

        found = kmc.sample(log_density, executor=client, callback=resize, **asked)
    np.testing.assert_array_equal(
        found.posterior["x"], kmc.sample(log_density, **asked).posterior["x"]
    )
    assert counts >= {1, 2, 3} and found.attrs["workers"] == 2


def test_failures_carry_their_parameters(client):
    model = Model(models.raising, dim=2)
    with DaskExecutor(client).open(model) as mapper:
        evaluate = Evaluator(model, mapper)
        with pytest.raises(
            EvaluationError, match=r"UnpicklableError: this and that, at x = \[0.4, 0.5\]"
        ) as caught:
            evaluate(POINTS)
    np.testing.assert_array_equal(caught.value.position, [0.4, 0.5])
    assert evaluate.n_evaluations == 6


@pytest.mark.slow
def test_one_that_takes_too_long_ends_the_run_and_its_process(client, tmp_path):
    with DaskExecutor(client, timeout=0.3).open(Model(models.Hung(tmp_path), dim=2)) as mapper:
        outcomes = mapper(POINTS)
        with pytest.raises(
            EvaluationError, match=r"longer than timeout=0.3 seconds, at x = \[0.4, 0.5\]"
        ):
            outcomes[2].throw()
    assert all(gone(int(path.name)) for path in tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("log_density", "timeout"),
    [(models.dying_far_out, None), (models.dying_far_out, 60.0), (models.hanging_far_out, 0.5)],
)
def test_calls_that_die_or_hang_are_rejected(processes, log_density, timeout):
    """On workers of a cluster; the draws are those of a function that raises an error there."""
    expected = sampled(None, Model(models.raising_far_out, dim=2, on_error="reject"))
    workers = set(processes.nthreads())
    found = sampled(DaskExecutor(processes, timeout), Model(log_density, dim=2, on_error="reject"))
    np.testing.assert_array_equal(found.posterior["x"], expected.posterior["x"])
    assert found.attrs["n_failed"] == expected.attrs["n_failed"] > 0
    assert found.attrs["n_timeouts"] == (timeout == 0.5) * found.attrs["n_failed"]
    assert set(processes.nthreads()) == workers  # only processes of theirs died


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
def test_chains_that_go_on_alone_meet_a_call_that_dies(processes):
    asked = settings("kernel-hmc", max_evaluations=200)

    def dying(x):
        return log_density(x) if x[0] < 2.0 else os._exit(7)

    def raising(x):
        return log_density(x) if x[0] < 2.0 else int("none")

    expected = kmc.sample(Model(raising, dim=2, on_error="reject"), **asked)
    found = kmc.sample(Model(dying, dim=2, on_error="reject"), executor=processes, **asked)
    np.testing.assert_array_equal(found.posterior["x"], expected.posterior["x"])
    assert found.attrs["n_failed"] == expected.attrs["n_failed"] > 0


@pytest.mark.slow
def test_workers_that_die(processes, tmp_path):
    """A dead worker's points are evaluated again, the new worker gets the model, and no point
    counts twice.
    """
    model = Model(models.DyingOnce(tmp_path), dim=2)
    with DaskExecutor(processes).open(model) as mapper:
        evaluate = Evaluator(model, mapper)
        np.testing.assert_array_equal(evaluate(POINTS), POINTS[:, 0])
        assert evaluate.n_evaluations == 6
    expected, found = sampled(None), sampled(processes)
    np.testing.assert_array_equal(found["blobs"]["twice"], expected["blobs"]["twice"])
    dying = DaskExecutor(processes).open(Model(models.dying, dim=2))
    with (
        dying as mapper,
        pytest.raises(EvaluationError, match="its workers died, KilledWorker") as caught,
    ):
        mapper(POINTS[2:3])
    np.testing.assert_array_equal(caught.value.position, [0.4, 0.5])
