"""Describe slow modes in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LARGEST_RHAT = 1.05
LEAST_ESS_PER_CHAIN = 50.0  # in the test half of a chain: 100 for a whole chain
LEAST_CORRELATION = 0.3  # from which on a parameter is said to be correlated with a mode
_NAMED = 3  # parameters listed for a mode

MIXED, FEW, NOT_MIXED = "mixed", "few effective draws", "not mixed"


class Verdicts(NamedTuple):
    """A word for each mode, and a sentence about all of them."""

    words: list[str]
    sentence: str


def verdicts(
    ess: np.ndarray, rhat: np.ndarray, correlation: np.ndarray, names: Sequence[str], chains: int, judges: int
) -> Verdicts:
    """Judge modes in the order of their effective sample size, the worst first.

    Parameters
    ----------
    ess, rhat : ndarray, shape (modes,)
    correlation : ndarray, shape (modes, parameters)
    names : sequence of str
        Names of the parameters.
    chains : int
    judges : int
        Draws that the first two are computed from, over all chains.
    """
    words = [_word(e, r, chains) for e, r in zip(ess, rhat)]
    facts = f"R-hat {rhat[0]:.2f}, effective sample size {ess[0]:,.0f} of {judges:,} test draws"
    if NOT_MIXED in words:
        worst = words.index(NOT_MIXED)
        facts = f"R-hat {rhat[worst]:.2f}, effective sample size {ess[worst]:,.0f} of {judges:,} test draws"
        return Verdicts(
            words,
            f"The chains have not mixed: mode {worst} ({facts}) correlates with {goes_with(correlation[worst], names)}."
            " Run longer, start elsewhere or reparametrize.",
        )
    if FEW in words:
        return Verdicts(
            words,
            f"The chains agree, but on few effective draws: the slowest mode ({facts}) correlates with "
            f"{goes_with(correlation[0], names)}. Make more draws.",
        )
    return Verdicts(words, f"No slow mode was found: the chains agree on the slowest of all ({facts}).")


def goes_with(correlation: np.ndarray, names: Sequence[str]) -> str:
    """The parameters with the largest correlations (parameters,), or words for none."""
    size = np.nan_to_num(np.abs(correlation))
    largest = np.argsort(-size, kind="stable")[:_NAMED]
    said = [f"{names[i]} ({correlation[i]:+.2f})" for i in largest if size[i] >= LEAST_CORRELATION]
    return ", ".join(said) or "no single parameter"


def _word(ess, rhat, chains):
    if not rhat <= LARGEST_RHAT:
        return NOT_MIXED
    return MIXED if ess >= LEAST_ESS_PER_CHAIN * chains else FEW
