"""Zarr arrays that grow by rows, and whose rows are never written again.

They are written here, as the specification has them (https://zarr-specs.readthedocs.io, version 3), not by the zarr
package, which replaces a chunk to add to it. Chunks are not compressed: a row is added where it belongs in the file, no
byte before it is touched, and it takes microseconds.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kmc.run.store.files import replace

CHUNK_BYTES = 2**18


class Damaged(Exception):
    """Bytes that were written are gone or are others."""


class Column:
    """An array of rows of one shape, in a folder of its own that :meth:`create` made."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._metadata = read_json(folder / "zarr.json")
        self.row_shape = tuple(self._metadata["shape"][1:])
        self.dtype = np.dtype(self._metadata["data_type"]).newbyteorder("<")
        self._chunk_rows = self._metadata["chunk_grid"]["configuration"]["chunk_shape"][0]
        self._row_bytes = self.dtype.itemsize * int(np.prod(self.row_shape))

    @classmethod
    def create(cls, folder: Path, dtype: Any, row_shape: Sequence[int], dims: Sequence[str] | None = None) -> Column:
        """An array of no rows; ``dims`` names its dimensions, that of the rows first."""
        dtype = np.dtype(dtype)
        row_bytes = max(dtype.itemsize * int(np.prod(row_shape)), 1)
        chunk_shape = [max(CHUNK_BYTES // row_bytes, 16), *(max(size, 1) for size in row_shape)]
        metadata = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [0, *row_shape],
            "data_type": dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk_shape}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": {"b": False, "f": "NaN", "c": [0.0, 0.0]}.get(dtype.kind, 0),
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "attributes": {},
        }
        if dims is not None:
            metadata["dimension_names"] = list(dims)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "zarr.json", metadata)
        return cls(folder)

    def put(self, start: int, rows: np.ndarray, crc: int = 0) -> int:
        """Write rows (k, ...) from row ``start`` on; returns the checksum of all rows, given that of those before."""
        if not np.can_cast(rows.dtype, self.dtype, "safe"):
            raise TypeError(
                f"{self.folder.name} was of type {self.dtype.name} and is {rows.dtype.name} now: return one type always"
            )
        rows = np.ascontiguousarray(rows, self.dtype)
        crc = zlib.crc32(rows.data, crc)
        end = start + len(rows)
        while len(rows):
            chunk, offset = divmod(start, self._chunk_rows)
            n = min(len(rows), self._chunk_rows - offset)
            path = self._path(chunk)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            with path.open("r+b") as file:
                file.truncate(self._chunk_rows * self._row_bytes)  # grows it: a chunk has one size
                file.seek(offset * self._row_bytes)
                file.write(rows[:n].tobytes())
            start, rows = start + n, rows[n:]
        if end > self._metadata["shape"][0]:
            self.set_length(-(-end // self._chunk_rows) * self._chunk_rows)
        return crc

    def set_length(self, rows: int) -> None:
        """The number of rows that readers see: of whole chunks while it grows."""
        if self._metadata["shape"][0] != rows:
            self._metadata["shape"][0] = rows
            write_json(self.folder / "zarr.json", self._metadata)

    def read(self, stop: int, crc: int) -> np.ndarray:
        """The first ``stop`` rows.

        Raises
        ------
        Damaged
            They are not those whose checksum is ``crc``.
        """
        chunks = [self._read(chunk) for chunk in range(-(-stop // self._chunk_rows))]
        rows = np.concatenate([np.empty((0, *self.row_shape), self.dtype), *chunks])[:stop]
        if zlib.crc32(rows.data) != crc:
            raise Damaged(f"{self.folder}: the checksum differs")
        return rows

    def _read(self, chunk):
        path = self._path(chunk)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise Damaged(f"{path}: {error.strerror}") from error
        if len(content) != self._chunk_rows * self._row_bytes:
            raise Damaged(f"{path} has {len(content)} bytes instead of {self._chunk_rows * self._row_bytes}")
        return np.frombuffer(content, self.dtype).reshape(self._chunk_rows, *self.row_shape)

    def _path(self, chunk):
        return self.folder.joinpath("c", str(chunk), *("0" for _ in self.row_shape))


class Table:
    """Columns of equal length in one folder; each is made when its first rows come.

    Parameters
    ----------
    folder : Path
    dims : tuple of str
        Names of the first dimensions of every column.
    """

    def __init__(self, folder: Path, dims: tuple[str, ...]):
        self.folder, self._dims = folder, dims
        self._columns: dict[str, Column] = {}

    def put(
        self,
        start: int,
        columns: Mapping[str, np.ndarray],
        crcs: Mapping[str, int],
        dims: Mapping[str, Sequence[str]] | None = None,
    ) -> dict[str, int]:
        """Write rows of all columns from row ``start`` on.

        ``dims`` names further dimensions of single columns. Takes the checksum of each column before, and returns those
        after.
        """
        return {
            name: self._column(name, rows, (dims or {}).get(name)).put(start, rows, crcs.get(name, 0))
            for name, rows in columns.items()
        }

    def read(self, stop: int, crcs: Mapping[str, int]) -> dict[str, np.ndarray]:
        """The first ``stop`` rows of the columns that have checksums; Damaged if they are not what was written."""
        try:
            return {name: Column(self.folder / name).read(stop, crc) for name, crc in crcs.items()}
        except (OSError, ValueError, KeyError) as error:
            raise Damaged(f"{self.folder}: {error}") from error

    def zeros(self, n: int, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Rows of zeros for some of the columns."""
        columns = (Column(self.folder / name) for name in names)
        return {column.folder.name: np.zeros((n, *column.row_shape), column.dtype) for column in columns}

    def _column(self, name, rows, dims):
        if name not in self._columns:
            folder = self.folder / name
            if (folder / "zarr.json").exists():
                self._columns[name] = Column(folder)
            else:
                make_group(self.folder)
                self._columns[name] = Column.create(folder, rows.dtype, rows.shape[1:], self._named(rows.ndim, dims))
        return self._columns[name]

    def _named(self, ndim, dims):
        known = (*self._dims, *(dims or ()))[:ndim]
        return [*known, *(f"dim_{i}" for i in range(ndim - len(known)))]


def put_bytes(folder: Path, content: bytes) -> dict[str, int]:
    """An array of bytes; returns what :func:`get_bytes` asks for."""
    make_group(folder.parent)
    column = Column.create(folder, np.uint8, ())
    crc = column.put(0, np.frombuffer(content, np.uint8))
    return {"size": len(content), "crc": crc}


def get_bytes(folder: Path, size: int, crc: int) -> bytes:
    """What :func:`put_bytes` wrote, or Damaged."""
    try:
        return Column(folder).read(size, crc).tobytes()
    except (OSError, ValueError, KeyError) as error:
        raise Damaged(f"{folder}: {error}") from error


def make_group(folder: Path) -> None:
    """Make a folder a Zarr group."""
    if not (folder / "zarr.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}})


def read_json(path: Path) -> dict[str, Any]:
    """A file of JSON."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a file of JSON."""
    replace(path, json.dumps(content).encode())
