"""The records of a run, compared with its result and the clock."""

import math
import time

import numpy as np
import pytest

import kmc
from kmc.convergence import worst_bulk_ess
from kmc.run import progress
from kmc.run.progress import next_look


def log_density(x):
    return -0.5 * float(x @ x)


def records_of(target=log_density, **options):
    records = []
    options = {
        "dim": 2,
        "sampler": "random-walk",
        "draws": 100,
        "seed": 1,
        "progress": False,
    } | options
    idata = kmc.sample(target, callback=records.append, **options)
    return records, idata


# Effective sample size


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
@pytest.mark.parametrize("independent_runs", [1, 2])
def test_the_ess_of_the_draws_at_the_last_look(independent_runs):
    records, idata = records_of(independent_runs=independent_runs)
    draws = np.asarray(idata["posterior"]["x"])
    due = 10
    for record in records[:-1]:
        if record.draw < 10:
            assert math.isnan(record.ess)
            continue
        if record.draw == due:
            due, ess = next_look(due, 2), worst_bulk_ess(draws[:, :due])
        assert record.ess == ess
    assert due > 100 and records[-1].ess == worst_bulk_ess(draws)


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_a_parameter_that_never_moves_has_no_ess():
    start = np.zeros((4, 2))
    records, _ = records_of(
        lambda x: 0.0 if np.all(x == 0) else -math.inf, initial=start, draws=20, warmup=5
    )
    assert all(math.isnan(record.ess) for record in records)


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
@pytest.mark.parametrize(("dim", "most"), [(2, 4.0), (60, 2.5)])
def test_progress_costs_little(monkeypatch, dim, most):
    """A draw enters few effective sample sizes, the fewer the more numbers it has;
    benchmarks/run.py takes the time.
    """
    looked_at = []

    def counted(positions):
        looked_at.append(positions.shape[1])
        return worst_bulk_ess(positions)

    monkeypatch.setattr(progress, "worst_bulk_ess", counted)
    records, _ = records_of(dim=dim, draws=400, warmup=10)
    assert len(records) > 400 and looked_at[0] == 10 and looked_at[-1] == 400
    assert sum(looked_at) <= most * 400


# Time


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_times_of_a_run(monkeypatch):
    """A clock that advances a second each time it is read, which is once per record."""
    ticks = iter(range(100, 10_000))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: float(next(ticks)))
    records, idata = records_of(draws=None, max_evaluations=400)
    assert [record.elapsed for record in records] == list(range(len(records)))
    assert idata.attrs["sampling_time"] == len(records) - 1
    assert records[0].remaining is None and records[-1].remaining == 0.0
    for record in records[2:-1]:
        if record.remaining is not None:
            assert abs(record.elapsed + record.remaining - records[-1].elapsed) <= 2
    assert sum(record.remaining is None for record in records) <= 3  # the first of each phase


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_compilation_does_not_count_for_the_pace(monkeypatch, capsys):
    """An evaluation takes a second and the first jitted one compiles for an hour, on a clock that
    they move.
    """
    from numba.core import event

    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def function(x):
        if now[0] == 50.0:
            # of a callee within
            with event.trigger_event("numba:compile"), event.trigger_event("numba:compile"):
                now[0] += 3600.0
        now[0] += 1.0
        return log_density(x)

    records, _ = records_of(function, draws=None, max_evaluations=400, progress=True)
    estimates = [
        record.elapsed + record.remaining for record in records[1:] if record.remaining is not None
    ]
    assert max(estimates) < 3600 + 420 and max(estimates[-100:]) >= 3990
    assert "kmc: compiling, 0 draws" in capsys.readouterr().err
    assert not event._registered["numba:compile"]
