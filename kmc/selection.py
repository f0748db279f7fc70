"""Choice among candidates by a held-out objective, common to every estimator's model selection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kmc.checks import numbers
from kmc.kernels import Kernel, candidate_bandwidths, kernel_of

Kernels = str | Kernel | Sequence[str | Kernel]
"""Valid values of a parameter ``kernel``: a name, an object, or several to choose from."""

Numbers = str | float | Sequence[float] | np.ndarray
"""Valid values of ``bandwidth`` and ``regularization``.

These are "cv" and other names, a number, or several to choose from.
"""


class Search:
    """The table of candidates, and the best so far.

    Parameters
    ----------
    regularizations : ndarray, shape (l,), optional
        Compared for every candidate, which is a NamedTuple of the other choices. None: candidates
        have none.
    """

    def __init__(self, regularizations: np.ndarray | None = None):
        self._regularized = regularizations is not None
        self.regularizations = np.full(1, np.nan) if regularizations is None else regularizations
        self.regularization = float(self.regularizations[0])
        self._least = np.inf
        self._best: Any = None
        self._rows: list[tuple[Any, np.ndarray, np.ndarray]] = []

    def add(self, candidate: Any, objectives: np.ndarray, setting: Any = None) -> bool:
        """Add held-out objectives (n_folds, l), and return whether one of them is the best so far.

        Lower is better. A candidate whose mean is not finite is listed but never chosen.
        ``setting`` is what :meth:`best` returns for it, the candidate itself by default.
        """
        mean = objectives.mean(axis=0)
        n = len(objectives)
        error = objectives.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(len(mean), np.nan)
        self._rows.append((candidate, mean, error))
        comparable = np.where(np.isfinite(mean), mean, np.inf)
        least = int(np.argmin(comparable))
        if not comparable[least] < self._least:
            return False
        self._least, self.regularization = (
            float(comparable[least]),
            float(self.regularizations[least]),
        )
        self._best = candidate if setting is None else setting
        return True

    def best(self) -> Any:
        """Return the setting of the best candidate.

        Its regularization is the attribute ``regularization``.

        Raises
        ------
        ValueError
            No candidate has a finite objective.
        """
        if self._best is None:
            names = [*self._rows[0][0]._fields, *(["regularization"] if self._regularized else [])]
            raise ValueError(
                f"no combination of {', '.join(names)} has a finite held-out objective"
            )
        return self._best

    def table(self) -> dict[str, np.ndarray]:
        """Return ``cv_results_``: a row for each candidate and regularization.

        The columns are the candidate's fields, ``regularization``, ``objective`` (mean over folds)
        and ``std_error`` (over folds). There are none if there was nothing to choose.
        """
        if not self._rows:
            return {}
        columns = {
            name: _column(
                [getattr(candidate, name) for candidate, _, _ in self._rows],
                len(self.regularizations),
            )
            for name in self._rows[0][0]._fields
        }
        if self._regularized:
            columns["regularization"] = np.tile(self.regularizations, len(self._rows))
        columns["objective"] = np.concatenate([mean for _, mean, _ in self._rows])
        columns["std_error"] = np.concatenate([error for _, _, error in self._rows])
        return columns


def folds_of(n: int, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the indices of ``count`` random, nearly equal parts; of n parts if n is smaller."""
    return [np.sort(part) for part in np.array_split(rng.permutation(n), min(count, n))]


def held_out(parts: Sequence[Any], whole: Any) -> list[tuple[Any, Any]]:
    """Pair the rest of the whole with the part, for each part of additive sums.

    The rest is for the fit, the part for the comparison.
    """
    return [(whole - part, part) for part in parts]


def kernel_candidates(
    model: Any, median: float, factors: Sequence[float]
) -> list[tuple[Any, float, Kernel]]:
    """Return the kernels that an estimator's parameters ``kernel`` and ``bandwidth`` allow.

    Each item has the kernel as given, the bandwidth, and the kernel built from both.

    Parameters
    ----------
    model : object
        With these parameters: a kernel or a list of them; a bandwidth, several, "median" or "cv".
    median : float
        Median distance between samples.
    factors : sequence of float
        Candidates of "cv", in median distances.
    """
    return [
        (kernel, bandwidth, kernel_of(kernel, bandwidth))
        for kernel in listed("kernel", model.kernel)
        for bandwidth in candidate_bandwidths(
            model.bandwidth, median, isinstance(kernel, str), factors
        )
    ]


def numbers_or(name: str, value: Any, candidates: np.ndarray) -> np.ndarray:
    """Return a non-negative parameter's candidates: the default ones for "cv", or those given."""
    if not isinstance(value, str):
        return np.array(numbers(name, value, zero=True))
    if value == "cv":
        return candidates
    raise ValueError(
        f"{name}={value!r}: expected 'cv', a non-negative number or a sequence of them"
    )


def listed(name: str, value: Any) -> list[Any]:
    """Return the candidates in a list or tuple, or anything else as the only candidate.

    An empty list or tuple raises a ValueError.
    """
    if not isinstance(value, (list, tuple)):
        return [value]
    if not value:
        raise ValueError(f"{name}={value!r}: expected at least one")
    return list(value)


def name_of(value: Any) -> str:
    """Return the entry of a candidate in the table: a name itself, or the repr of an object."""
    return value if isinstance(value, str) else repr(value)


def _column(values, repeats):
    entries = [name_of(v) if not isinstance(v, (int, float)) else v for v in values]
    return np.repeat(np.array(entries), repeats)
