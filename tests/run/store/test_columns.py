"""zarr can read columns, and damage is detected."""

import json

import numpy as np
import pytest
import zarr

from kmc.run.store.columns import CHUNK_BYTES, Damaged, StoredColumn, Table, get_bytes, put_bytes

TYPES = ["float64", "bool", "int8", "int32", "complex128", "uint64"]


@pytest.mark.parametrize("dtype", TYPES)
def test_zarr_reads_what_was_put(tmp_path, dtype):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (2500, 3, 40)).astype(dtype)
    column = StoredColumn(tmp_path / "x", dtype, (3, 40), ["draw", "chain", "x_dim_0"])
    crcs, start = [], 0
    for stop in (1, 2, 700, 701, 2500):
        crcs = column.put(start, rows[start:stop], crcs)
        start = stop
        array = zarr.open_array(tmp_path / "x", mode="r")
        assert array.dtype == dtype
        assert np.array_equal(array[:stop], rows[:stop])
    again = StoredColumn.of(tmp_path / "x", json.loads(json.dumps(column.record(crcs))))
    for start, stop in ((0, 2500), (701, 702), (0, 0), (2499, 2500)):
        assert np.array_equal(again.read(start, stop, crcs, 2500), rows[start:stop])
    column.set_length(2500)
    assert zarr.open_array(tmp_path / "x", mode="r").shape == (2500, 3, 40)
    assert zarr.open_array(tmp_path / "x", mode="r").metadata.dimension_names == ("draw", "chain", "x_dim_0")


def test_rows_before_are_not_touched(tmp_path):
    column = StoredColumn(tmp_path / "x", float, ())
    crcs = column.put(0, np.arange(10.0))
    before = (tmp_path / "x/c/0").read_bytes()
    column.put(10, np.full(5, np.pi), crcs)
    after = (tmp_path / "x/c/0").read_bytes()
    assert len(before) == len(after) == CHUNK_BYTES
    assert next(i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b) >= 80


def test_a_table_is_a_group(tmp_path):
    table = Table(tmp_path / "draws", ("draw", "chain"))
    records = table.put(0, {"a": np.ones((4, 2)), "b": np.zeros((4, 2, 3), int)}, {}, {"b": ["school"]})
    group = zarr.open_group(tmp_path / "draws", mode="r")
    assert group["b"].metadata.dimension_names == ("draw", "chain", "school")
    assert np.array_equal(table.read(4, records)["a"], np.ones((4, 2)))


@pytest.mark.parametrize("harm", ["truncate", "flip", "remove"])
def test_damage_is_seen(tmp_path, harm):
    record = put_bytes(tmp_path / "group" / "bytes", bytes(range(256)) * 5)
    assert get_bytes(tmp_path / "group" / "bytes", **record) == bytes(range(256)) * 5
    chunk = tmp_path / "group" / "bytes" / "c" / "0"
    content = bytearray(chunk.read_bytes())
    if harm == "truncate":
        chunk.write_bytes(content[:700])
    elif harm == "flip":
        content[123] ^= 1
        chunk.write_bytes(content)
    else:
        chunk.unlink()
    with pytest.raises(Damaged, match="bytes/c/0"):
        get_bytes(tmp_path / "group" / "bytes", **record)


def test_a_row_that_does_not_fit_its_column(tmp_path):
    column = StoredColumn(tmp_path / "x", "int64", ())
    with pytest.raises(TypeError, match="x.*int64.*float64"):
        column.put(0, np.array([0.5]))


def test_only_the_chunk_that_is_damaged_cannot_be_read(tmp_path):
    column = StoredColumn(tmp_path / "x", float, ())
    rows = np.arange(100_000.0)
    crcs = column.put(0, rows[:50_000])
    crcs = column.put(50_000, rows[50_000:], crcs)
    assert len(crcs) == 4
    with (tmp_path / "x/c/1").open("r+b") as file:
        file.seek(77)
        file.write(b"!")
    size = CHUNK_BYTES // 8
    assert np.array_equal(column.read(2 * size - 1 + 1, 100_000, crcs, 100_000), rows[2 * size :])
    assert np.array_equal(column.read(0, size, crcs, 100_000), rows[:size])
    with pytest.raises(Damaged, match=r"x/c/1 does not hold what was written: its checksum differs"):
        column.read(0, size + 1, crcs, 100_000)


def test_metadata_that_are_damaged_are_written_anew(tmp_path):
    column = StoredColumn(tmp_path / "x", float, (2,), ["draw", "chain"])
    crcs = column.put(0, np.ones((3, 2)))
    (tmp_path / "x/zarr.json").write_text("{")
    again = StoredColumn(tmp_path / "x", float, (2,), ["draw", "chain"])
    again.put(3, np.zeros((1, 2)), crcs)
    assert zarr.open_array(tmp_path / "x", mode="r")[:4].sum() == 6.0
