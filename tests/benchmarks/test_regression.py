"""The comparison of medians, and the file in which they are."""

import pytest
import regression


def test_a_fall_by_a_fifth_is_reported():
    before = {"a": 100.0, "b": 100.0, "c": 100.0}
    text, fallen = regression.compared(before, {"a": 81.0, "b": 80.0, "c": 300.0, "d": 5.0})
    assert fallen == ["b", "d"]
    assert "| a | 100 | 81 | 0.81 |" in text and "| d | nan | 5 | nan |" in text


def test_medians_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "medians.csv"
    regression.write(path, {"ring": 512.34, "logistic": 4.0})
    assert regression.read(path) == {"ring": 512.3, "logistic": 4.0}


def test_every_target_has_its_median():
    assert list(regression.read(regression.BASELINE)) == list(regression.TARGETS)


def test_the_exit_code(monkeypatch, capsys):
    medians = regression.read(regression.BASELINE)
    for factor, code in ((1.0, 0), (0.7, 1)):
        now = {target: factor * value for target, value in medians.items()}
        monkeypatch.setattr(regression, "measured", lambda jobs, now=now: now)
        assert regression.main([]) == code
    assert "Fallen by a fifth or more: banana-2d, gaussian-10d" in capsys.readouterr().out


@pytest.mark.slow
def test_from_start_to_end(monkeypatch, tmp_path, capsys):
    """The same seeds give the same medians."""
    monkeypatch.setattr(regression, "TARGETS", ("ring",))
    monkeypatch.setattr(regression, "SEEDS", 2)
    monkeypatch.setattr(regression, "BUDGET", 500)
    monkeypatch.setattr(regression, "BASELINE", tmp_path / "medians.csv")
    assert regression.main(["--accept"]) == 0
    assert regression.main(["--jobs", "2"]) == 0
    assert "[2/2] ring kmc 500: " in (said := capsys.readouterr().out) and said.count("| 1.00 |") == 2
