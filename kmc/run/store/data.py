"""Data stored with a model's draws, such as a PyMC model's observations: written once, in a file of their own."""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kmc.run.store.files import Damaged, replace

FILE = "data.npz"


def write_data(folder: Path, data: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Write arrays by group and name; return the record that :func:`read_data` needs, empty if there are no arrays.

    It holds the dimensions of each array, and a checksum of the file.
    """
    arrays = {f"{group}/{name}": array for group, named in data.items() for name, (_, array) in named.items()}
    if not arrays:
        return {}
    dims = {group: {name: list(dims) for name, (dims, _) in named.items()} for group, named in data.items()}
    return {"dims": dims, "crc": write_arrays(folder / FILE, arrays)}


def read_data(folder: Path, record: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Read them by group and name, dimensions and array; Damaged if the file differs from what was written."""
    if not record:
        return {}
    arrays = read_arrays(folder / FILE, record["crc"])
    return {
        group: {name: (tuple(of), arrays[f"{group}/{name}"]) for name, of in named.items()}
        for group, named in record["dims"].items()
    }


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> int:
    """Write a file of arrays in one step; return its checksum."""
    file = io.BytesIO()
    np.savez(file, **{name: _plain(array) for name, array in arrays.items()})
    replace(path, file.getvalue())
    return zlib.crc32(file.getvalue())


def read_arrays(path: Path, crc: int) -> dict[str, np.ndarray]:
    """The arrays in a file, by name; Damaged if it differs from what was written."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    if zlib.crc32(content) != crc:
        raise Damaged(f"{path} does not hold what was written: its checksum differs")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


def _plain(array):
    """An array without Python objects, which NumPy would pickle."""
    array = np.asarray(array)
    return array.astype(str) if array.dtype == object else array
