"""Zarr arrays that grow by rows, and whose rows are never rewritten.

They are written here, following the specification (https://zarr-specs.readthedocs.io, version 3),
not by the zarr package, which rewrites a chunk to append to it. Chunks are not compressed: a row is
written at its place in the file, earlier bytes are not touched, and it takes microseconds.

The checksums of chunks are in the commit that counts their rows. The metadata of an array are for
other readers.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kmc.run.store.files import Damaged, Folder, quoted

CHUNK_BYTES = 2**18
LEAST_ROWS = 16

Record = dict[str, Any]
"""What is needed to read a column: "dtype", "shape" of a row, "dims" and "crcs".

"crcs" has a checksum for each chunk.
"""


class Column:
    """An array of rows of one type and shape, in a folder of its own.

    Parameters
    ----------
    folder : Folder
    table, name : str
        Its place in the store.
    record : Record
    """

    def __init__(self, folder: Folder, table: str, name: str, record: Record):
        self._folder, self._place = folder, f"{table}/{quoted(name)}"
        self._record, self.name = record, name
        self.dtype = np.dtype(record["dtype"]).newbyteorder("<")
        self.row_shape = tuple(record["shape"])
        self._row_bytes, self._chunk_rows = sizes(record)

    def put(self, start: int, rows: np.ndarray) -> Record:
        """Write rows (k, ...) from row ``start`` on; return the new record."""
        if not np.can_cast(rows.dtype, self.dtype, "safe"):
            raise TypeError(
                f"{self.name!r} was of type {self.dtype.name} and is {rows.dtype.name} now: "
                f"return one type always"
            )
        rows = np.ascontiguousarray(rows, self.dtype)
        crcs = list(self._record["crcs"])
        size = self._chunk_rows * self._row_bytes
        while len(rows):
            chunk, offset = divmod(start, self._chunk_rows)
            n = min(len(rows), self._chunk_rows - offset)
            content = rows[:n].tobytes()
            self._folder.write_at(self._chunk(chunk), size, offset * self._row_bytes, content)
            crcs[chunk:] = [zlib.crc32(content, crcs[chunk] if offset else 0)]
            if not offset:
                self.set_length((chunk + 1) * self._chunk_rows)
            start, rows = start + n, rows[n:]
        return {**self._record, "crcs": crcs}

    def set_length(self, rows: int) -> None:
        """Set the number of rows that other readers see: whole chunks while it grows."""
        metadata = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [rows, *self.row_shape],
            "data_type": self.dtype.name,
            "chunk_grid": {
                "name": "regular",
                "configuration": {
                    "chunk_shape": [self._chunk_rows, *(max(size, 1) for size in self.row_shape)]
                },
            },
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": {"b": False, "f": "NaN", "c": [0.0, 0.0]}.get(self.dtype.kind, 0),
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "attributes": {},
            "dimension_names": self._record["dims"],
        }
        self._folder.write_json(f"{self._place}/zarr.json", metadata)

    def read(self, start: int, stop: int, n: int) -> np.ndarray:
        """Return rows start..stop of the n rows that were committed.

        Raises
        ------
        Damaged
            They differ from what was written.
        """
        first, size = start // self._chunk_rows, self._chunk_rows
        chunks = [
            self._read(chunk, min(n - chunk * size, size))
            for chunk in range(first, -(-stop // size))
        ]
        rows = np.concatenate([np.empty((0, *self.row_shape), self.dtype), *chunks])
        return rows[start - first * size : stop - first * size]

    def _read(self, chunk, n):
        """Return the first n rows of a chunk."""
        content = self._folder.read(self._chunk(chunk), self._chunk_rows * self._row_bytes)[
            : n * self._row_bytes
        ]
        if zlib.crc32(content) != self._record["crcs"][chunk]:
            path = self._folder.path / self._chunk(chunk)
            raise Damaged(f"{path} does not hold what was written: its checksum differs")
        return np.frombuffer(content, self.dtype).reshape(n, *self.row_shape)

    def _chunk(self, number):
        return "/".join([self._place, "c", str(number), *("0" for _ in self.row_shape)])


class Rows:
    """The n rows of a column, read and checked by slices."""

    def __init__(self, column: Column, n: int):
        self._column = column
        self.shape, self.dtype = (n, *column.row_shape), column.dtype

    def __getitem__(self, key: slice) -> np.ndarray:
        return self._column.read(key.start, key.stop, self.shape[0])


def put_rows(
    folder: Folder,
    table: str,
    start: int,
    columns: Mapping[str, np.ndarray],
    known: Mapping[str, Record],
    dims: Mapping[str, Sequence[str]],
) -> dict[str, Record]:
    """Write rows of a table's columns from row ``start`` on; return the records of all its columns.

    A column without a record among the ``known`` is new: where there are rows already, they are
    zero. ``dims`` gives the names of dimensions: first those that all columns share, under the
    empty name, then those of single columns.
    """
    found = dict(known)
    for name, rows in columns.items():
        at, record = start, known.get(name)
        if record is None:
            make_group(folder, table)
            rows = np.concatenate([np.zeros((start, *rows.shape[1:]), rows.dtype), rows])
            at = 0
            named = [*dims[""], *dims.get(name, ())][: rows.ndim]
            named += [f"dim_{i}" for i in range(rows.ndim - len(named))]
            record = {
                "dtype": rows.dtype.name,
                "shape": list(rows.shape[1:]),
                "dims": named,
                "crcs": [],
            }
        found[name] = Column(folder, table, name, record).put(at, rows)
    return found


def read_rows(
    folder: Folder, table: str, n: int, known: Mapping[str, Record]
) -> dict[str, np.ndarray]:
    """Return n rows of the columns that have records; Damaged if they are not what was written."""
    return {
        name: Column(folder, table, name, record).read(0, n, n) for name, record in known.items()
    }


def sizes(record: Record) -> tuple[int, int]:
    """Return the bytes of a row, and the number of rows in a chunk."""
    row_bytes = np.dtype(record["dtype"]).itemsize * int(np.prod(record["shape"], dtype=object))
    return row_bytes, max(CHUNK_BYTES // max(row_bytes, 1), LEAST_ROWS)


def make_group(folder: Folder, name: str) -> None:
    """Make a folder of the store a Zarr group."""
    if not folder.exists(f"{name}/zarr.json"):
        folder.write_json(
            f"{name}/zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}}
        )
