"""Choice among candidates by a held-out objective: the common part of every estimator's model selection."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.checks import numbers


class Search:
    """The table of candidates, and the best so far.

    Parameters
    ----------
    regularizations : ndarray, shape (l,)
        Compared for every candidate, which is a NamedTuple of the other choices.
    """

    def __init__(self, regularizations: np.ndarray):
        self.regularizations = regularizations
        self.regularization = float(regularizations[0])
        self.best = np.inf
        self._rows: list[tuple[Any, np.ndarray, np.ndarray]] = []

    def add(self, candidate: Any, objectives: np.ndarray) -> bool:
        """Add held-out objectives (n_folds, l), lower is better; whether one of them is the best so far.

        A setting whose mean is not finite is listed but never chosen.
        """
        mean = objectives.mean(axis=0)
        n = len(objectives)
        error = objectives.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(len(mean), np.nan)
        self._rows.append((candidate, mean, error))
        comparable = np.where(np.isfinite(mean), mean, np.inf)
        least = int(np.argmin(comparable))
        if not comparable[least] < self.best:
            return False
        self.best, self.regularization = float(comparable[least]), float(self.regularizations[least])
        return True

    def table(self) -> dict[str, np.ndarray]:
        """``cv_results_``: a row for each candidate and regularization; empty if there was nothing to choose.

        The candidate's fields, ``regularization``, ``objective`` (mean over folds) and ``std_error`` (over folds).
        """
        if not self._rows:
            return {}
        columns = {
            name: _column([getattr(candidate, name) for candidate, _, _ in self._rows], len(self.regularizations))
            for name in self._rows[0][0]._fields
        }
        columns["regularization"] = np.tile(self.regularizations, len(self._rows))
        columns["objective"] = np.concatenate([mean for _, mean, _ in self._rows])
        columns["std_error"] = np.concatenate([error for _, _, error in self._rows])
        return columns


def folds_of(n: int, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Indices of ``count`` random parts of nearly equal size, at least one sample in each."""
    return [np.sort(part) for part in np.array_split(rng.permutation(n), min(count, n))]


def numbers_or(name: str, value: Any, candidates: np.ndarray) -> np.ndarray:
    """The candidates for a non-negative parameter: the default ones for "cv", otherwise a number or a sequence."""
    if not isinstance(value, str):
        return np.array(numbers(name, value, zero=True))
    if value == "cv":
        return candidates
    raise ValueError(f"{name}={value!r}: expected 'cv', a non-negative number or a sequence of them")


def listed(name: str, value: Any) -> list[Any]:
    """A list or tuple of candidates unchanged, anything else as the only candidate; ValueError if empty."""
    if not isinstance(value, (list, tuple)):
        return [value]
    if not value:
        raise ValueError(f"{name}={value!r}: expected at least one")
    return list(value)


def name_of(value: Any) -> str:
    """The entry of a candidate in the table: a name itself, or the repr of an object."""
    return value if isinstance(value, str) else repr(value)


def _column(values, repeats):
    entries = [name_of(v) if not isinstance(v, (int, float)) else v for v in values]
    return np.repeat(np.array(entries), repeats)
