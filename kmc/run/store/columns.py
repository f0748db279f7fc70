"""Zarr arrays that grow by rows, and whose rows are never rewritten.

They are written here, following the specification (https://zarr-specs.readthedocs.io, version 3), not by the zarr
package, which rewrites a chunk to append to it. Chunks are not compressed: a row is written at its place in the file,
earlier bytes are not touched, and it takes microseconds.

The checksums of chunks are in the commit that counts their rows; a JSON file contains its own.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kmc.run.store.files import Damaged, replace, write_at

CHUNK_BYTES = 2**18

_CHECKSUM = "kmc_checksum"


Record = dict[str, Any]
"""What is needed to read a column: "dtype", "shape" of a row, and "crcs", a checksum for each chunk."""


class StoredColumn:
    """An array of rows of one type and shape, in a folder of its own; ``dims`` names its dimensions, rows first.

    Its metadata are for other readers; kmc uses the record in the commit.
    """

    def __init__(self, folder: Path, dtype: Any, row_shape: Sequence[int], dims: Sequence[str] | None = None):
        self.folder, self._dims = folder, dims
        self.row_shape = tuple(row_shape)
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self._row_bytes = self.dtype.itemsize * int(np.prod(self.row_shape))
        self._chunk_rows = max(CHUNK_BYTES // max(self._row_bytes, 1), 16)
        self._length: int | None = None

    @classmethod
    def of(cls, folder: Path, record: Record) -> StoredColumn:
        """The column with this record."""
        return cls(folder, record["dtype"], record["shape"])

    def record(self, crcs: Sequence[int]) -> Record:
        """The record that :meth:`of` and :meth:`read` need."""
        return {"dtype": self.dtype.name, "shape": list(self.row_shape), "crcs": list(crcs)}

    def put(self, start: int, rows: np.ndarray, crcs: Sequence[int] = ()) -> list[int]:
        """Write rows (k, ...) from row ``start`` on.

        Takes the checksums of the earlier rows, one for each chunk, and returns those of all rows.
        """
        if rows.dtype.kind in "iu" and self.dtype.kind in "iu" and np.array_equal(rows.astype(self.dtype), rows):
            rows = rows.astype(self.dtype)  # an earlier version wrote integers of another width
        if not np.can_cast(rows.dtype, self.dtype, "safe"):
            raise TypeError(
                f"{self.folder.name} was of type {self.dtype.name} and is {rows.dtype.name} now: return one type always"
            )
        rows = np.ascontiguousarray(rows, self.dtype)
        crcs, end = list(crcs), start + len(rows)
        while len(rows):
            chunk, offset = divmod(start, self._chunk_rows)
            n = min(len(rows), self._chunk_rows - offset)
            content = rows[:n].tobytes()
            write_at(self._path(chunk), self._chunk_rows * self._row_bytes, offset * self._row_bytes, content)
            crcs[chunk:] = [zlib.crc32(content, crcs[chunk] if offset else 0)]
            start, rows = start + n, rows[n:]
        if self._length is None or end > self._length:
            self.set_length(-(-end // self._chunk_rows) * self._chunk_rows)
        return crcs

    def set_length(self, rows: int) -> None:
        """Set the number of rows that readers see: whole chunks while it grows."""
        path = self.folder / "zarr.json"
        try:
            metadata = {**read_json(path), "shape": [rows, *self.row_shape]}
        except Damaged:  # or it does not exist yet
            metadata = self._metadata(rows)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(path, metadata)
        self._length = rows

    def _metadata(self, rows):
        metadata = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [rows, *self.row_shape],
            "data_type": self.dtype.name,
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": [self._chunk_rows, *(max(size, 1) for size in self.row_shape)]},
            },
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": {"b": False, "f": "NaN", "c": [0.0, 0.0]}.get(self.dtype.kind, 0),
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "attributes": {},
        }
        return metadata if self._dims is None else {**metadata, "dimension_names": list(self._dims)}

    def read(self, start: int, stop: int, crcs: Sequence[int], n: int) -> np.ndarray:
        """Rows start..stop, of the n rows that have these checksums.

        Raises
        ------
        Damaged
            They differ from what was written.
        """
        first, size = start // self._chunk_rows, self._chunk_rows
        chunks = [
            self._read(chunk, crcs[chunk], min(n - chunk * size, size)) for chunk in range(first, -(-stop // size))
        ]
        rows = np.concatenate([np.empty((0, *self.row_shape), self.dtype), *chunks])
        return rows[start - first * size : stop - first * size]

    def _read(self, chunk, crc, n):
        """The first n rows of a chunk."""
        path = self._path(chunk)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise Damaged(f"{path} cannot be read: {error.strerror}") from error
        if len(content) != self._chunk_rows * self._row_bytes:
            raise Damaged(f"{path} has {len(content)} bytes instead of {self._chunk_rows * self._row_bytes}")
        content = content[: n * self._row_bytes]
        if zlib.crc32(content) != crc:
            raise Damaged(f"{path} does not hold what was written: its checksum differs")
        return np.frombuffer(content, self.dtype).reshape(n, *self.row_shape)

    def _path(self, chunk):
        return self.folder.joinpath("c", str(chunk), *("0" for _ in self.row_shape))


class Table:
    """Columns of equal length in one folder; each is created with its first rows.

    Parameters
    ----------
    folder : Path
    dims : tuple of str
        Names of the first dimensions of every column.
    """

    def __init__(self, folder: Path, dims: tuple[str, ...]):
        self.folder, self._dims = folder, dims
        self._columns: dict[str, StoredColumn] = {}

    def put(
        self,
        start: int,
        columns: Mapping[str, np.ndarray],
        known: Mapping[str, Record],
        dims: Mapping[str, Sequence[str]] | None = None,
    ) -> dict[str, Record]:
        """Write rows of all columns from row ``start`` on.

        ``dims`` names further dimensions of single columns. Takes the earlier records of the columns, and returns the
        new ones.
        """
        return {
            name: self._put(name, start, rows, known.get(name), (dims or {}).get(name))
            for name, rows in columns.items()
        }

    def read(self, n: int, known: Mapping[str, Record]) -> dict[str, np.ndarray]:
        """The n rows of the columns that have records; Damaged if they differ from what was written."""
        return {
            name: StoredColumn.of(self.folder / name, record).read(0, n, record["crcs"], n)
            for name, record in known.items()
        }

    def zeros(self, n: int, known: Mapping[str, Record]) -> dict[str, np.ndarray]:
        """Rows of zeros for the columns that have records."""
        return {name: np.zeros((n, *record["shape"]), record["dtype"]) for name, record in known.items()}

    def _put(self, name, start, rows, record, dims):
        if name not in self._columns:
            make_group(self.folder)
            dtype, shape = (rows.dtype, rows.shape[1:]) if record is None else (record["dtype"], record["shape"])
            self._columns[name] = StoredColumn(self.folder / name, dtype, shape, self._named(rows.ndim, dims))
        column = self._columns[name]
        return column.record(column.put(start, rows, () if record is None else record["crcs"]))

    def _named(self, ndim, dims):
        known = (*self._dims, *(dims or ()))[:ndim]
        return [*known, *(f"dim_{i}" for i in range(ndim - len(known)))]


class Rows:
    """The n rows of a column, read and checked by slices."""

    def __init__(self, folder: Path, record: Record, n: int):
        self._column, self._crcs = StoredColumn.of(folder, record), record["crcs"]
        self.shape, self.dtype = (n, *self._column.row_shape), self._column.dtype

    def __getitem__(self, key: slice) -> np.ndarray:
        return self._column.read(key.start, key.stop, self._crcs, self.shape[0])


def put_bytes(folder: Path, content: bytes) -> dict[str, Any]:
    """Write an array of bytes; return what :func:`get_bytes` needs."""
    make_group(folder.parent)
    column = StoredColumn(folder, np.uint8, ())
    return {"size": len(content), "crcs": column.put(0, np.frombuffer(content, np.uint8))}


def get_bytes(folder: Path, size: int, crcs: Sequence[int]) -> bytes:
    """The bytes that :func:`put_bytes` wrote, or Damaged."""
    return StoredColumn(folder, np.uint8, ()).read(0, size, crcs, size).tobytes()


def make_group(folder: Path) -> None:
    """Make a folder a Zarr group."""
    if not (folder / "zarr.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}})


def read_json(path: Path) -> dict[str, Any]:
    """A file that :func:`write_json` wrote, or Damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        checksum = content["attributes"].pop(_CHECKSUM)
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"{path} does not hold what was written: {type(error).__name__}: {error}") from error
    if checksum != _checksum(content):
        raise Damaged(f"{path} does not hold what was written: its checksum differs")
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a JSON file; a checksum is added to its attributes."""
    attributes = {**content["attributes"], _CHECKSUM: _checksum(content)}
    replace(path, json.dumps({**content, "attributes": attributes}).encode())


def has_checksum(content: Mapping[str, Any]) -> bool:
    """Whether JSON is from :func:`write_json`, damaged or not."""
    return _CHECKSUM in content["attributes"]


def _checksum(content: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
