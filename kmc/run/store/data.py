"""Data that go with a model's draws, such as a PyMC model's observations: written once, beside the arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_FILE = "data.npz"


def write_data(folder: Path, data: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Keep arrays by group and name; the dimensions of each are returned, for the store's header."""
    arrays = {f"{group}/{name}": array for group, named in data.items() for name, (_, array) in named.items()}
    if arrays:
        np.savez(folder / _FILE, **{name: _plain(array) for name, array in arrays.items()})
    return {group: {name: list(dims) for name, (dims, _) in named.items()} for group, named in data.items()}


def read_data(folder: Path, dims: Mapping[str, Mapping[str, list[str]]]) -> dict[str, dict[str, Any]]:
    """The same again: by group and name, dimensions and array."""
    if not dims:
        return {}
    with np.load(folder / _FILE, allow_pickle=False) as arrays:
        return {
            group: {name: (tuple(of), arrays[f"{group}/{name}"]) for name, of in named.items()}
            for group, named in dims.items()
        }


def _plain(array):
    """Without Python objects, which NumPy would pickle."""
    array = np.asarray(array)
    return array.astype(str) if array.dtype == object else array
