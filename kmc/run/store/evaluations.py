"""Evaluations in a store: those that its run made, and those that it was given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kmc.run.store.columns import Damaged, Table
from kmc.run.store.commit import StoreError, read_commit

_FILE = "evaluations.npz"


def stored_evaluations(path: Any) -> tuple[list[str], np.ndarray, np.ndarray]:
    """All that the run in a store has evaluated so far.

    Returns
    -------
    names : list of str
        Of its parameters.
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
        columns = Table(folder / "history", ("evaluation",)).read(commit.n_evaluations, commit.crcs.get("history", {}))
    except Damaged as error:
        raise StoreError(f"history={str(folder)!r} is damaged: {error}") from error
    return list(asked["parameters"]), columns["point"], columns["value"]


def write_given(folder: Path, given: Any) -> None:
    """Keep the evaluations that a run was given, points `x` and `values`, if there are any."""
    if given is not None:
        np.savez(folder / _FILE, x=given.x, values=given.values)


def read_given(folder: Path, settings: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """The same again: points and values; None if the run's settings say that there were none."""
    if settings.get("history") is None:
        return None
    try:
        with np.load(folder / _FILE, allow_pickle=False) as arrays:
            return arrays["x"], arrays["values"]
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(f"store={str(folder)!r} is damaged, and the run cannot go on: {_FILE}: {error}") from error
