"""One seed, one run: whatever evaluates it, with any number of workers, whether or not they die."""

import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import kmc
from kmc.run.executors import DaskExecutor, ProcessExecutor
from tests.run.store.runs import assert_same, log_density, settings
from tests.values import check_values

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")

ASKED = settings("kernel-hmc", chains=4, draws=None, max_evaluations=400)
OF_THE_CLOCK = (
    "workers",
    "workers_waited",
    "evaluation_seconds",
    "longest_evaluation_seconds",
    "n_timeouts",
)


class Mortal:
    """Its process ends before the first evaluation at one point in sixty; a file for each tells
    that it has ended.
    """

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, x):
        number = zlib.crc32(x.tobytes())
        if number % 60 == 0 and not (self.folder / f"{number}").exists():
            (self.folder / f"{number}").touch()
            os._exit(9)
        return log_density(x)


@contextmanager
def processes(workers):
    yield ProcessExecutor(workers)


@contextmanager
def threads(workers):
    with ThreadPoolExecutor(workers) as pool:
        yield pool


@contextmanager
def dask(workers, *, in_processes=False):
    distributed = pytest.importorskip("distributed")
    options = {
        "n_workers": workers,
        "threads_per_worker": 1,
        "processes": in_processes,
        "dashboard_address": None,
    }
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield DaskExecutor(client)


@pytest.fixture(scope="module")
def expected():
    idata = without_clock(kmc.sample(log_density, **ASKED))
    check_values(idata, log_density, 2)
    return idata


def without_clock(result):
    for name in OF_THE_CLOCK:
        result.attrs.pop(name, None)
    return result


@pytest.mark.parametrize(
    "executor",
    [
        (threads, 64),
        *(
            pytest.param((make, workers), marks=pytest.mark.slow)
            for make in (processes, dask)
            for workers in (1, 4)
        ),
    ],
    ids=lambda pair: f"{pair[0].__name__}-{pair[1]}",
)
def test_any_number_of_workers(expected, executor):
    make, workers = executor
    with make(workers) as pool:
        found = kmc.sample(log_density, executor=pool, **ASKED)
    assert_same(without_clock(found), expected)


@pytest.mark.slow
@pytest.mark.parametrize("make", [processes, lambda workers: dask(workers, in_processes=True)])
def test_workers_that_die(expected, make, tmp_path):
    with make(4) as pool:
        found = kmc.sample(Mortal(tmp_path), executor=pool, **ASKED)
    assert len(list(tmp_path.iterdir())) > 2, "no worker died"
    assert_same(without_clock(found), expected)
