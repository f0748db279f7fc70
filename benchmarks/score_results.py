"""Rows of measurements in a CSV file, by key, and tables made from them."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

Row = dict


class Results:
    """The rows of a file by their key, a tuple of the columns of that name; saved at every
    addition.
    """

    def __init__(self, path: Path, key: Sequence[str]):
        self.path, self.key = path, tuple(key)
        self.rows: dict[tuple, Row] = {}
        if path.exists():
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    self._enter({name: _number(text) for name, text in row.items()})

    def add(self, row: Row) -> None:
        """Add a row, replacing the one with its key, and save."""
        self._enter(
            {name: float(f"{v:.4g}") if isinstance(v, float) else v for name, v in row.items()}
        )
        self.path.parent.mkdir(exist_ok=True)
        scratch = self.path.with_suffix(".tmp")
        columns = list(dict.fromkeys(name for row in self.rows.values() for name in row))
        with scratch.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(self.rows[key] for key in sorted(self.rows))
        scratch.replace(self.path)

    def _enter(self, row):
        self.rows[tuple(row[name] for name in self.key)] = row


def grouped(rows: Iterable[Row], *columns: str) -> dict[tuple, list[Row]]:
    """Rows by the values of some columns, in order of first appearance."""
    found: dict[tuple, list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in columns), []).append(row)
    return found


def median(rows: Iterable[Row], column: str) -> float:
    """Median of a column over the rows that have it; NaN if there are none."""
    values = [row[column] for row in rows if row.get(column, "") != ""]
    return statistics.median(values) if values else float("nan")


def mean_and_spread(rows: Iterable[Row], column: str) -> str:
    """Mean of a column, ± its standard deviation over the rows."""
    values = [row[column] for row in rows if row.get(column, "") != ""]
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.2g}" if len(values) > 1 else ""
    return f"{number(statistics.fmean(values))}{spread}"


def number(value: float) -> str:
    """Three digits; empty for NaN."""
    if value != value:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def markdown(head: Sequence[str], lines: Iterable[Sequence[object]], text_columns: int = 1) -> str:
    """A table; all except the first columns are aligned to the right."""
    rule = ["---"] * text_columns + ["---:"] * (len(head) - text_columns)
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in (head, rule, *lines))


def _number(text: str):
    kinds: tuple[Callable, ...] = (int, float)
    for kind in kinds:
        try:
            return kind(text)
        except ValueError:
            continue
    return text
