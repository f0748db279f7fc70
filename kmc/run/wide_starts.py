"""Start points for densities that are zero near the origin: points of every size, positive ones too."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_LARGEST = 6  # sizes from 1e-6 to 1e6
EXPONENTS = sorted(range(-_LARGEST, _LARGEST + 1), key=abs)
TRIED = f"of sizes from 1e-{_LARGEST} to 1e{_LARGEST}, half of them positive"
"""What :func:`wide_batches` gives, in words."""


def wide_batches(rng: np.random.Generator, size: int, dim: int) -> Iterator[np.ndarray]:
    """Points (size, d) without end: of one size after another, then of another size in each coordinate, and again.

    Every other batch is positive.
    """
    while True:
        for exponent in EXPONENTS:
            for low in (0.0, -1.0):
                yield 10.0**exponent * rng.uniform(low, 1.0, (size, dim))
        for _ in EXPONENTS:
            for signs in ([1.0], [-1.0, 1.0]):
                sizes = 10.0 ** rng.uniform(-_LARGEST, _LARGEST, (size, dim))
                yield sizes * rng.choice(signs, (size, dim))


def near(rng: np.random.Generator, size: int, point: np.ndarray, spread: float) -> np.ndarray:
    """Points (size, d) that differ from one (d,) by a factor in each coordinate, so that signs and sizes stay."""
    return point * np.exp(spread * rng.standard_normal((size, len(point))))
