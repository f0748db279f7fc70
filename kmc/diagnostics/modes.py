"""The slowest functions of a chain's state, and how accurately the draws determine their means."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import linalg, special, stats

from kmc.checks import check_count
from kmc.convergence import LARGEST_RHAT, ess_and_rhat
from kmc.diagnostics.draws import Draws, blocks, groups_of, read_draws
from kmc.errors import KmcWarning
from kmc.forms.sums import Lagged, lagged_sums
from kmc.seeds import Seed, as_generator
from kmc.spectral.coarse import jackknife
from kmc.spectral.transition import TransitionOperator
from kmc.spectral.transition_modes import timescales

if TYPE_CHECKING:
    import xarray

SLOW_MODES = "slow_modes"
"""The group of a result that has them."""

LAG_RATIO = 8
"""Ratio between lagtimes that are tried."""

REGULARIZATIONS = (1e-8, 1e-6, 1e-4, 1e-2, 1.0)
"""Regularizations to compare: fewer and stronger than a transition operator's, for short chains."""

SAME = 0.7
"""Two modes with a larger correlation count as one."""

LEAST_ESS_PER_CHAIN = 50.0  # in the test half of a chain: 100 for a whole chain
LEAST_CORRELATION = 0.3  # from which on a parameter is said to be correlated with a mode
_NAMED = 3  # parameters listed for a mode

MIXED, FEW, NOT_MIXED = "mixed", "few effective draws", "not mixed"


class Options(NamedTuple):
    """Options of a call, to be checked."""

    n_modes: int
    lagtime: Any
    n_basis: int


class SlowMode(NamedTuple):
    """A mode, and its statistics in the half of the draws that it was not fitted to."""

    lagtime: int
    values: np.ndarray  # (chains, draws)
    eigenvalue: float
    std_error: float  # of the eigenvalue
    ess: float
    rhat: float


class Verdicts(NamedTuple):
    """A word for each mode, and a sentence about all of them."""

    words: list[str]
    sentence: str


