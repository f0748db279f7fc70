"""Sum forms of a basis over samples, in one pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kmc.bases import Basis
from kmc.bases.base import as_basis
from kmc.bases.general import few
from kmc.checks import is_whole
from kmc.forms.stream import Block, blocks, length
from kmc.forms.sums import (
    FORMS,
    Forms,
    Lagged,
    Pairs,
    centered,
    consecutive_sums,
    lagged_sums,
    reversible_sums,
)

LAGGED = ("lagged", "reversible")
"""Forms of pairs of samples, both in the attribute ``lagged`` of the sums."""

PATIENCE = 5.0
"""Seconds before a bar is shown."""


def accumulate(
    basis: Basis,
    x: Any,
    forms: Sequence[str],
    *,
    weights: Any = None,
    values: Any = None,
    gradients: Any = None,
    base_gradient: Any | Callable[[np.ndarray], np.ndarray] = None,
    lagtime: int | None = None,
    block: int = 2048,
) -> Forms:
    """Sum forms of a basis over samples, in one pass and in blocks.

    Parameters
    ----------
    basis : Basis
        A basis of p functions.
    x : array_like (n, d), memory map, dask array, iterator of blocks (k, d), or list of these
        Each item of a list is a trajectory, which matters to the last two forms only.
    forms : sequence of str
        Of "mass", "values", "dirichlet", "gradients", "linear", "lagged" and "reversible".
        "reversible" is "lagged" with each pair in both directions, in two thirds of the time or
        less; not both.
    weights : array_like, shape (n,), optional
        Not negative; ones by default. For a list of trajectories also a list of arrays, for a
        stream also an iterator of blocks, whose lengths may differ from those of x; the same
        applies to the next three.
    values : array_like, shape (n,), optional
        The y of the form "values".
    gradients : array_like, shape (n, d), optional
        The t of the form "gradients".
    base_gradient : array_like, shape (n, d), or callable, optional
        ∇log q0 at the samples, or a function from points (k, d) to (k, d), for the form "linear";
        zero by default.
    lagtime : int, optional
        The τ of the last two forms, in samples: all pairs (x_t, x_{t+τ}) within a trajectory,
        repeated states included.
    block : int
        Samples per block.

    Returns
    -------
    Forms

    Raises
    ------
    ValueError
        Unknown form, missing data for a form, invalid samples (not finite or of different widths),
        negative weights, weights or values that are not one per sample, trajectories all shorter
        than the lagtime.

    Notes
    -----
    Memory is O(block p + p²), for any number of samples: about eight arrays (block, p) and five (p,
    p). The form "lagged" keeps lagtime more rows of p values. The gradients of a basis without
    fused forms are computed in slices of 16 MB. One chunk of a dask array is computed at a time; of
    an iterator at most two blocks are held. After five seconds a terminal or a notebook shows how
    far the pass is.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.bases import KernelSections
    >>> from kmc.forms import accumulate
    >>> from kmc.kernels import Gaussian
    >>> x = np.linspace(-1, 1, 10)[:, None]
    >>> basis = KernelSections(Gaussian(), x[:3])
    >>> forms = ("mass", "dirichlet")
    >>> whole = accumulate(basis, x, forms)
    >>> parts = accumulate(basis, x[:4], forms) + accumulate(basis, x[4:], forms)
    >>> bool(np.allclose(whole.mass, parts.mass))
    True
    """
    _check_forms(forms, values, gradients, lagtime, block)
    basis = as_basis(basis, needs=("values",))
    sums = _Accumulator(basis, forms, lagtime)
    for part in shown(
        blocks(x, _rows(basis, forms, block), weights, values, gradients, base_gradient), length(x)
    ):
        sums.add(part)
    return sums.finish()[0]


def accumulate_folds(
    basis: Basis,
    x: Any,
    forms: Sequence[str],
    folds: Any,
    *,
    weights: Any = None,
    values: Any = None,
    gradients: Any = None,
    base_gradient: Any | Callable[[np.ndarray], np.ndarray] = None,
    lagtime: int | None = None,
    block: int = 2048,
) -> list[Forms]:
    """Sum forms for each fold in one pass: the total minus a fold is the sum over the others.

    Parameters
    ----------
    folds : int or array_like of int, shape (n,)
        A number K of contiguous folds of equal size (up to one sample), which needs a known number
        of samples; or the number 0, 1, ..., K - 1 of each sample's fold, in any form accepted for
        ``weights``.
    basis, x, forms, weights, values, gradients, base_gradient, lagtime, block
        As in :func:`accumulate`. A pair of the form "lagged" is in the fold of its first sample.

    Returns
    -------
    list of Forms
        One for each fold.

    Raises
    ------
    ValueError
        As in :func:`accumulate`; also for folds without samples.

    Notes
    -----
    Memory is O(block p + K p²).

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.bases import Monomials
    >>> from kmc.forms import accumulate, accumulate_folds
    >>> x = np.random.default_rng(0).standard_normal((100, 2))
    >>> folds = accumulate_folds(Monomials(2, 2), x, ("dirichlet",), 5)
    >>> whole = accumulate(Monomials(2, 2), x, ("dirichlet",))
    >>> rest = accumulate(Monomials(2, 2), x[20:], ("dirichlet",))
    >>> bool(np.allclose((whole - folds[0]).dirichlet, rest.dirichlet))
    True
    """
    return accumulate_folds_each(
        [basis],
        x,
        forms,
        folds,
        weights=weights,
        values=values,
        gradients=gradients,
        base_gradient=base_gradient,
        lagtime=lagtime,
        block=block,
    )[0]


def accumulate_folds_each(
    bases: Sequence[Basis],
    x: Any,
    forms: Sequence[str],
    folds: Any,
    *,
    weights: Any = None,
    values: Any = None,
    gradients: Any = None,
    base_gradient: Any | Callable[[np.ndarray], np.ndarray] = None,
    lagtime: int | None = None,
    block: int = 2048,
) -> list[list[Forms]]:
    """Sum forms for each fold and each of several bases in a single pass, as an iterator requires.

    The bases are candidates to choose from; the other arguments are those of
    :func:`accumulate_folds`.
    """
    _check_forms(forms, values, gradients, lagtime, block)
    labels = _contiguous(length(x), folds) if is_whole(folds) else folds
    bases = [as_basis(basis, needs=("values",)) for basis in bases]
    sums = [_Accumulator(basis, forms, lagtime) for basis in bases]
    rows = min(_rows(basis, forms, block) for basis in bases)
    for part in shown(
        blocks(x, rows, weights, values, gradients, base_gradient, labels), length(x)
    ):
        for each in sums:
            each.add(part)
    return [each.finish() for each in sums]


class _Accumulator:
    """Sums for each label."""

    def __init__(self, basis, forms, lagtime):
        self._basis, self._forms = basis, forms
        self._sums: dict[int, Forms] = {}
        self._lagged: dict[int, Lagged] = {}
        self._lagtime, self._reversible = lagtime, "reversible" in forms
        self._buffer = np.empty((0, 0))
        self._pairs = None if lagtime is None else Pairs(lagtime)

    def add(self, part: Block) -> None:
        needed = (
            {"values", *LAGGED}
            if _together(self._basis, self._forms)
            else {"mass", "values", *LAGGED}
        )
        phi = self._values(part.x) if needed & set(self._forms) else part.x
        for label, rows in _groups(part.labels):
            _add(self._sums, label, _sums(self._basis, self._forms, part.take(rows), phi[rows]))
        if self._pairs is not None:
            self._add_pairs(self._pairs, part, phi)

    def _values(self, x):
        """Return the values (n, p) of the basis, until the next call."""
        n = len(x)
        if n > len(self._buffer):
            self._buffer = np.empty((n, self._basis.size))
        out = self._buffer[:n]
        for rows in few(n):
            out[rows] = self._basis.values(x[rows])
        return out

    def finish(self) -> list[Forms]:
        """Return the sums of the labels 0, 1, ...; ValueError if one of them has no samples."""
        if not self._sums:
            raise ValueError("x has no rows: a form needs at least one sample")
        count = max(self._sums) + 1
        for label in range(count):
            if label not in self._sums:
                raise ValueError(
                    f"folds: no sample is in fold {label} of {count}, expected some in each"
                )
        if self._pairs is None:
            return [self._sums[label] for label in range(count)]
        if not self._lagged:
            raise ValueError(
                "lagtime: every trajectory is too short for a pair of samples that far apart"
            )
        nothing = np.empty((0, self._basis.size))
        none = lagged_sums(nothing, nothing, None)
        return [
            replace(self._sums[label], lagged=self._lagged.get(label, none))
            for label in range(count)
        ]

    def _add_pairs(self, pairs, part, phi):
        n = len(phi)
        weights = np.ones(n) if part.weights is None else part.weights
        labels = np.zeros(n, int) if part.labels is None else part.labels
        rows, within, weights, labels = pairs.push(phi, part.trajectory, weights, labels)
        if not np.any(within):
            return
        if part.weights is None and np.all(within) and np.all(labels == labels[0]):
            if self._reversible:
                found = reversible_sums(rows[: -self._lagtime], rows[self._lagtime :], None)
            else:
                found = consecutive_sums(rows, self._lagtime)
            _add(self._lagged, int(labels[0]), found)
            return
        sums = reversible_sums if self._reversible else lagged_sums
        for label, own in _groups(labels[within]):
            first = np.flatnonzero(within)[own]
            pair = sums(rows[first], rows[first + self._lagtime], weights[first])
            _add(self._lagged, label, pair)


def _sums(basis: Basis, forms: Sequence[str], part: Block, phi: np.ndarray) -> Forms:
    """Sum all forms but the lagged one over a block; ``phi`` are the basis's values if needed."""
    x, w = part.x, part.weights
    out: dict[str, Any] = {"weight": float(len(x) if w is None else w.sum())}
    together = _together(basis, forms)
    if together is not None:
        out["mean"], out["mass_scatter"], out["dirichlet"] = together(x, w)
        forms = [name for name in forms if name not in ("mass", "dirichlet")]
    if "mass" in forms or "values" in forms:
        out["mean"], half = centered(w, phi)
        if "mass" in forms:
            out["mass_scatter"] = half.T @ half
        if "values" in forms and part.values is not None:
            out["value_sum"], residual = centered(w, part.values)
            out["value_scatter"], out["square_scatter"] = (
                residual @ half,
                float(residual @ residual),
            )
    w = np.ones(len(x)) if w is None else w
    if "dirichlet" in forms:
        out["dirichlet"] = basis.sum_dirichlet(x, w)
    if "gradients" in forms and part.gradients is not None:
        weighted = w[:, None] * part.gradients
        out["gradients"] = basis.directional(x, weighted).sum(axis=0)
        out["gradient_square"] = float(np.sum(weighted * part.gradients))
    if "linear" in forms:
        out["linear"] = basis.sum_linear(x, w, part.base_gradient)
    return Forms(**out)


