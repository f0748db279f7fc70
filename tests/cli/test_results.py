"""``kernelmc summary`` and ``kernelmc report``, and how draws are written."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray

from kmc import cli
from kmc.cli import results

pytestmark = [
    pytest.mark.filterwarnings("ignore::kmc.KmcWarning"),
    pytest.mark.packages,
]  # the runs are too short to converge


@pytest.fixture
def stuck(tmp_path):
    """A file of chains each of which keeps the sign of a correlation."""
    rng = np.random.default_rng(0)
    x, noise = rng.standard_normal((2, 4, 400))
    y = 0.9 * np.array([1, -1, 1, -1])[:, None] * x + 0.4 * noise
    path = tmp_path / "stuck.nc"
    variables = {name: (("chain", "draw"), values) for name, values in {"x": x, "y": y}.items()}
    xarray.Dataset(variables).to_netcdf(path, group="posterior", engine="h5netcdf")
    return path


def test_a_page_has_the_title_that_is_given(stuck, tmp_path):
    page = tmp_path / "page.html"
    assert cli.main(["report", str(stuck), "--output", str(page), "--title", "Two signs"]) == 0
    assert "<h1>Two signs</h1>" in page.read_text(encoding="utf-8")


def test_a_summary_of_another_library_s_draws(stuck, capsys):
    assert cli.main(["summary", str(stuck)]) == 0
    out = capsys.readouterr().out
    assert "r_hat" in out and out.endswith("4 chains of 400 draws\n")


def test_a_summary_of_many_parameters(tmp_path, capsys):
    path = tmp_path / "many.nc"
    x = np.random.default_rng(0).standard_normal((2, 10, 12))
    labels = {"site": [f"S{i}" for i in range(12)]}
    xarray.Dataset({"x": (("chain", "draw", "site"), x)}, coords=labels).to_netcdf(
        path, group="posterior", engine="h5netcdf"
    )
    assert cli.main(["summary", str(path)]) == 0
    out = capsys.readouterr().out
    assert "x[S9]" in out and "x[S10]" not in out and "and 2 more: kernelmc summary --all" in out
    assert cli.main(["summary", str(path), "--all"]) == 0
    assert "x[S11]" in capsys.readouterr().out
    assert cli.main(["summary", str(path), "--var-names", "x[S11]", "x[S3]"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:3]] == [
        "x[S11]",
        "x[S3]",
    ]


@pytest.mark.parametrize("command", ["summary", "report"])
def test_a_file_cannot_control_the_terminal(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y = np.random.default_rng(0).standard_normal((2, 4, 50))
    dims = ("chain", "draw")
    dataset = xarray.Dataset({"a\x1b[2J": (dims, x), "b\r\u202e": (dims, x * y)})
    dataset.to_netcdf("draws.nc", group="posterior", engine="h5netcdf")
    xarray.Dataset(
        attrs={"warnings": '["\\u001b[31mthe draws are right", "two\\u0007"]'}
    ).to_netcdf("draws.nc", mode="a", engine="h5netcdf")
    cli.main([command, "draws.nc"])
    out, err = capsys.readouterr()
    assert {c for c in out + err if not c.isprintable()} == {"\n"}
    assert command != "summary" or (r"a\x1b[2J" in out and r"warning: \x1b[31mthe draws" in out)


@pytest.mark.parametrize("command", ["summary", "report"])
def test_what_was_not_checked_is_said(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draws = {"x": (("chain", "draw"), np.random.default_rng(0).standard_normal((4, 50)))}
    xarray.Dataset(draws).to_netcdf("draws.nc", group="posterior", engine="h5netcdf")
    attrs = {"warnings": "[]", "not_checked": '["Further modes: no search."]'}
    xarray.Dataset(attrs=attrs).to_netcdf("draws.nc", mode="a", engine="h5netcdf")
    cli.main([command, "draws.nc"])
    if command == "summary":
        assert "not checked: Further modes: no search.\n" in capsys.readouterr().out
    else:
        page = Path("draws.html").read_text()
        assert page.index("Not checked: Further modes: no search.") < page.index(
            "No set of checks is complete"
        )


@pytest.mark.parametrize("command", ["summary", "report"])
def test_nothing_to_read(command, tmp_path, capsys):
    assert cli.main([command, str(tmp_path / "no.nc")]) == 1
    assert "there is no such file or store" in capsys.readouterr().err
    (tmp_path / "text.nc").write_text("no netCDF")
    assert cli.main([command, str(tmp_path / "text.nc")]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_file_that_cannot_be_written_in_full_leaves_the_former_one(tmp_path):
    path = tmp_path / "good.nc"
    path.write_bytes(b"all draws")

    class Full:
        attrs = {}  # noqa: RUF012

        def to_netcdf(self, path, engine):
            Path(path).write_bytes(b"half")
            raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        results._write(Full(), path)
    assert path.read_bytes() == b"all draws" and list(tmp_path.iterdir()) == [path]


def test_an_output_that_is_a_folder(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        results.Output(tmp_path, overwrite=True).check()


def _links(file):
    del file["posterior/x"]
    file["posterior/x"] = h5py.ExternalLink("/etc/passwd", "x")


def _stored_elsewhere(file):
    del file["posterior/x"]
    file["posterior"].create_dataset(
        "x", shape=(4, 400), dtype="f8", external=[("/etc/passwd", 0, 4 * 400 * 8)]
    )


def _virtual(file):
    layout = h5py.VirtualLayout(shape=(4, 400), dtype="f8")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", shape=(4, 400))
    del file["posterior/x"]
    file["posterior"].create_virtual_dataset("x", layout)


def _of_fill_values(file):
    file["posterior"].create_dataset("z", shape=(4, 10**9), dtype="f8", chunks=(4, 1000))


def _deep(file):
    file["posterior"].attrs["warnings"] = file.attrs["warnings"] = "[" * 10**5


def _a_loop(file):
    file["posterior/again"] = file


@pytest.mark.parametrize("command", ["summary", "report"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_links, "posterior/x is a link to another file"),
        (_stored_elsewhere, "posterior/x has its numbers in another file"),
        (_virtual, "posterior/x has its numbers in another file"),
        (_of_fill_values, "posterior/z claims to have 32,000,000,000 bytes"),
        (_deep, "'warnings' of the result is not a JSON list"),
    ],
)
def test_a_file_from_anybody(stuck, tmp_path, monkeypatch, capsys, command, change, message):
    """Nothing outside of it is read, and nothing allocated that it does not hold."""
    monkeypatch.chdir(tmp_path)
    with h5py.File(stuck, "r+") as file:
        change(file)
    assert cli.main([command, str(stuck)]) == 1
    assert message in capsys.readouterr().err


def test_a_file_whose_groups_lead_back(stuck):
    with h5py.File(stuck, "r+") as file:
        _a_loop(file)
    results._check_netcdf(stuck)