def slow_modes(
    data: Any,
    n_modes: int = 5,
    lagtime: Any = "auto",
    *,
    var_names: Sequence[str] | None = None,
    n_basis: int = 150,
    random_state: Seed = 0,
    add_group: bool = False,
) -> xarray.Dataset:
    """Find the slowest modes of chains, with the effective sample size and the R-hat of each.

    A chain can look well mixed in every parameter and be stuck in a function of several of them,
    such as the sign of a correlation or the number of a mixture's component. The slow modes are the
    functions with the longest autocorrelation, so their effective sample size is about the smallest
    of all functions.

    Parameters
    ----------
    data : InferenceData, DataTree, xarray.Dataset, mapping of str to array_like, or array_like
        Draws of :func:`kmc.sample`, emcee or PyMC, arrays (chain, draw, ...) by name, or one array
        (chain, draw, d).
    n_modes : int
        Largest number of modes: there are fewer if the draws determine fewer different functions.
    lagtime : "auto" or int
        Number of draws between the pairs that modes are fitted to. A slow function among fast
        parameters shows only after the fast ones have decayed, so "auto" tries 1, 8, 64, ... up to
        a sixteenth of the draws and, for several chains, pairs from anywhere in a chain; it keeps
        the modes with the smallest effective sample sizes.
    var_names : sequence of str, optional
        Variables to use, or elements of them, ``"slope[A]"``; all of them by default.
    n_basis : int
        Landmarks of the transition operator.
    random_state : int, Generator or None
        For the choice of landmarks.
    add_group : bool
        Whether the modes also become the group ``slow_modes`` of ``data``, an InferenceData or
        DataTree. The group is saved with the draws, and :func:`kmc.plot_slow_modes` and
        :func:`kmc.report` use it.

    Returns
    -------
    xarray.Dataset
        Its attribute "verdict" says in a sentence whether the chains have mixed and, if not, which
        parameters the slowest mode correlates with. In the order of the effective sample size, the
        worst first:

        - ``ess`` and ``rhat`` (mode): ArviZ's bulk effective sample size and rank-normalized split
          R-hat of the mode, over the half of the draws that it was *not* fitted to;
        - ``eigenvalue`` (mode): its autocorrelation in that half, at the mode's ``lagtime``; for a
          mode fitted to pairs from anywhere, at the longest lagtime tried; ``std_error`` (mode):
          its standard error, by jackknife over chains, or parts of them if there are fewer than
          eight;
        - ``timescale`` (mode): -lagtime / log eigenvalue, in draws, a lower bound of the slowest
          one; 0 if the autocorrelation is within two standard errors of 0, as for independent
          draws; infinite if it is one;
        - ``verdict`` (mode): "mixed"; "few effective draws", under 100 for each chain; or "not
          mixed", an R-hat above 1.05;
        - ``value`` (chain, draw, mode): the mode along all chains;
        - ``correlation`` (mode, parameter): with the normal scores of each parameter, over all
          chains; NaN for a parameter that never moves.

    Raises
    ------
    ValueError, TypeError
        Draws are not finite or too few, no parameter moves, or an argument is out of its range.

    Notes
    -----
    Every chain is split in half, as for split R-hat. Modes are fitted by
    :class:`kmc.spectral.TransitionOperator` to one half of each, the first of one chain and the
    second of the next, in rank-normalized and whitened coordinates; the other halves test them. If
    the same draws were used for both, a mode of independent draws would look slow.

    Pairs from anywhere in a chain are the limit of long lagtimes: their modes are the functions
    whose means differ most between chains, which is what R-hat measures. They are the most
    accurate, since such pairs are the least redundant, and they reveal a latent variable that never
    changes.

    An R-hat above 1.05 is an alarm. False alarms, in 100 runs each of four chains of 1,000 draws of
    five parameters: none for independent draws (the largest R-hat was 1.005, the smallest effective
    sample size of a mode 1,318, out of 2,000 test draws), none for autoregressions of 0.5 (1.016
    and 487), 6 for autoregressions of 0.8 (1.059 and 63, which is too few by ArviZ's own advice):
    ``python benchmarks/slow_modes_rates.py``.

    The coordinates do not matter, but the number of parameters does: an interaction of two among
    twenty parameters is found less sharply than one of two among three, and its effective sample
    size is overestimated (by up to a factor of two with ten). If all chains are stuck in the same
    mode of the target, this shows nothing, like any diagnostic.

    Examples
    --------
    Each chain keeps the sign of the correlation of x and y, which neither x nor y alone shows:

    >>> import numpy as np
    >>> import kmc.diagnostics
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.standard_normal((2, 4, 500))
    >>> sign = np.array([1, -1, 1, -1])[:, None]
    >>> modes = kmc.diagnostics.slow_modes({"x": x, "y": 0.9 * sign * x + 0.4 * noise})
    >>> bool(modes["rhat"][0] > 1.5)
    True
    """
    options = Options(n_modes, lagtime, n_basis)
    check_count(options, "n_modes", 1)
    check_count(options, "n_basis", 2)
    if add_group and not hasattr(data, "groups"):
        raise TypeError(
            f"add_group={add_group!r}: data is a {type(data).__name__}, which has no groups"
        )
    draws = read_draws(data, var_names)
    chains, n, _ = draws.values.shape
    # R-hat needs four draws of each half, and splits the halves of a single chain
    least = 8 if chains > 1 else 16
    if n < least:
        raise ValueError(
            f"data has {n} draws in each of {chains} chains: expected at least {least}"
        )
    coords = coordinates(draws.values)
    lags = _lagtimes(options, n)
    found = [c for lag in lags for c in _candidates(coords.white, lag, options, random_state)]
    if options.lagtime == "auto" and chains > 1:
        found += _candidates(coords.white, lags[-1], options, random_state, anywhere=True)
    modes = _dataset(_distinct(found, n_modes), draws, coords)
    if add_group:
        _add(data, modes)
    return modes


def kept_modes(data: Any, names: Sequence[str] | None = None) -> xarray.Dataset | None:
    """Return the group ``slow_modes`` of a result, or None if it has none.

    A group of other draws than the posterior's, or of other parameters than those of these names
    that move, does not count.
    """
    if not hasattr(data, "groups") or not {"posterior", SLOW_MODES} <= set(groups_of(data)):
        return None
    group, posterior = data[SLOW_MODES], data["posterior"]
    modes = group.to_dataset() if hasattr(group, "to_dataset") else group  # a node of a DataTree
    moving = modes["parameter"].values[np.isfinite(modes["correlation"].values[0])]
    same = all(modes.sizes[dim] == posterior.sizes[dim] for dim in ("chain", "draw"))
    return modes if same and (names is None or set(moving) == set(names)) else None


def _add(data: Any, modes: xarray.Dataset) -> None:
    """Write the group, also over an earlier one."""
    import xarray

    if isinstance(data, xarray.DataTree):
        data[SLOW_MODES] = xarray.DataTree(modes)
        return
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", ".* group is not defined in the InferenceData scheme", UserWarning
        )
        if SLOW_MODES in groups_of(data):
            del data[SLOW_MODES]
        data.add_groups({SLOW_MODES: modes})