def _together(basis, forms):
    """Return the basis's function for mass and Dirichlet form together.

    Return None if the basis has none, or if one of the forms is not needed.
    """
    return basis.sum_mass_and_dirichlet if {"mass", "dirichlet"} <= set(forms) else None


def _rows(basis, forms, block):
    """Return the samples per block.

    They are more if no array (block, p) is kept, so that there are fewer sums to add.
    """
    return 8 * block if len(forms) == 2 and _together(basis, forms) is not None else block


def _add(sums, label, part):
    sums[label] = sums[label] + part if label in sums else part


def _groups(labels):
    """List each label of a block and its rows: a slice for the whole block, else an index array."""
    if labels is None:
        return [(0, slice(None))]
    if np.all(labels == labels[0]):
        return [(int(labels[0]), slice(None))]
    return [(int(label), np.flatnonzero(labels == label)) for label in np.unique(labels)]


def _contiguous(n, folds):
    if n is None:
        raise ValueError(
            f"folds={folds}: the number of samples in an iterator is not known before they are "
            "read, so give the fold of each sample"
        )
    if not 2 <= folds <= n:
        raise ValueError(f"folds={folds}: expected a number from 2 to that of the samples, {n}")
    return np.arange(n) * int(folds) // n


def _check_forms(forms, values, gradients, lagtime, block):
    if isinstance(forms, str) or not len(forms):
        raise ValueError(f"forms={forms!r}: expected a sequence of names out of {FORMS}")
    known = (*FORMS, "reversible")
    unknown = [name for name in forms if name not in known]
    if unknown:
        raise ValueError(f"forms={forms!r}: {unknown[0]!r} is not one of {known}")
    if "values" in forms and values is None:
        raise ValueError("values=None: the form 'values' needs an array of shape (n,)")
    if "gradients" in forms and gradients is None:
        raise ValueError("gradients=None: the form 'gradients' needs an array of shape (n, d)")
    if len(set(LAGGED) & set(forms)) != (lagtime is not None):
        raise ValueError(
            f"forms={forms!r}, lagtime={lagtime!r}: 'lagged' needs a lagtime, as 'reversible' "
            "does, only one of the two can be summed, and no other form takes one"
        )
    if lagtime is not None and not (is_whole(lagtime) and lagtime >= 1):
        raise ValueError(f"lagtime={lagtime!r}: expected a whole number of samples, at least 1")
    if not (is_whole(block) and block >= 1):
        raise ValueError(f"block={block!r}: expected a whole number of at least 1")


def shown(parts: Iterator[Block], rows: int | None) -> Iterator[Block]:
    """Yield the blocks; after five seconds, show in a terminal or notebook how many rows were read.

    ``rows`` is None if their number is not known. The bar goes at the end.
    """
    due, read, bar = time.monotonic() + PATIENCE, 0, None
    try:
        for part in parts:
            yield part
            read += len(part.x)
            if bar is None and time.monotonic() > due:
                due, bar = float("inf"), _bar(rows)
            if bar is not None:
                bar.update(0, completed=read)
    finally:
        if bar is not None:
            bar.stop()


def _bar(rows: int | None) -> Any:
    """Return a bar on standard error; None if it would not be seen, or if another one is there."""
    from rich.console import Console
    from rich.errors import LiveError
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        return None
    text = (
        "{task.completed:,.0f} samples"
        if rows is None
        else "{task.completed:,.0f} of {task.total:,.0f} samples"
    )
    bar = Progress(
        TextColumn(text), BarColumn(), TimeRemainingColumn(), console=console, transient=True
    )
    bar.add_task("", total=rows)
    try:
        bar.start()
    except LiveError:
        return None
    return bar
