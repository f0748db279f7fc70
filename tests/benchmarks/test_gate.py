"""The gate tells equal versions from different ones."""

import sys

import gate
import numpy as np
import pytest


@pytest.fixture
def made(capsys, monkeypatch):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["gate.py", *map(str, arguments)])
        code = gate.main()
        return code, capsys.readouterr().out

    return call


def test_equal_lines_and_a_changed_one(made, tmp_path, monkeypatch):
    names = ["adaptive-metropolis 20 chains", "kameleon"]
    code, before = made(*names)
    assert code == 0 and [line.split(":")[0] for line in before.splitlines()] == names
    file = tmp_path / "before.txt"
    file.write_text(before + "spectral KernelPCA: results 00000000\n", encoding="utf-8")
    assert made(*names, "--check", file) == (0, "2 lines are equal\n")

    changed = gate.kmc.Kameleon(gamma=0.3)
    monkeypatch.setitem(
        gate.CONFIGURATIONS,
        "kameleon",
        lambda: gate.draws(gate.Banana(), dim=2, sampler=changed, **gate.SHORT),
    )
    code, out = made(*names, "--check", file)
    assert code == 1 and [line.split(":")[0] for line in out.splitlines()] == [
        "- kameleon",
        "+ kameleon",
    ]


def test_a_hash_depends_on_bits_shapes_types_and_names():
    values = np.array([1.0, 2.0])
    others = [
        {"a": np.nextafter(values, 3)},
        {"a": values[None]},
        {"a": values.view(int)},
        {"b": values},
    ]
    assert gate.digest({"a": values}) == gate.digest({"a": values.copy()})
    assert len({gate.digest(other) for other in [{"a": values}, *others]}) == 5
