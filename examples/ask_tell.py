"""Evaluations by someone else
===========================

Each round of points goes to a spreadsheet, and comes back with its values: ``python
examples/ask_tell.py``.

A state asks for points and is told their log-densities. Between the two anything may happen: here
the points are written to a CSV file, a "laboratory" fills in its column of values, and the state
itself is stored in a file meanwhile, so that each round may be made by another process, on another
day. Replace :func:`laboratory` by an instrument, a job queue or a person.
"""

from __future__ import annotations

import csv
import pickle
import tempfile
from pathlib import Path

import numpy as np

import kmc

COLUMNS = ("temperature", "pressure")


def laboratory(sheet: Path) -> None:
    """Read the settings in each row, and fill in the log-density there: minus half the squared
    misfit.
    """
    with sheet.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        temperature, pressure = (float(row[name]) for name in COLUMNS)
        misfit = np.array([temperature / 2, pressure - 0.3 * temperature**2])
        row["log_density"] = repr(float(-0.5 * misfit @ misfit))
    with sheet.open("w", newline="") as file:
        table = csv.DictWriter(file, [*COLUMNS, "log_density"])
        table.writeheader()
        table.writerows(rows)


def write(sheet: Path, points: np.ndarray) -> None:
    """One row for each point, without a value."""
    with sheet.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*COLUMNS, "log_density"])
        table.writerows([*map(repr, point.tolist()), ""] for point in points)


def read(sheet: Path) -> list[float]:
    """The values, in the order of the rows."""
    with sheet.open(newline="") as file:
        return [float(row["log_density"]) for row in csv.DictReader(file)]


def round_trip(folder: Path) -> bool:
    """One round: load the state, ask, have the points evaluated, tell, store the state. Whether the
    run is done.
    """
    state = pickle.loads((folder / "state.pickle").read_bytes())
    write(folder / "sheet.csv", state.ask())
    laboratory(folder / "sheet.csv")
    state.tell(read(folder / "sheet.csv"))
    (folder / "state.pickle").write_bytes(pickle.dumps(state))
    return state.done


def main(folder: Path, sampler=None, evaluations: int = 1000) -> kmc.AskTell:
    """Begin a run in a folder, and make all its rounds."""
    start = np.random.default_rng(0).normal(0.0, 2.0, (4, len(COLUMNS)))
    state = (sampler or kmc.KernelHMC()).start(initial=start, max_evaluations=evaluations, seed=1)
    (folder / "state.pickle").write_bytes(pickle.dumps(state))
    while not round_trip(folder):
        pass
    return pickle.loads((folder / "state.pickle").read_bytes())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        done = main(Path(name))
    for column, draws in zip(COLUMNS, np.moveaxis(done.positions, 2, 0), strict=True):
        print(f"{column}: mean {draws.mean():.2f}, sd {draws.std():.2f}")
    print(
        f"{done.positions.shape[1]} draws of {done.positions.shape[0]} chains, "
        f"{done.n_evaluations} evaluations"
    )

    import matplotlib.pyplot as plt

    plt.plot(*done.positions.reshape(-1, 2).T, ".", color="#4a8fa1")
    plt.xlabel(COLUMNS[0])
    plt.ylabel(COLUMNS[1])
    plt.show()
