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


@pytest.mark.parametrize(("command", "hangs"), [(["sleep", "60"], True), (["sh", "-c", "while :; do :; done"], False)])
def test_a_session_that_neither_evaluates_nor_computes_hangs(monkeypatch, tmp_path, command, hangs):
    monkeypatch.setattr(kill9, "_HANG", 3.0)  # long enough for a tenth of a second of a processor that others use, too
    looks = iter(range(80))
    monkeypatch.setattr(kill9.Campaign, "evaluations", lambda _: next(looks))
    (tmp_path / "beat").touch()
    with subprocess.Popen(command) as process:
        try:
            assert kill9.Campaign(tmp_path, None).wait(process, 79) is hangs
        finally:
            process.kill()
