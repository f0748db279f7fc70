"""An entry of docs/papers.md: a figure, a table or a rate of a paper, with the paper's statements
and kmc's numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from csv_rows import number as parsed
from csv_rows import read_rows
from score_results import number

Row = dict


HERE = Path(__file__).parent
RESULTS = HERE / "results"
VERDICTS = ("reproduced", "in part", "not reproduced", "not measured")


class Claim(NamedTuple):
    """A statement of a paper, the number here, and whether they agree."""

    statement: str
    here: str
    holds: bool


class Entry(NamedTuple):
    """A figure, table or rate; without claims it is not measured, for the reason in ``limits``."""

    paper: str  # 001 to 004
    item: str
    command: str
    claims: list[Claim]
    limits: str = ""  # in what the measurement is smaller than, or other than, the paper's
    beside: str = ""  # the package's default

    @property
    def verdict(self) -> str:
        """Whether it is reproduced: in full only at the paper's sizes."""
        if not self.claims:
            return "not measured"
        if not any(claim.holds for claim in self.claims):
            return "not reproduced"
        return (
            "in part"
            if self.limits or not all(claim.holds for claim in self.claims)
            else "reproduced"
        )

    @property
    def reason(self) -> str:
        """Why the verdict is not "reproduced"."""
        failed = sum(not claim.holds for claim in self.claims)
        counted = (
            f"{failed} of {len(self.claims)} statements {'does' if failed == 1 else 'do'} not hold"
            if failed
            else ""
        )
        return "; ".join(filter(None, [counted, self.limits]))


def rows(name: str, **values: object) -> list[Row]:
    """The rows of a file of results with these values."""
    found = [
        {key: parsed(text) for key, text in row.items()}
        for row in read_rows(RESULTS / f"{name}.csv")
    ]
    return [row for row in found if all(row[key] == value for key, value in values.items())]


def mean(found: Iterable[Row], column: str) -> float:
    """The mean of a column."""
    return float(np.mean([row[column] for row in found]))


def worst(found: list[Row]) -> float:
    """The largest relative error of an eigenvalue."""
    return max(abs(row["eigenvalue"] / row["truth"] - 1) for row in found)


def slope(found: Iterable[tuple[float, float]]) -> float:
    """The least-squares slope of logarithms."""
    return float(np.polyfit(*np.log(np.array(list(found))).T, 1)[0])


def best(found: Iterable[Row]) -> Row:
    """The row with the least error."""
    return min(found, key=lambda row: row["error"])


def span(values: Iterable[float]) -> str:
    """The least and the largest."""
    found = sorted(values)
    return f"{number(found[0])} to {number(found[-1])}"


def middle(values: Iterable[float]) -> str:
    """The median."""
    return number(float(np.median(list(values))))
