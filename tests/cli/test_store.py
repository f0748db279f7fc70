"""``kernelmc resume`` and ``kernelmc status``, and the other commands on a store."""

import re
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest
import xarray

import kmc
from kmc import cli
from tests.cli.test_runs import SMALL, imports, source  # noqa: F401

pytestmark = [pytest.mark.filterwarnings("ignore::kmc.KmcWarning"), pytest.mark.packages]
OPTIONS = ["--dim", "2", "--draws", "60", "--warmup", "20", *SMALL]


def run(*argv):
    return cli.main([str(part) for part in argv])


def draws(path):
    with xarray.open_dataset(path, group="posterior", engine="h5netcdf") as posterior:
        return posterior["x"].values


@pytest.fixture
def store(tmp_path):
    return tmp_path / "run.zarr"


@pytest.fixture
def whole():
    options = {"sampler": "random-walk", "draws": 60, "warmup": 20, "seed": 1, "progress": False}
    return np.asarray(kmc.sample(lambda x: -0.5 * float(x @ x), 2, **options)["posterior"]["x"])


@pytest.mark.parametrize("function", ["raises", "interrupts"])
@pytest.mark.parametrize("given", [True, False], ids=["--model", "from the store"])
def test_an_interrupted_run_is_resumed(function, given, source, store, tmp_path, whole, capsys):  # noqa: F811
    code = {"raises": 1, "interrupts": 130}[function]
    assert run("sample", f"{source}:{function}", "--store", store, *OPTIONS) == code
    assert (f"kernelmc resume {store} continues" in capsys.readouterr().err) == (
        function == "interrupts"
    )
    assert run("status", store) == 0
    out = capsys.readouterr().out
    assert re.search(r"^phase +warm-up$|^phase +sampling$", out, re.MULTILINE)
    assert re.search(r"^evaluations +\d+$", out, re.MULTILINE)
    assert run("resume", store, "--draws", "5", "--quiet") == 1
    assert "not finished: resume it without --draws first" in capsys.readouterr().err

    model = ["--model", f"{source}:log_density"] if given else ["--trust"]
    assert run("resume", store, *model, "--output", tmp_path / "draws.nc", "--quiet") == 0
    np.testing.assert_array_equal(draws(tmp_path / "draws.nc"), whole)
    assert "4 chains of 60 draws, 325 evaluations" in capsys.readouterr().out


def test_a_finished_run(source, store, tmp_path, whole, capsys):  # noqa: F811
    assert run("sample", f"{source}:log_density", "--store", store, *OPTIONS) == 0
    sampled = capsys.readouterr().out
    for command in ("summary", "resume"):
        assert run(command, store) == 0
        assert capsys.readouterr().out == sampled
    assert run("status", store) == 0
    out = capsys.readouterr().out
    for row in (
        r"phase +finished",
        r"draws +60 of 60 per chain",
        r"evaluations +325",
        r"least ESS +\d+",
        r"warm-up +20",
    ):
        assert re.search(rf"^{row}", out, re.MULTILINE), row

    assert run("resume", store, "--draws", "15", "--quiet") == 1
    assert "pass --model FILE.py:NAME, or --trust if nobody else" in capsys.readouterr().err
    assert (
        run(
            "resume", store, "--trust", "--draws", "15", "--output", tmp_path / "more.nc", "--quiet"
        )
        == 0
    )
    longer = draws(tmp_path / "more.nc")
    assert run("resume", store, "--draws", "15", "--output", tmp_path / "more.nc", "--quiet") == 1
    assert "exists: pass --overwrite" in capsys.readouterr().err
    assert kmc.load(store)["posterior"].sizes["draw"] == 75
    assert longer.shape == (4, 75, 2)
    np.testing.assert_array_equal(longer[:, :60], whole)


def test_modules_are_searched_in_the_folder_of_a_trusted_store_alone(
    source,  # noqa: F811
    store,
    tmp_path,
    monkeypatch,
):
    assert run("sample", f"{source}:interrupts", "--store", store, *OPTIONS) == 130
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    before = sys.path.copy()
    assert run("resume", store, "--quiet") == 1
    assert run("resume", store, "--model", f"{source}:log_density", "--quiet") == 0
    for command in ("resume", "status", "summary"):
        assert run(command, store) == 0
    assert sys.path == before
    assert run("resume", store, "--trust", "--quiet") == 0
    assert sys.path == [*before, str(tmp_path / "elsewhere")]


@pytest.mark.parametrize("command", ["resume", "status", "summary"])
def test_no_store(command, tmp_path, capsys):
    assert run(command, tmp_path / "nothing.zarr") == 1
    assert "nothing.zarr" in capsys.readouterr().err
    assert run(command, tmp_path) == 1
    assert str(tmp_path) in capsys.readouterr().err


def test_a_store_is_not_written_over(source, store, capsys):  # noqa: F811
    assert run("sample", f"{source}:log_density", "--store", store, *OPTIONS) == 0
    assert run("sample", f"{source}:log_density", "--store", store, *OPTIONS) == 1
    assert f"--store '{store}' exists: use kernelmc resume" in capsys.readouterr().err


def test_a_clock_that_was_set_back(source, store, capsys, monkeypatch):  # noqa: F811
    assert run("sample", f"{source}:log_density", "--store", store, *OPTIONS) == 0
    now = datetime.now(UTC)
    clock = SimpleNamespace(now=lambda _: now - timedelta(1), fromisoformat=datetime.fromisoformat)
    monkeypatch.setattr("kmc.cli.results.datetime", clock)
    assert run("status", store) == 0
    assert re.search("^written +0:00:00 ago$", capsys.readouterr().out, re.MULTILINE)
