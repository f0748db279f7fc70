"""zarr can read columns, and damage is detected."""

import json

import numpy as np
import pytest

from kmc.run.store.columns import CHUNK_BYTES, Column, put_rows, read_rows
from kmc.run.store.files import Damaged, Folder

TYPES = ["float64", "bool", "int8", "int32", "complex128", "uint64"]


def put(path, start, rows, known=None, dims=("draw", "chain"), **others):
    return put_rows(Folder(path), "table", start, {"x": rows}, known or {}, {"": dims, **others})


def column(path, records):
    return Column(Folder(path), "table", "x", json.loads(json.dumps(records["x"])))


@pytest.mark.parametrize("dtype", TYPES)
def test_zarr_reads_what_was_put(tmp_path, dtype):
    zarr = pytest.importorskip("zarr")
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (2500, 3, 40)).astype(dtype)
    records, start = {}, 0
    for stop in (1, 2, 700, 701, 2500):
        records = put(tmp_path, start, rows[start:stop], records, x=["x_dim_0"])
        start = stop
        array = zarr.open_group(tmp_path / "table", mode="r")["x"]
        assert array.dtype == dtype
        assert np.array_equal(array[:stop], rows[:stop])
    again = column(tmp_path, records)
    for start, stop in ((0, 2500), (701, 702), (0, 0), (2499, 2500)):
        assert np.array_equal(again.read(start, stop, 2500), rows[start:stop])
    again.set_length(2500)
    array = zarr.open_array(tmp_path / "table" / "x", mode="r")
    assert array.shape == (2500, 3, 40)
    assert array.metadata.dimension_names == ("draw", "chain", "x_dim_0")


pytestmark = pytest.mark.packages


def test_rows_before_are_not_touched(tmp_path):
    records = put(tmp_path, 0, np.arange(10.0))
    before = (tmp_path / "table/x/c/0").read_bytes()
    put(tmp_path, 10, np.full(5, np.pi), records)
    after = (tmp_path / "table/x/c/0").read_bytes()
    assert len(before) == len(after) == CHUNK_BYTES
    assert next(i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b) >= 80


def test_a_column_that_comes_later_is_zero_before(tmp_path):
    records = put_rows(Folder(tmp_path), "table", 3, {"x": np.ones((2, 2))}, {}, {"": ("draw",)})
    assert records["x"]["dims"] == ["draw", "dim_0"]
    np.testing.assert_array_equal(
        read_rows(Folder(tmp_path), "table", 5, records)["x"][:, 0], [0, 0, 0, 1, 1]
    )


@pytest.mark.parametrize(
    "name", ["../x", "/etc/x", "a\0b", "..", "", "ä/ö", "x" * 5000, "con:", "\udcff"]
)
def test_any_name_is_a_file_in_its_table(tmp_path, name):
    records = put_rows(
        Folder(tmp_path / "store"), "table", 0, {name: np.ones(4)}, {}, {"": ("draw",)}
    )
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert len(list((tmp_path / "store" / "table").glob("*/c/0"))) == 1
    assert read_rows(Folder(tmp_path / "store"), "table", 4, records)[name].sum() == 4.0


def test_a_row_that_does_not_fit_its_column(tmp_path):
    records = put(tmp_path, 0, np.array([1]))
    with pytest.raises(TypeError, match="x.*int64.*float64"):
        put(tmp_path, 1, np.array([0.5]), records)


def test_only_the_chunk_that_is_damaged_cannot_be_read(tmp_path):
    rows = np.arange(100_000.0)
    records = put(tmp_path, 50_000, rows[50_000:], put(tmp_path, 0, rows[:50_000]))
    assert len(records["x"]["crcs"]) == 4
    with (tmp_path / "table/x/c/1").open("r+b") as file:
        file.seek(77)
        file.write(b"!")
    size, whole = CHUNK_BYTES // 8, column(tmp_path, records)
    assert np.array_equal(whole.read(2 * size, 100_000, 100_000), rows[2 * size :])
    assert np.array_equal(whole.read(0, size, 100_000), rows[:size])
    with pytest.raises(
        Damaged, match=r"x/c/1 does not hold what was written: its checksum differs"
    ):
        whole.read(0, size + 1, 100_000)
