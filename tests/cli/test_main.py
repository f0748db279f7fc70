import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

from kmc import _version, cli, demo
from kmc.cli import in_options
from kmc.model import lotka_volterra as lv


@pytest.mark.slow
def test_demo_runs_from_end_to_end(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    xarray = pytest.importorskip("xarray")
    directory = tmp_path / "new"
    assert (
        cli.main(
            [
                "demo",
                "--directory",
                str(directory),
                "--evaluations",
                "400",
                "--seed",
                "3",
                "--quiet",
            ]
        )
        == 0
    )

    out = capsys.readouterr().out
    for name, (mean, _) in lv.PUBLISHED.items():
        assert re.search(rf"^{name} .* {mean:.2g} \(", out, re.MULTILINE)
    evaluations = int(re.search(r"^([\d,]+) simulations", out, re.MULTILINE)[1].replace(",", ""))
    assert 0 < evaluations <= 400

    draws, picture = directory / "kmc-demo.nc", directory / "kmc-demo.png"
    assert str(draws) in out
    assert str(picture) in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    with xarray.open_dataset(draws, group="posterior", engine="h5netcdf") as posterior:
        assert tuple(posterior.data_vars) == lv.PARAMETERS
        assert posterior.sizes["chain"] == 4
        assert all(float(posterior[name].min()) > 0 for name in lv.PARAMETERS)
    with xarray.open_dataset(draws, group="sample_stats", engine="h5netcdf") as stats:
        assert "lp" in stats
        x = demo._draws({"posterior": posterior.load()})
        np.testing.assert_allclose(lv.log_density(x[0]), stats["lp"].values.ravel()[0], atol=1e-6)


def test_demo_hands_its_options_on(monkeypatch):
    calls = []
    monkeypatch.setattr(
        demo, "run", lambda directory, **options: calls.append((directory, options))
    )
    assert cli.main(["demo"]) == 0
    assert (
        cli.main(["demo", "--directory", "d", "--evaluations", "70", "--seed", "0", "--quiet"]) == 0
    )
    assert calls == [
        (".", {"max_evaluations": 2000, "seed": 1900, "progress": True}),
        ("d", {"max_evaluations": 70, "seed": 0, "progress": False}),
    ]


def test_without_matplotlib_the_demo_stops_before_it_samples(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main(["demo", "--directory", str(tmp_path)]) == 1
    assert 'pip install "kernelmc[plots]"' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_error_is_one_sentence_unless_debugging(monkeypatch, capsys):
    def fail(*_, **__):
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(demo, "run", fail)
    assert cli.main(["demo"]) == 1
    err = capsys.readouterr().err
    assert "kernelmc: RuntimeError: the disk is full" in err
    assert "Traceback" not in err
    assert cli.main(["demo", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--debug"]])
def test_nothing_that_is_printed_controls_the_terminal(options, monkeypatch, capsys):
    def fail(*_, **__):
        warnings.warn("\x1b]0;a warning\x07", UserWarning, stacklevel=1)
        raise RuntimeError("no column '\x1b[2J\r\u202e'\nof the file")

    monkeypatch.setattr(demo, "run", fail)
    assert cli.main(["demo", *options]) == 1
    out, err = capsys.readouterr()
    assert {c for c in out + err if not c.isprintable()} == {"\n"}
    assert r"no column '\x1b[2J\r\u202e'" in err and r"\x1b]0;a warning\x07" in err


def test_an_interrupt_has_its_own_exit_code(monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", interrupt)
    assert cli.main(["demo"]) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "COMMAND"),
        (["dmeo"], "dmeo"),
        (["demo", "--evaluations", "0"], "'0' is not a whole number of at least 1"),
        (["demo", "--seed", "one"], "'one' is not a whole number of at least 0"),
    ],
)
def test_wrong_arguments_are_explained(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_help_shows_an_example_and_version_the_version(capsys):
    for argv, text in (
        (["--help"], "kernelmc demo --directory"),
        (["--version"], f"kernelmc {_version.__version__}"),
    ):
        with pytest.raises(SystemExit) as stop:
            cli.main(argv)
        assert stop.value.code == 0
        assert text in capsys.readouterr().out


def test_help_does_not_wait_for_heavy_imports():
    code = (
        "import sys, kmc.cli; "
        "print(*{'numba', 'arviz', 'xarray', 'matplotlib', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("max_evaluations=5: too few", "--max-evaluations 5: too few"),
        ("sampler='hmc': expected one of 'a'", "--sampler 'hmc': expected one of 'a'"),
        ("chains=3: divide it, such as chains=4", "--chains 3: divide it, such as --chains 4"),
        ("sigma=None, x=[1]", "sigma=None, x=[1]"),  # not one of ours
    ],
)
def test_messages_name_options(message, said):
    assert in_options(message, ["max_evaluations", "sampler", "chains", "dim"]) == said
