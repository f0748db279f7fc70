"""The choice of a batch: where the regression is uncertain and the density is not small."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kmc.surrogate.process import Process


@dataclass(frozen=True)
class BatchSettings:
    """Numbers of the choice."""

    candidates: tuple[int, ...] = (160, 120, 120)
    """Draws at each power among which a batch is chosen."""
    typical: float = 0.25
    """Share of a batch that is drawn at power 1 without a choice: how well these are predicted is how
    well the surrogate proposes.
    """


SETTINGS = BatchSettings()


def candidates(
    positions: np.ndarray, powers: np.ndarray, rng: np.random.Generator, settings: BatchSettings = SETTINGS
) -> tuple[np.ndarray, np.ndarray]:
    """Return some distinct draws (n, d) of chains (blocks, k, d) at these powers (k,), and their powers (n,)."""
    pool, kept = [], []
    for power, count in zip(np.unique(powers)[::-1], settings.candidates):
        draws = positions[:, powers == power].reshape(-1, positions.shape[2])
        pool.append(draws[rng.choice(len(draws), min(count, len(draws)), replace=False)])
        kept.append(np.full(len(pool[-1]), power))
    distinct, first = np.unique(np.concatenate(pool), axis=0, return_index=True)
    return distinct, np.concatenate(kept)[first]


def choose(process: Process, candidates: np.ndarray, powers: np.ndarray, count: int, first: np.ndarray) -> np.ndarray:
    """Return at most ``count`` points: ``first`` (k, d), then some of the candidates (n, d), draws at powers (n,).

    One after the other, candidates are taken that decrease the expected loss most: the sum over the candidates of σ² /
    (1 + σ²) times their power, with σ² the variance of the log-density given the values chosen so far. It is a design
    by the variance that is left (Cohn 1996), of a loss that saturates: where the log-density is wrong by some nats, a
    proposal is lost, and more nats lose no more. Whether a point is behind a wall says only its own value: that has the
    variance p (1 - p) of its chance p.

    References
    ----------
    Cohn (1996), Neural network exploration using optimal experiment design, Neural Networks 9.
    """
    given = len(first)
    if given:
        candidates, powers = np.vstack([first, candidates]), np.append(np.ones(given), powers)
    scale = process.temperature
    covariances = process.covariances(candidates)
    noise = np.exp(2.0 * process.regression.hyperparameters.noise)
    unsure = process.unsure(candidates) * powers
    chosen: list[int] = []
    for k in range(min(count, len(candidates))):
        variances = np.maximum(np.diag(covariances), 0.0)
        if k < given:
            j = k
        else:
            left = variances[None, :] - covariances**2 / (variances + noise)[:, None]
            left = scale**2 * np.maximum(left, 0.0)
            score = unsure - (left / (1.0 + left)) @ powers
            score[chosen] = -np.inf
            j = int(np.argmax(score))
        chosen.append(j)
        # Conditional on a value at j. No covariance is larger than the two variances allow, but for rounding far out.
        largest = np.sqrt(variances)
        column = np.clip(covariances[j] / np.sqrt(variances[j] + noise), -largest, largest)
        covariances = covariances - np.outer(column, column)
    return candidates[chosen]
