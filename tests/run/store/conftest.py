"""Here the times of commits do not depend on the clock."""

from itertools import count
from types import SimpleNamespace

import pytest

from kmc.run.store import recorder


@pytest.fixture
def often(monkeypatch):
    """A commit after every few sweeps, and a snapshot with every other one, by a clock that ticks
    when it is read.
    """
    monkeypatch.setattr(recorder, "time", SimpleNamespace(perf_counter=count(0.0, 0.01).__next__))
    monkeypatch.setattr(recorder, "SNAPSHOT_SECONDS", 0.4)
    monkeypatch.setattr(recorder, "SHARE", 1.0)


@pytest.fixture
def no_snapshots(monkeypatch):
    """Everything is run again from the history."""
    monkeypatch.setattr(recorder, "read_snapshot", lambda *given: None)