def _lagtimes(options: Options, draws: int) -> list[int]:
    most = max(draws // 16, 1)
    if isinstance(options.lagtime, str):
        if options.lagtime != "auto":
            raise ValueError(
                f"lagtime={options.lagtime!r}: expected 'auto' or a whole number of draws"
            )
        return [lag for k in range(20) if (lag := LAG_RATIO**k) <= most]
    check_count(options, "lagtime", 1)
    if options.lagtime > draws // 4:
        raise ValueError(
            f"lagtime={options.lagtime!r}: expected at most a quarter of the {draws} draws of "
            f"each chain"
        )
    return [int(options.lagtime)]


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split each chain into a half to fit and a half to test, both (chains, draws // 2, ...).

    The half to fit is alternately the first or the second. So both parts have early and late draws
    of some chains: a chain apart from the others and a common drift show in either.
    """
    n = x.shape[1] // 2
    first, second = x[:, :n], x[:, x.shape[1] - n :]
    even = (np.arange(len(x)) % 2 == 0).reshape(-1, *[1] * (x.ndim - 1))
    return np.where(even, first, second), np.where(even, second, first)


def _candidates(x, lag, options, random_state, anywhere=False) -> Iterator[SlowMode]:
    """Return modes at one lagtime, or of pairs from anywhere in a chain.

    Pairs from anywhere are neighbors in draws of random order. Pairs at a lagtime are a quarter of
    it apart, since nearer ones are redundant.
    """
    stride = max(lag // 4, 1)
    fitted = _halves(x)[0]
    order = (
        as_generator(random_state).permutation(fitted.shape[1])
        if anywhere
        else slice(None, None, stride)
    )
    operator = TransitionOperator(
        lagtime=1 if anywhere else lag // stride,
        n_components=options.n_modes,
        regularization=REGULARIZATIONS,
        n_basis=options.n_basis,
        random_state=random_state,
    )
    with warnings.catch_warnings():
        # Noise eigenvalues are expected here, and a few test draws far from those of the fit.
        warnings.simplefilter("ignore", KmcWarning)
        operator.fit(list(fitted[:, order]))
        values = np.stack(operator.transform(list(x)))
    judged = _halves(values)[1]
    ess, rhat = ess_and_rhat(judged)
    parts = [
        lagged_sums(*pairs, None)
        for pairs in zip(blocks(judged[:, :-lag]), blocks(judged[:, lag:]))
    ]
    whole = reduce(add, parts)
    eigenvalues = _autocorrelations(whole)
    errors = jackknife(_autocorrelations, [whole - part for part in parts])
    for k in range(values.shape[2]):
        yield SlowMode(lag, values[..., k], eigenvalues[k], errors[k], ess[k], rhat[k])


def _autocorrelations(pairs: Lagged) -> np.ndarray:
    """Return the autocorrelation of each function (k,) over these pairs of draws."""
    mass, lagged = map(np.diag, pairs.reversible())
    return np.divide(lagged, mass, out=np.full(len(mass), np.nan), where=mass > 0)


def _distinct(candidates: list[SlowMode], count: int) -> list[SlowMode]:
    """Return the worst modes by effective sample size, but none nearly equal to a worse one."""
    kept: list[SlowMode] = []
    for one in sorted(candidates, key=lambda c: c.ess if np.isfinite(c.ess) else -1.0):
        if all(
            abs(np.corrcoef(one.values.ravel(), other.values.ravel())[0, 1]) < SAME
            for other in kept
        ):
            kept.append(one)
        if len(kept) == count:
            break
    return kept


def _dataset(modes: list[SlowMode], draws: Draws, coords: Coordinates) -> Any:
    import xarray

    chains, n, _ = draws.values.shape
    value = np.stack([mode.values for mode in modes], axis=-1)
    eigenvalue, lagtime = (
        np.array([getattr(mode, name) for mode in modes]) for name in ("eigenvalue", "lagtime")
    )
    std_error, ess, rhat = (
        np.array([getattr(mode, name) for mode in modes]) for name in ("std_error", "ess", "rhat")
    )
    correlation = correlations(value, coords.scores)
    judged = _verdicts(
        ess, rhat, correlation, draws.names, chains, _halves(draws.values)[1][..., 0].size
    )
    return xarray.Dataset(
        {
            "eigenvalue": ("mode", eigenvalue),
            "std_error": ("mode", std_error),
            "timescale": ("mode", [_timescale(mode) for mode in modes]),
            "verdict": ("mode", judged.words),
            "ess": ("mode", ess),
            "rhat": ("mode", rhat),
            "lagtime": ("mode", lagtime),
            "value": (("chain", "draw", "mode"), value),
            "correlation": (("mode", "parameter"), correlation),
        },
        attrs={"verdict": judged.sentence},
        coords={
            "chain": np.arange(chains),
            "draw": np.arange(n),
            "mode": np.arange(len(modes)),
            "parameter": draws.names,
        },
    )


def _timescale(mode: SlowMode) -> float:
    """Return the timescale in draws; 0 for an autocorrelation within noise.

    The logarithm of such an autocorrelation has no meaning.
    """
    if mode.eigenvalue >= 1.0:
        return float("inf")
    if not mode.eigenvalue > 2.0 / np.sqrt(max(mode.ess, 4.0)):
        return 0.0
    return float(timescales(np.array([mode.eigenvalue]), mode.lagtime)[0])


def correlations(value: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Correlate functions (chains, draws, k) with normal scores of parameters.

    The scores are (chains, draws, d), the correlations (k, d).
    """
    a, b = (part.reshape(-1, part.shape[2]) for part in (value, scores))
    a, b = ((part - part.mean(axis=0)) / part.std(axis=0) for part in (a, b))
    return a.T @ b / len(a)


def _verdicts(
    ess: np.ndarray,
    rhat: np.ndarray,
    correlation: np.ndarray,
    names: Sequence[str],
    chains: int,
    judges: int,
) -> Verdicts:
    """Judge modes in the order of their effective sample size (modes,), the worst first.

    It and R-hat are from so many draws, ``judges``, over all chains; the correlations (modes,
    parameters) are with the parameters of these names.
    """
    words = [_word(e, r, chains) for e, r in zip(ess, rhat)]
    facts = f"R-hat {rhat[0]:.2f}, effective sample size {ess[0]:,.0f} of {judges:,} test draws"
    if NOT_MIXED in words:
        worst = words.index(NOT_MIXED)
        facts = (
            f"R-hat {rhat[worst]:.2f}, effective sample size {ess[worst]:,.0f} of {judges:,} "
            f"test draws"
        )
        return Verdicts(
            words,
            f"The chains have not mixed: mode {worst} ({facts}) correlates with "
            f"{_goes_with(correlation[worst], names)}. Run longer, start elsewhere or "
            f"reparametrize.",
        )
    if FEW in words:
        return Verdicts(
            words,
            f"The chains agree, but on few effective draws: the slowest mode ({facts}) correlates "
            f"with {_goes_with(correlation[0], names)}. Make more draws.",
        )
    return Verdicts(
        words, f"No slow mode was found: the chains agree on the slowest of all ({facts})."
    )


def _goes_with(correlation: np.ndarray, names: Sequence[str]) -> str:
    """Name the parameters of the largest correlations (parameters,), or say that there is none."""
    size = np.nan_to_num(np.abs(correlation))
    largest = np.argsort(-size, kind="stable")[:_NAMED]
    said = [f"{names[i]} ({correlation[i]:+.2f})" for i in largest if size[i] >= LEAST_CORRELATION]
    return ", ".join(said) or "no single parameter"


def _word(ess, rhat, chains):
    if not rhat <= LARGEST_RHAT:
        return NOT_MIXED
    return MIXED if ess >= LEAST_ESS_PER_CHAIN * chains else FEW


# Coordinates that do not depend on the scale, the tails and the linear correlations of parameters.

SMALLEST_VARIANCE = 1e-8
"""Relative variance of combined normal scores below which a parameter is a function of others."""


class Coordinates(NamedTuple):
    """Normal scores of parameters, and uncorrelated combinations of them."""

    scores: np.ndarray  # (chains, draws, d), NaN in the columns of constants
    white: np.ndarray  # (chains, draws, r), uncorrelated, of variance one


def coordinates(values: np.ndarray) -> Coordinates:
    """Return draws (chains, draws, d), rank-normalized as for R-hat, and then whitened.

    A mode is slow in every parametrization, so the choice of one should not hide it.

    Raises
    ------
    ValueError
        All columns are constant.
    """
    chains, draws, d = values.shape
    flat = values.reshape(-1, d)
    moving = np.ptp(flat, axis=0) > 0
    if not np.any(moving):
        raise ValueError("data: no parameter moves in any chain, so there are no modes")
    ranks = stats.rankdata(flat[:, moving], axis=0)
    normal = special.ndtri((ranks - 0.375) / (len(flat) + 0.25))
    scores = np.full(flat.shape, np.nan)
    scores[:, moving] = normal
    s, v = linalg.eigh(np.atleast_2d(np.cov(normal, rowvar=False)))
    kept = s > SMALLEST_VARIANCE * s[-1]
    white = (normal - normal.mean(axis=0)) @ (v[:, kept] / np.sqrt(s[kept]))
    return Coordinates(scores.reshape(values.shape), white.reshape(chains, draws, -1))
