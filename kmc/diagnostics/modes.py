"""The slowest functions of a chain's state, and how well the draws determine their means."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kmc.checks import as_generator, check_count
from kmc.diagnostics.convergence import ess_and_rhat
from kmc.diagnostics.coordinates import Coordinates, coordinates
from kmc.diagnostics.draws import Draws, read_draws
from kmc.diagnostics.mode_verdicts import verdicts
from kmc.errors import KmcWarning
from kmc.forms.lagged import lagged_sums
from kmc.spectral.transition import TransitionOperator
from kmc.spectral.transition_model import timescales

LAG_RATIO = 8
"""Between the lagtimes that are tried."""

REGULARIZATIONS = (1e-8, 1e-6, 1e-4, 1e-2, 1.0)
"""That are compared: fewer than the transition operator's own, and stronger, since chains are short."""

SAME = 0.7
"""Correlation from which on two modes count as one."""


class Options(NamedTuple):
    """Of a call, to be checked."""

    n_modes: int
    lagtime: Any
    n_basis: int


class SlowMode(NamedTuple):
    """A mode, and what the half of the draws that it was not fitted to says of it."""

    lagtime: int
    values: np.ndarray  # (chains, draws)
    eigenvalue: float
    ess: float
    rhat: float


def slow_modes(
    data: Any,
    n_modes: int = 5,
    lagtime: Any = "auto",
    *,
    var_names: Sequence[str] | None = None,
    n_basis: int = 150,
    random_state: Any = 0,
) -> Any:
    """The slowest modes of chains, with the effective sample size and the R-hat of each.

    A chain can look well mixed in every parameter and be stuck in a function of several of them: the sign of a
    correlation, the number of a mixture's component. The slow modes are the functions whose autocorrelation lasts
    longest, so that their effective sample size is about the least of all functions.

    Parameters
    ----------
    data : InferenceData, DataTree, xarray.Dataset, mapping of str to array_like, or array_like
        Draws as :func:`kmc.sample`, emcee or PyMC give them, arrays (chain, draw, ...) by name, or one array
        (chain, draw, d).
    n_modes : int
    lagtime : "auto" or int
        Draws between the pairs that modes are fitted to. Among fast parameters a slow function shows only after the
        fast ones have died away, so that "auto" tries 1, 8, 64, ... up to a sixteenth of the draws, and, of several
        chains, pairs from anywhere in a chain; it keeps the modes with the least effective sample sizes.
    var_names : sequence of str, optional
        Variables to look at, or elements of them, ``"slope[A]"``; all of them by default.
    n_basis : int
        Landmarks of the transition operator.
    random_state : int, Generator or None
        For the landmarks.

    Returns
    -------
    xarray.Dataset
        Its attribute "verdict" says in a sentence whether the chains have mixed, and if not, what the slowest mode
        goes with. In the order of the effective sample size, the worst first:

        - ``ess`` and ``rhat`` (mode): ArviZ's bulk effective sample size and rank-normalized split R-hat of the mode,
          over the half of the draws that it was *not* fitted to;
        - ``eigenvalue`` (mode): its autocorrelation in that half, at the mode's ``lagtime``; the longest one tried, for
          a mode fitted to pairs from anywhere;
        - ``timescale`` (mode): -lagtime / log eigenvalue, in draws, a lower bound of the slowest one; 0 if the
          autocorrelation is within two standard errors of 0, as that of independent draws is; infinite if it is one;
        - ``verdict`` (mode): "mixed"; "few effective draws", under 100 for each chain; or "not mixed", an R-hat above
          1.05;
        - ``value`` (chain, draw, mode): the mode along all chains;
        - ``correlation`` (mode, parameter): with the normal scores of each parameter, over all chains; NaN for a
          parameter that never moves.

    Raises
    ------
    ValueError, TypeError
        For draws that are not finite, too few of them, or no parameter that moves; for a parameter out of its range.

    Notes
    -----
    Every chain is cut in two, as split R-hat does it. Modes are fitted by :class:`kmc.spectral.TransitionOperator` to
    one half of each, the first of one chain and the second of the next, in rank-normalized and whitened coordinates;
    the other halves judge them. Fitted and judged on the same draws, a mode of independent draws would look slow.

    Pairs from anywhere in a chain are the limit of long lagtimes: their modes are the functions whose means differ most
    between chains, R-hat's own question. They are known best of all, since such pairs repeat each other least, and they
    are what a latent shows that never changes.

    An R-hat above 1.05 is an alarm. False ones, in 100 runs each of four chains of 1,000 draws of five parameters: none
    for independent draws (the largest R-hat was 1.005, the least effective sample size of a mode 1,318, out of 2,000
    draws that judge), none for autoregressions of .5 (1.016 and 487), 6 for autoregressions of .8 (1.059 and 63, which
    is too few by ArviZ's own advice): ``python benchmarks/slow_modes_rates.py``.

    The coordinates do not matter, but the number of parameters does: what two of twenty parameters do together is found
    less sharply than what two of three do, and its effective sample size comes out somewhat large (by up to a factor of
    two with ten). All chains stuck in the same mode of the target show nothing here, as anywhere else.

    Examples
    --------
    Each chain keeps the sign of the correlation of x and y, which neither x nor y shows:

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
    draws = read_draws(data, var_names)
    chains, n, _ = draws.values.shape
    least = 8 if chains > 1 else 16  # R-hat takes four draws of each half, and halves of them if there is one chain
    if n < least:
        raise ValueError(f"data has {n} draws in each of {chains} chains: expected at least {least}")
    coords = coordinates(draws.values)
    lags = _lagtimes(options, n)
    found = [c for lag in lags for c in _candidates(coords.white, lag, options, random_state)]
    if options.lagtime == "auto" and chains > 1:
        found += _candidates(coords.white, lags[-1], options, random_state, anywhere=True)
    return _dataset(_distinct(found, n_modes), draws, coords)


def spectral_gap(
    data: Any, lagtime: int = 1, *, var_names: Sequence[str] | None = None, n_basis: int = 150, random_state: Any = 0
) -> float:
    """The spectral gap of chains, 1 - λ₁ for one draw, from a mode fitted to half of the draws and the other half.

    Parameters as in :func:`slow_modes`. The gap for one draw is that for ``lagtime`` draws by 1 - λ₁^(1/lagtime): a
    larger lagtime says more of the slowest mode, as long as λ₁ is well above the noise. Of independent draws it is one
    but for noise, of a chain with alternating draws more.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc.diagnostics
    >>> rng, x = np.random.default_rng(0), np.zeros((4, 5000))
    >>> for t in range(1, 5000):
    ...     x[:, t] = 0.8 * x[:, t - 1] + rng.standard_normal(4)
    >>> bool(abs(kmc.diagnostics.spectral_gap(x) - 0.2) < 0.03)
    True
    """
    modes = slow_modes(data, 1, lagtime, var_names=var_names, n_basis=n_basis, random_state=random_state)
    eigenvalue = float(modes["eigenvalue"][0])
    return 1.0 - np.sign(eigenvalue) * abs(eigenvalue) ** (1.0 / lagtime)


def _lagtimes(options: Options, draws: int) -> list[int]:
    most = max(draws // 16, 1)
    if isinstance(options.lagtime, str):
        if options.lagtime != "auto":
            raise ValueError(f"lagtime={options.lagtime!r}: expected 'auto' or a whole number of draws")
        return [lag for k in range(20) if (lag := LAG_RATIO**k) <= most]
    check_count(options, "lagtime", 1)
    if options.lagtime > draws // 4:
        raise ValueError(f"lagtime={options.lagtime!r}: expected at most a quarter of the {draws} draws of each chain")
    return [int(options.lagtime)]


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each chain one half to fit to and one to judge by, (chains, draws // 2, ...): in turn the first or the second.

    So both have a part of every chain, early draws, and late ones: a chain apart from the others and a drift that all
    have in common show in either.
    """
    n = x.shape[1] // 2
    first, second = x[:, :n], x[:, x.shape[1] - n :]
    even = (np.arange(len(x)) % 2 == 0).reshape(-1, *[1] * (x.ndim - 1))
    return np.where(even, first, second), np.where(even, second, first)


