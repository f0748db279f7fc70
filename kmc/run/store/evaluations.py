"""Evaluations in a store: those that its run made, and those of its ``history``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kmc.run.store.columns import Table
from kmc.run.store.commit import read_commit
from kmc.run.store.data import read_arrays, write_arrays
from kmc.run.store.files import Damaged, StoreError

EVALUATIONS = "evaluations.npz"


def stored_evaluations(path: Any) -> tuple[list[str], np.ndarray, np.ndarray]:
    """All evaluations that the run in a store has made so far.

    Returns
    -------
    names : list of str
        Names of its parameters.
    points : ndarray, shape (n, d)
        Unconstrained.
    values : ndarray, shape (n,)
        Log-Jacobians included.

    Raises
    ------
    FileNotFoundError, StoreError
        There is no store, or it is damaged.
    """
    folder = Path(path)
    header, commit = read_commit(folder)
    asked = header["settings"]
    if not commit.n_evaluations:
        return list(asked["parameters"]), np.empty((0, asked["dim"])), np.empty(0)
    try:
        columns = Table(folder / "history", ("evaluation",)).read(
            commit.n_evaluations, commit.columns.get("history", {})
        )
    except Damaged as error:
        raise StoreError(f"history={str(folder)!r} is damaged: {error}") from error
    return list(asked["parameters"]), columns["point"], columns["value"]


def write_given(folder: Path, given: Any) -> int | None:
    """Write the evaluations of a ``history``, points `x` and values `values`, if any; return the checksum."""
    return None if given is None else write_arrays(folder / EVALUATIONS, {"x": given.x, "values": given.values})


def read_given(folder: Path, header: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Read them: points and values; None if the store's header says that there are none."""
    if header["evaluations"] is None:
        return None
    try:
        arrays = read_arrays(folder / EVALUATIONS, header["evaluations"])
    except Damaged as error:
        raise StoreError(f"store={str(folder)!r} is damaged, and the run cannot be resumed: {error}") from error
    return arrays["x"], arrays["values"]
