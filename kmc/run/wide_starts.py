"""Start points for densities that are zero near the origin: points on all scales, also positive ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_LARGEST = 6  # scales from 1e-6 to 1e6
EXPONENTS = sorted(range(-_LARGEST, _LARGEST + 1), key=abs)
TRIED = f"of sizes from 1e-{_LARGEST} to 1e{_LARGEST}, half of them positive"
"""Description of the points of :func:`wide_batches`."""


def wide_batches(rng: np.random.Generator, size: int, dim: int) -> Iterator[np.ndarray]:
    """Yield points (size, d) without end: one scale after another, then different scales per coordinate, and so on.

    Every second batch is positive.
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
    """Points (size, d) that differ from one point (d,) by a factor in each coordinate: signs and scales stay."""
    return point * np.exp(spread * rng.standard_normal((size, len(point))))