def _candidates(x, lag, options, random_state, anywhere=False) -> Iterator[SlowMode]:
    """Modes at one lagtime, or of pairs from anywhere in a chain, which are neighbors in draws of random order.

    Pairs at a lagtime are a quarter of it apart, since nearer ones say nearly the same.
    """
    stride = max(lag // 4, 1)
    fitted = _halves(x)[0]
    order = as_generator(random_state).permutation(fitted.shape[1]) if anywhere else slice(None, None, stride)
    operator = TransitionOperator(
        lagtime=1 if anywhere else lag // stride,
        n_components=options.n_modes,
        regularization=REGULARIZATIONS,
        n_basis=options.n_basis,
        random_state=random_state,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KmcWarning)  # eigenvalues that are noise are no news here
        operator.fit(list(fitted[:, order]))
    values = np.stack(operator.transform(list(x)))
    judged = _halves(values)[1]
    ess, rhat = ess_and_rhat(judged)
    now, later = (part.reshape(-1, values.shape[2]) for part in (judged[:, :-lag], judged[:, lag:]))
    mass, lagged = lagged_sums(now, later, None).reversible()
    variance = np.diag(mass)
    eigenvalues = np.divide(np.diag(lagged), variance, out=np.full(len(mass), np.nan), where=variance > 0)
    for k in range(values.shape[2]):
        yield SlowMode(lag, values[..., k], eigenvalues[k], ess[k], rhat[k])


def _distinct(candidates: list[SlowMode], count: int) -> list[SlowMode]:
    """The worst by effective sample size, without those that are much the same as a worse one."""
    kept: list[SlowMode] = []
    for one in sorted(candidates, key=lambda c: c.ess if np.isfinite(c.ess) else -1.0):
        if all(abs(np.corrcoef(one.values.ravel(), other.values.ravel())[0, 1]) < SAME for other in kept):
            kept.append(one)
        if len(kept) == count:
            break
    return kept


def _dataset(modes: list[SlowMode], draws: Draws, coords: Coordinates) -> Any:
    import xarray

    chains, n, _ = draws.values.shape
    value = np.stack([mode.values for mode in modes], axis=-1)
    eigenvalue, lagtime = (np.array([getattr(mode, name) for mode in modes]) for name in ("eigenvalue", "lagtime"))
    ess, rhat = (np.array([getattr(mode, name) for mode in modes]) for name in ("ess", "rhat"))
    correlation = _correlations(value, coords.scores)
    judged = verdicts(ess, rhat, correlation, draws.names, chains, _halves(draws.values)[1][..., 0].size)
    return xarray.Dataset(
        {
            "eigenvalue": ("mode", eigenvalue),
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
    """Of an autocorrelation that noise explains, 0: its logarithm says nothing."""
    if mode.eigenvalue >= 1.0:
        return float("inf")
    if not mode.eigenvalue > 2.0 / np.sqrt(max(mode.ess, 4.0)):
        return 0.0
    return float(timescales(np.array([mode.eigenvalue]), mode.lagtime)[0])


def _correlations(value, scores):
    a, b = (part.reshape(-1, part.shape[2]) for part in (value, scores))
    a, b = ((part - part.mean(axis=0)) / part.std(axis=0) for part in (a, b))
    return a.T @ b / len(a)
