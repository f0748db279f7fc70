"""``kernelmc sample`` on a log-density in a file."""

import os
import re
import signal
import sys
import time

import arviz
import numpy as np
import pytest

import kmc
from kmc import cli
from kmc.cli import results
from kmc.cli.runs import as_name
from kmc.run.run import Run

SOURCE = """
import numpy as np
import kmc

def log_density(x):
    return -0.5 * float(x @ x)

def raises(x, calls=[]):
    calls.append(x)
    if len(calls) == 100:
        raise ZeroDivisionError("a rate of zero")
    return log_density(x)

def interrupts(x, calls=[]):
    calls.append(x)
    if len(calls) == 100:
        raise KeyboardInterrupt
    return log_density(x)

class Holder:
    bounded = staticmethod(lambda x: 0.0 if np.all(np.abs(x) < 1) else -np.inf)

model = kmc.Model(log_density, dim=3)
"""
# the runs are too short to converge
pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
SMALL = ["--sampler", "random-walk", "--seed", "1", "--quiet"]


@pytest.fixture(autouse=True)
def imports(monkeypatch):
    """Modules that a command imports are removed after the test."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("its_"):
            del sys.modules[name]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / f"its_{tmp_path.name}.py"
    path.write_text(SOURCE)
    return path


def kmc_sample(*argv):
    return cli.main(["sample", *map(str, argv), *SMALL])


def positions(path):
    return np.asarray(arviz.from_netcdf(path)["posterior"]["x"])


def test_a_function_in_a_file(source, tmp_path, capsys):
    out = tmp_path / "new" / "draws.nc"
    options = ["--dim", 2, "--draws", 60, "--warmup", 20, "--chains", 2]
    assert kmc_sample(f"{source}:log_density", *options, "--output", out) == 0
    text = capsys.readouterr().out
    assert re.search(r"^x\[1\] ", text, re.MULTILINE)
    assert "2 chains of 60 draws, 163 evaluations" in text and "warning: " in text
    expected = kmc.sample(
        lambda x: -0.5 * float(x @ x),
        2,
        None,
        "random-walk",
        draws=60,
        warmup=20,
        chains=2,
        seed=1,
        progress=False,
    )
    np.testing.assert_array_equal(positions(out), expected["posterior"]["x"])


def test_a_function_in_a_module(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--dim", 2, "--max-evaluations", 300, "--warmup", 20]
    assert kmc_sample(f"{source.stem}:Holder.bounded", *options, "--output", "draws.nc") == 0
    assert sys.path[-1] == str(tmp_path)  # after the installed packages
    draws = positions("draws.nc")
    assert 45 < draws.shape[1] <= (300 - 4) // 4 - 20  # as many as the budget allows
    assert np.all(np.abs(draws) < 1)


def test_processes_find_the_function_in_its_file(source, tmp_path):
    options = ["--dim", 2, "--draws", 20, "--warmup", 5]
    assert (
        kmc_sample(
            f"{source}:log_density", *options, "--output", tmp_path / "a.nc", "--executor", 2
        )
        == 0
    )
    assert kmc_sample(f"{source}:log_density", *options, "--output", tmp_path / "b.nc") == 0
    np.testing.assert_array_equal(positions(tmp_path / "a.nc"), positions(tmp_path / "b.nc"))


@pytest.mark.parametrize("suffix", ["csv", "npy"])
def test_a_model_and_start_points(source, tmp_path, suffix):
    start, out = np.arange(15.0).reshape(5, 3) / 10, tmp_path / "draws.nc"
    initial = tmp_path / f"start.{suffix}"
    if suffix == "csv":
        np.savetxt(initial, start, delimiter=",")
    else:
        np.save(initial, start)
    options = ["--initial", initial, "--draws", 20, "--warmup", 0, "--output", out]
    assert kmc_sample("--model", f"{source}:model", *options) == 0
    expected = kmc.sample(
        lambda x: -0.5 * float(x @ x),
        3,
        start,
        "random-walk",
        draws=20,
        warmup=0,
        seed=1,
        progress=False,
    )
    np.testing.assert_array_equal(positions(out), expected["posterior"]["x"])


def test_the_display_goes_to_standard_error(source, tmp_path, capsys):
    argv = [
        "sample",
        f"{source}:log_density",
        "--dim",
        "2",
        "--draws",
        "20",
        "--output",
        str(tmp_path / "a.nc"),
    ]
    assert cli.main([*argv, "--sampler", "random-walk"]) == 0
    out, err = capsys.readouterr()
    assert "kmc: done" in err and "kmc: done" not in out and "KmcWarning" not in err


def test_an_error_of_the_function_keeps_the_draws_so_far(source, tmp_path, capsys):
    out = tmp_path / "draws.nc"
    assert kmc_sample(f"{source}:raises", "--dim", 2, "--warmup", 3, "--output", out) == 1
    kept = tmp_path / "draws.failed.nc"
    assert positions(kept).shape == (4, (99 - 4) // 4 - 3, 2) and not out.exists()
    err = capsys.readouterr().err
    assert f"the run failed; its 20 draws per chain are in {kept}" in err
    assert (
        "EvaluationError: log_density raised ZeroDivisionError: a rate of zero" in err
        and "Traceback" not in err
    )


def test_an_interruption_keeps_the_draws_so_far(source, tmp_path, capsys):
    out = tmp_path / "draws.nc"
    assert kmc_sample(f"{source}:interrupts", "--dim", 2, "--warmup", 3, "--output", out) == 130
    assert positions(out).shape == (4, (99 - 4) // 4 - 3, 2)
    assert "interrupted after 20 draws" in capsys.readouterr().out


@pytest.mark.parametrize("pressed_in", ["result", "write", "describe"])
def test_a_second_interruption_loses_no_draws(pressed_in, source, tmp_path, monkeypatch):
    def pressing(function):
        def pressed(*args, **kwargs):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            return function(*args, **kwargs)

        return pressed

    where, name = {
        "result": (Run, "result"),
        "write": (os, "replace"),
        "describe": (results, "describe"),
    }[pressed_in]
    monkeypatch.setattr(where, name, pressing(getattr(where, name)))
    # a shell's background jobs ignore it
    out, before = tmp_path / "draws.nc", signal.getsignal(signal.SIGINT)
    assert kmc_sample(f"{source}:interrupts", "--dim", 2, "--warmup", 3, "--output", out) == 130
    monkeypatch.undo()
    assert positions(out).shape == (4, (99 - 4) // 4 - 3, 2)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_file_of_draws_is_not_replaced_unless_asked(source, tmp_path, capsys, monkeypatch):
    out, options = (
        tmp_path / "good.nc",
        ["--dim", 2, "--draws", 20, "--warmup", 5, "--output", tmp_path / "good.nc"],
    )
    out.write_bytes(b"kept")
    with monkeypatch.context() as patched:
        patched.setattr(kmc, "sample", None)  # refused before anything is sampled
        assert kmc_sample(f"{source}:log_density", *options) == 1
    assert "good.nc' exists: pass --overwrite" in capsys.readouterr().err
    assert out.read_bytes() == b"kept"
    assert kmc_sample(f"{source}:log_density", *options, "--overwrite") == 0
    assert positions(out).shape == (4, 20, 2)
    assert {path.name for path in tmp_path.glob("*") if path.suffix != ".py"} - {"__pycache__"} == {
        "good.nc"
    }


@pytest.mark.parametrize(
    ("function", "code", "kept"), [("raises", 1, "failed"), ("interrupts", 130, "interrupted")]
)
def test_draws_of_a_run_that_broke_off_replace_nothing(source, tmp_path, function, code, kept):
    out = tmp_path / "good.nc"
    out.write_bytes(b"all draws")
    argv = [f"{source}:{function}", "--dim", 2, "--warmup", 3, "--output", out, "--overwrite"]
    assert kmc_sample(*argv) == code
    (tmp_path / f"its_{tmp_path.name}.py").write_text(SOURCE.replace("== 100", "== 51"))
    del sys.modules[source.stem]
    assert kmc_sample(*argv) == code
    assert out.read_bytes() == b"all draws"
    assert positions(tmp_path / f"good.{kept}.nc").shape[1] == 20
    assert positions(tmp_path / f"good.{kept}-2.nc").shape[1] < 20


def test_options_are_handed_on_as_they_are(source, tmp_path, monkeypatch):
    calls = []

    def sample(target, **options):
        calls.append((target.__name__, options))
        raise InterruptedError

    monkeypatch.setattr(kmc, "sample", sample)
    more = [
        "--max-time",
        2.5,
        "--draws",
        9,
        "--executor",
        3,
        "--store",
        tmp_path / "run.zarr",
        "--independent-runs",
        2,
        "--chains",
        4,
    ]
    assert kmc_sample(f"{source}:log_density", *more) == 1
    options = {
        "sampler": "random-walk",
        "seed": 1,
        "progress": False,
        "executor": 3,
        "independent_runs": 2,
        "chains": 4,
    }
    options |= {"max_time": 2.5, "draws": 9}
    assert calls == [("log_density", options | {"store": tmp_path / "run.zarr"})]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--dim", "2", "--output", "a.nc"],
            "one of the arguments MODULE:FUNCTION --model is required",
        ),
        (["a:f", "--model", "a:m", "--output", "a.nc"], "not allowed with argument"),
        (
            ["log_density", "--output", "a.nc"],
            "'log_density' is not of the form module:name or file.py:name",
        ),
        (["a:f", "--max-time", "0", "--output", "a.nc"], "'0' is not a positive number of seconds"),
        (["a:f"], "give --output or --store"),
        (["a:f", "--chains", "0", "--output", "a.nc"], "'0' is not a whole number of at least 1"),
    ],
)
def test_wrong_arguments_are_explained(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["sample", *argv])
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert message in err and "usage: kernelmc sample" in err


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nothing.py:f", "FileNotFoundError: 'nothing.py': there is no such file"),
        ("no_such_module:f", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("{source}:g", "has no 'g'"),
        ("{source}:np.nothing", "has no 'np.nothing'"),
    ],
)
def test_a_missing_target(target, message, source, tmp_path, capsys):
    assert kmc_sample(target.format(source=source), "--dim", 2, "--output", tmp_path / "a.nc") == 1
    assert message in capsys.readouterr().err


def test_a_file_with_the_name_of_another_module(tmp_path, capsys):
    path = tmp_path / "json.py"
    path.write_text(SOURCE)
    assert kmc_sample(f"{path}:log_density", "--dim", 2, "--output", tmp_path / "a.nc") == 1
    assert "has the name of another module" in capsys.readouterr().err


def test_errors_name_the_options(source, tmp_path, capsys):
    assert kmc_sample(f"{source}:log_density", "--output", tmp_path / "a.nc") == 1
    err = capsys.readouterr().err
    assert (
        "--dim: a bare callable needs its number of parameters, such as --dim 3" in err
        and "dim=" not in err
    )
    assert (
        kmc_sample(
            f"{source}:log_density",
            "--dim",
            2,
            "--max-evaluations",
            3,
            "--output",
            tmp_path / "a.nc",
        )
        == 1
    )
    assert "--max-evaluations 3: too few" in capsys.readouterr().err


def test_a_name_may_have_colons_before_it():
    assert as_name(r"C:\models\ode.py:f") == (r"C:\models\ode.py", "f")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("start.txt", "1,2", "expected a file .npy or .csv"),
        ("start.csv", "a,b\n1,2", "start.csv"),
        ("no.csv", None, "no.csv"),
    ],
)
def test_start_points_that_cannot_be_read(name, content, message, source, tmp_path, capsys):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    assert (
        kmc_sample(
            f"{source}:log_density", "--dim", 2, "--initial", path, "--output", tmp_path / "a.nc"
        )
        == 1
    )
    assert message in capsys.readouterr().err
