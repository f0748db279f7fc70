"""Checks for extensions of kmc, for your own tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from kmc.checks import as_number
from kmc.model.toys import Banana, Gaussian
from kmc.samplers.base import MOVES
from kmc.samplers.metropolis import decide
from kmc.samplers.moves import Move, as_moves, propose_one_of

__all__ = ["check_move"]

_FALSE_ALARMS = 1e-6  # probability that a right move fails the check
_SWEEPS = 3
_ARCHIVE = 60


def check_move(move: Move, dim: int = 3, *, n: int = 2000, seed: int = 0) -> None:
    """Check that a move leaves targets invariant and is reversible; AssertionError if it is not.

    Exact draws from a correlated Gaussian and from a banana make a few moves each, with the
    Metropolis–Hastings acceptance. For a reversible move, states before and after are exchangeable:
    functions of the two that change their sign if the states are exchanged have a symmetric
    distribution, and their sums are compared with bounds that hold for any number of draws. A wrong
    ``log_ratio`` of a size that matters is found; a right move fails with probability 1e-6. It is
    also checked that the same random numbers give the same proposal, and that neither the state nor
    the archive is modified.

    Parameters
    ----------
    move : Move
        See :class:`kmc.moves.Move`.
    dim : int
        Dimension of the targets, at least 2.
    n : int
        Number of draws; more of them find smaller errors.
    seed : int

    Raises
    ------
    AssertionError
        The move does not leave a target invariant, is not reversible, or breaks the rules above.
    TypeError, ValueError
        It is not a move, or returns something else than a point and a number.

    Examples
    --------
    >>> import kmc
    >>> kmc.testing.check_move(kmc.moves.Snooker(), dim=2)

    A multiplication by a random factor changes volume, which the ratio must contain:

    >>> class Stretched:
    ...     def __init__(self, right):
    ...         self.right = right
    ...     def propose(self, rng, position, archive):
    ...         log_factor = rng.normal(0, 0.5)
    ...         return np.exp(log_factor) * position, self.right * len(position) * log_factor
    >>> kmc.testing.check_move(Stretched(right=True))
    >>> kmc.testing.check_move(Stretched(right=False))
    Traceback (most recent call last):
        ...
    AssertionError: Stretched changes the distribution of draws from ...
    """
    dim, n = as_number("dim", dim, 2), as_number("n", n, 100)
    pairs = as_moves([(move, 0.5)])
    rng = np.random.default_rng([seed, dim])
    for target in (Gaussian(dim, correlation=0.5, spread=2.0), Banana(dim, b=0.03)):
        archive = 1.1 * target.sample(rng, _ARCHIVE)
        _check_rules(pairs, target.sample(rng, 1)[0], archive)
        before = target.sample(rng, n)
        after, moved = _moved(pairs, target, before, archive, rng)
        name = f"{type(move).__name__}"
        assert moved > 0, (
            f"{name} was never accepted on {n} draws from {target!r}: nothing can be said about it"
        )
        _compare(name, target, before, after, target.sample(rng, n))


class _Always:
    """Random numbers of which the first chooses the move."""

    def __init__(self, rng: np.random.Generator):
        self._rng, self._first = rng, True

    def random(self, *arguments: Any, **options: Any) -> Any:
        if self._first:
            self._first = False
            return 0.0
        return self._rng.random(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rng, name)


def _proposal(pairs, rng, x, archive):
    made = propose_one_of(pairs, _Always(rng), x, archive=archive)  # type: ignore[arg-type]
    assert made is not None and made.move == len(MOVES)
    return made


def _check_rules(pairs, x, archive):
    name = type(pairs[0][0]).__name__
    kept_x, kept_archive = x.copy(), archive.copy()
    one, two = (pairs[0][0].propose(np.random.default_rng(1), x, archive) for _ in range(2))
    assert np.array_equal(x, kept_x), f"{name}.propose modified the position"
    assert np.array_equal(archive, kept_archive), f"{name}.propose modified the archive"
    same = np.array_equal(one[0], two[0]) and one[1] == two[1]
    assert same, (
        f"{name}.propose: the same random numbers gave two proposals; all randomness must come "
        f"from rng"
    )


def _moved(pairs, target, before, archive, rng):
    after, moved = before.copy(), 0
    for i, row in enumerate(before):
        x, value = row, target(row)
        for _ in range(_SWEEPS):
            made = _proposal(pairs, rng, x, archive)
            if not made.moved:
                continue
            proposed = target(made.position)
            accepted, _ = decide(rng, value, proposed, log_ratio=made.log_ratio)
            if accepted:
                x, value, moved = made.position, proposed, moved + 1
        after[i] = x
    return after, moved


def _compare(name, target, before, after, others):
    """Test sums of antisymmetric functions and ranks of functions.

    The tests are those of Hoeffding, and of Kolmogorov and Smirnov.
    """
    center, scale = np.median(others, axis=0), others.std(axis=0)

    def functions(x):
        z = (x - center) / scale
        return np.column_stack([z, np.sum(z**2, axis=1), [target(row) for row in x]])

    known = np.sort(functions(others), axis=0)

    def ranks(x):
        return 2.0 * np.column_stack(
            [np.searchsorted(k, f) for k, f in zip(known.T, functions(x).T, strict=True)]
        )

    a, b = (ranks(x) / len(others) - 1.0 for x in (before, after))
    i, j = np.triu_indices(a.shape[1], 1)
    sides = [
        np.hstack([u, u**2, np.abs(u) > 0.9, u[:, i] * v[:, j], u**2 * v])
        for u, v in ((b, a), (a, b))
    ]
    difference = sides[0].astype(float) - sides[1]
    norm = np.sqrt(np.sum(difference**2, axis=0))
    z = np.sum(difference, axis=0) / np.where(norm > 0, norm, 1.0)
    p = [
        stats.ks_2samp(f, g).pvalue
        for f, g in zip(functions(after).T, functions(others).T, strict=True)
    ]
    level = 0.5 * _FALSE_ALARMS / (len(z) + len(p))
    limit = np.sqrt(2.0 * np.log(2.0 / level))
    worst = float(np.max(np.abs(z)))
    assert worst < limit and min(p) > level, (
        f"{name} changes the distribution of draws from {target!r}, or is not reversible: by up to "
        f"{worst:.1f} standard errors (allowed: {limit:.1f}), p-values from {min(p):.1e} (allowed: "
        f"{level:.1e}). Check its log_ratio, log q(position | proposal) - log q(proposal | "
        "position)"
    )
