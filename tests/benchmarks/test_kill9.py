"""What the campaign of kills counts; the campaign itself takes minutes."""

import subprocess
import sys

import pytest

from benchmarks import kill9

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc")


def test_orphans_are_counted_and_ended(monkeypatch):
    monkeypatch.setattr(kill9, "_ORPHAN", 0.2)
    with subprocess.Popen(["sh", "-c", "sleep 60 & sleep 60 & wait"], start_new_session=True) as process:
        while len(kill9.members(process.pid)) < 3:
            pass
        process.kill()
        process.wait()
        assert kill9.orphans(process.pid) == 2
        assert kill9.orphans(process.pid) == 0


def test_a_session_that_neither_evaluates_nor_computes_hangs(monkeypatch, tmp_path):
    monkeypatch.setattr(kill9, "_HANG", 0.5)
    campaign = kill9.Campaign(tmp_path, None)
    (tmp_path / "beat").touch()
    with subprocess.Popen(["sleep", "60"]) as process:
        assert campaign.wait(process, 1)
        process.kill()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        looks = iter(range(30))
        monkeypatch.setattr(kill9.Campaign, "evaluations", lambda _: next(looks))
        assert not campaign.wait(process, 29)
        process.kill()
