"""Nested R-hat: convergence of many short chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kmc import convergence
from kmc.diagnostics.draws import read_draws


def nested_rhat(
    data: Any, superchains: Any, var_names: Sequence[str] | None = None
) -> dict[str, float]:
    """Compute nested R-hat: near 1 if many short chains have forgotten their starts.

    Each chain may be too short to tell alone. R-hat compares the means of chains, which differ by
    chance if chains are short, however many there are. Nested R-hat compares the means of groups of
    chains, each started at one point or near it ("superchains").

    Parameters
    ----------
    data : InferenceData, DataTree, xarray.Dataset, mapping of str to array_like, or array_like
        Draws, as in :func:`kmc.diagnostics.slow_modes`: at least four of each chain.
    superchains : int or array_like of shape (chains,)
        The group of each chain, or a number of groups of adjacent chains, all of the same size.
    var_names : sequence of str, optional
        Variables to take; all by default.

    Returns
    -------
    dict of str to float
        For each scalar parameter sqrt(1 + B / W), where B is the variance of the groups' means and
        W the mean variance within them. Independent draws give about sqrt(1 + 1 / (chains per group
        times draws)).

    Raises
    ------
    ValueError
        There are fewer than two groups, or groups of different sizes.

    Notes
    -----
    With 64 or more chains of fewer than 100 draws, :func:`kmc.sample` itself groups chains by their
    first draw, and warns of "chains-disagree" by this measure.

    References
    ----------
    .. [1] Margossian, Hoffman, Sountsov, Riou-Durand, Vehtari and Gelman (2024), "Nested R-hat:
       assessing the convergence of Markov chain Monte Carlo when running many short chains",
       Bayesian Analysis.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> draws = np.random.default_rng(0).standard_normal((256, 5))
    >>> round(kmc.diagnostics.nested_rhat({"x": draws}, superchains=16)["x"], 3)
    1.004
    """
    draws = read_draws(data, var_names)
    chains = len(draws.values)
    if np.ndim(superchains) == 0:
        count = int(superchains)
        if count < 2 or chains % count:
            raise ValueError(
                f"superchains={superchains!r}: expected a divisor of the {chains} chains, at "
                f"least 2"
            )
        labels = np.repeat(np.arange(count), chains // count)
    else:
        labels = np.asarray(superchains)
        sizes = np.unique(labels, return_counts=True)[1]
        if labels.shape != (chains,) or len(sizes) < 2 or np.ptp(sizes):
            raise ValueError(
                f"superchains has the shape {labels.shape} and groups of {sizes.tolist()} chains: "
                f"expected a label for "
                f"each of the {chains} chains, and two or more groups of the same size"
            )
    found = convergence.nested_rhat(draws.values, labels)
    return dict(zip(draws.names, found.tolist(), strict=True))
