"""Rows of a benchmark in a CSV file, each written as soon as it is there."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows so far."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write all rows anew, with four digits of each number."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([f"{v:.4g}" if isinstance(v, float) else v for v in row] for row in rows)


def append_row(path: Path, columns: Sequence[str], row: dict[str, Any]) -> None:
    """Write a row, with four digits of each number."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        table = csv.DictWriter(file, columns, lineterminator="\n")
        if new:
            table.writeheader()
        table.writerow({name: f"{v:.4g}" if isinstance(v, float) else v for name, v in row.items()})
