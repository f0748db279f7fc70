"""``kmc.expectations``: posterior expectations of functions of the parameters.

They are estimated with the surrogate's help.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kmc.checks import as_amount, as_flag, as_number, is_number
from kmc.control_variates.correction import stated
from kmc.control_variates.estimate import Estimate, ReplicateEstimate, judge
from kmc.control_variates.replicate import Replicate
from kmc.convergence import ENOUGH_DRAWS
from kmc.errors import KmcWarning
from kmc.posterior.learned import LEARNED, MOVES, Learned, Table
from kmc.posterior.results import (
    Quantities,
    as_list,
    groups_of,
    is_short,
    read,
    read_evaluations,
    seed_of,
)
from kmc.run.display import steps
from kmc.seeds import Seed

if TYPE_CHECKING:
    import xarray

_MOST_STEPS = 40  # of the inversion of a distribution function
_CLOSE = 0.05  # largest distance from a level, relative to the function's error
_NARROW = 1e-9  # bracket of a jump
_FEW = 20  # draws that say more than a regression that says hardly anything


def expectations(
    result: Any,
    f: Callable[[Any], Any] | None = None,
    *,
    quantiles: Sequence[float] = (0.05, 0.5, 0.95),
    model: Any = None,
    vectorized: bool = False,
    max_surrogate_draws: int = 400_000,
    max_time: float | None = None,
    seed: Seed = 0,
    progress: bool = True,
) -> xarray.Dataset:
    """Estimate posterior expectations from draws and surrogate, more precisely than draws alone.

    Parameters
    ----------
    result : result of kmc.sample, path of a store, or list of them
        Runs of "kernel-hmc". Several must be of the same posterior; they may also be joined along
        the dimension "chain", by ``arviz.concat`` or ``xarray.concat``.
    f : callable, optional
        A function of the parameters that returns a number or an array of numbers, always of one
        shape. Its argument is that of the log-density: a dict of parameters, or an array (d,) if
        these have no names. By default, the parameters themselves.
    quantiles : sequence of float
        Probabilities in (0, 1).
    model : Model, pymc.Model or bridgestan.StanModel, optional
        Needed if only the model can constrain the parameters: those of PyMC and Stan, and of a
        space of your own.
    vectorized : bool
        Whether `f` takes many points at once: a dict of arrays (n, ...), or an array (n, d); it
        returns (n, ...).
    max_surrogate_draws : int
        Largest number of draws from the surrogate, for each independent run. Fewer are made if
        their error drops below a tenth of the other errors or a thousandth of the standard
        deviations, and if they would take more than 320 MB of memory.
    max_time : float, optional
        Approximate limit in seconds for these draws. Where the clock stops them is not
        reproducible.
    seed : int, SeedSequence or Generator
        For these draws.
    progress : bool
        Whether a terminal or a notebook shows that it is under way.

    Returns
    -------
    xarray.Dataset
        ``mean``, ``sd`` and ``quantiles`` of each ``quantity``, a parameter's number such as
        "theta[A]" or a number of `f`. ``mcse``, ``mcse_sd`` and ``mcse_quantiles`` are their Monte
        Carlo standard errors; ``equivalent_ess``, ``equivalent_ess_sd`` and
        ``equivalent_ess_quantiles`` are the numbers of independent draws with the same precision.
        Where all draws have one value, ``sd`` and the errors are NaN. ``plain_mean`` and
        ``plain_mcse`` are from the draws alone. The attributes "n_draws" and "n_surrogate_draws"
        are counts, "corrected" says whether the surrogate was used (1) or not (0), and "warnings"
        has the sentences of the warnings.

    Raises
    ------
    TypeError, ValueError
        The result has no surrogate, or neither 100 draws nor 2 d + 2 evaluations; f returned NaN,
        or a different shape than before; an argument is invalid.

    Warns
    -----
    KmcWarning
        There are fewer than 100 draws, or they count as fewer, or the run's surrogate is in doubt,
        and one of all evaluations answers alone. The density is zero at proposals of the surrogate:
        true errors near the edge may be larger than the stated ones. There are fewer than 40 draws,
        or the surrogate is in doubt, as for :func:`kmc.evidence`: plain averages are returned. The
        run warned that its draws are not those of the posterior. The surrogate has mass far from
        all draws, of which there are 1,000 or more, and is used near them alone: a region that the
        draws have not found is not included. The draws count as fewer than 100 independent ones, or
        noise grows towards the tails: the stated errors are rough. The tails of the parameters, or
        of `f`, are so heavy that averages of squares, or of the numbers themselves, have no finite
        variance: their true errors are larger than the stated ones.

    Notes
    -----
    The means under the surrogate s are known, as draws from it cost nothing, and its gradient gives
    control variates for them (:mod:`kmc.control_variates.chain_means`). Each state x of a chain has
    a proposal y, whose true value is known as well, accepted or not. From s and p at both, weights
    are computed by which averages over the pairs have exactly the expectations under p and under s
    (:mod:`kmc.control_variates.replicate`): averages of states and proposals by the weights of
    their mixture, as in bridge sampling and MBAR [1]_, [2]_. The differences between the averages
    for s and the known means are control variates, with coefficients by regression over other parts
    of the run: a wrong surrogate reduces the precision but causes no bias. A set of controls is
    used only if it reduces the error; without any, the result is the plain average. With fewer than
    400 draws the mean under s plus the difference of the averages for p and s is tried, too, as it
    needs no coefficients, and stated errors are widened for their own uncertainty. Errors are the
    larger ones of those of autocorrelated series (Geyer's) and of the chains' own means, and
    include that of the surrogate's draws. They also include what a region may add that the draws
    have missed by chance: one with the probability 3 / n, for n effective draws, where p/s is as
    far from constant as at the draws. A quantile is where the corrected distribution function has
    its level; where it has none, as the surrogate lacks mass there, it is that of the draws alone.

    The surrogate is judged first, as by :func:`kmc.evidence`. If the means under s differ from
    those of the draws by more than chance, s is tried again in a region near the draws, as these
    identities hold for functions that vanish elsewhere, too: s may be precise there and have a
    false mode far away. If the means there differ as well, by more than those of as many draws from
    s do, s is not used.

    A run with fewer than 100 draws, as its budget or time was short, is answered for by the
    Gaussian-process regression of its evaluations: from functions that are drawn from the
    regression's posterior, at draws of its mean. The means and standard deviations of what they
    give are the answers and their errors, labelled by the attribute "method". A fifth of the values
    is left out at first, and tells how far errors can be believed; functions behind the edge of the
    support are zero where the nearest of resampled evaluations is. Errors include what there is too
    much or too little in the outskirts, the share d / (n + 1) of lowest density, which may be
    beyond all n evaluations. Answers are right as far as the regression is. Where the log-density
    is not known to half a nat, or a tenth of the posterior may be beyond all evaluations, as there
    are fewer than 10 d, errors are rough, and 20 draws and more are used instead, as above. A run
    of at most 1,000 evaluations whose surrogate is not used is answered for in the same way, if the
    density is positive at all of them and errors not rough. So is one whose draws count as fewer
    than 100 independent ones, if the largest error of a mean or standard deviation is stated to be
    smaller.

    Regions that neither the draws nor the proposals have found, such as a second mode, are not
    included.

    References
    ----------
    .. [1] Meng and Wong (1996), "Simulating ratios of normalizing constants via a simple identity",
       Statistica Sinica 6.
    .. [2] Shirts and Chodera (2008), "Statistically optimal analysis of samples from multiple
       equilibrium states", Journal of Chemical Physics 129.

    Examples
    --------
    >>> import kmc
    >>> idata = kmc.sample(
    ...     lambda x: -0.5 * x @ x, dim=2, draws=None, max_evaluations=900, seed=1, progress=False
    ... )
    >>> found = kmc.expectations(idata, lambda x: x @ x, max_surrogate_draws=8000)
    >>> abs(float(found["mean"][0]) - 2) < 0.1
    True
    """
    levels = _levels(quantiles)
    limit, most = (
        as_amount("max_time", max_time, "seconds"),
        as_number("max_surrogate_draws", max_surrogate_draws, 1),
    )
    vectorized = as_flag("vectorized", vectorized)
    if vectorized and f is None:
        raise ValueError("vectorized=True and f=None: it describes a function f; leave it out")
    given = as_list(result)
    names = ["result"] if len(given) == 1 else [f"result[{i}]" for i in range(len(given))]
    runs = [
        read(one, model, name, least=ENOUGH_DRAWS) for name, one in zip(names, given, strict=True)
    ]
    functions = [Quantities(f, vectorized, run) for run in runs]
    if not all(run.replicates for run in runs):
        if len(runs) > 1:
            raise ValueError(
                f"result has {len(runs)} runs, one of them with fewer than 100 draws: pass that "
                f"alone"
            )
        learned = Learned(runs[0], "result", seed_of(seed).spawn(1)[0])
        table = learned.table(MOVES)
        if not table.is_rough or not _is_enough(given[0]):
            return _warned(_of_learned(learned, table, functions[0], levels, []))
        runs = [read(given[0], model, "result")]
        functions = [Quantities(f, vectorized, runs[0])]
    replicates = [
        (own, replicate)
        for own, run in zip(functions, runs, strict=True)
        for replicate in run.replicates
    ]
    parts = _estimates(replicates, seed, most, limit, progress)
    if len({tuple(own.labels) for own in functions}) > 1:
        raise ValueError(
            f"result: the runs have different quantities: {[own.labels for own in functions]}"
        )
    doubts = [f"The surrogate is not used: {part.doubts}." for part in parts if part.doubts]
    said = [*doubts, *(f"{caution}." for part in parts for caution in part.cautions)]
    found = _dataset(parts, levels, functions[0].labels, list(dict.fromkeys(said)))
    few = all(
        part.doubts or replicate.is_few
        for part, (_, replicate) in zip(parts, replicates, strict=True)
    )
    if len(runs) == 1 and few and (again := read_evaluations(given[0], model)):
        learned = Learned(again, "result", seed_of(seed).spawn(1)[0])
        if not (table := learned.table(MOVES)).is_rough:
            other = _of_learned(learned, table, functions[0], levels, doubts)
            if len(doubts) == len(parts) or _largest_error(other) < _largest_error(found):
                found = other
    return _warned(found)


def _warned(found: Any) -> Any:
    """Return the result after warning of what it says."""
    for sentence in found.attrs["warnings"]:
        warnings.warn(sentence, KmcWarning, stacklevel=3)
    return found


def _largest_error(found: Any) -> float:
    """Return the largest stated error of a mean or a standard deviation, in standard deviations."""
    errors = np.stack([found["mcse"].values, found["mcse_sd"].values])
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.nan_to_num(errors / found["sd"].values), initial=0.0))


def _estimates(
    replicates: list[tuple[Quantities, Replicate]],
    seed: Seed,
    most: int,
    limit: float | None,
    progress: bool,
) -> list[ReplicateEstimate]:
    """Make an estimate from each replicate, all of them together within the limit in seconds."""
    # of one replicate, as for its evidence
    seeds = [each.spawn(1)[0] for each in seed_of(seed).spawn(len(replicates))]
    deadline = time.perf_counter() + (np.inf if limit is None else limit)
    parts = []
    jobs = list(enumerate(zip(replicates, seeds, strict=True)))
    for i, ((own, replicate), own_seed) in steps(
        jobs, "kmc.expectations", as_flag("progress", progress)
    ):
        share = (deadline - time.perf_counter()) / (len(replicates) - i)
        end = time.perf_counter() + share
        verdict = partial(judge, replicate, own_seed)  # that of kmc.evidence with this seed
        parts.append(
            ReplicateEstimate(replicate, own, own_seed, most, end, nearby=True, judge=verdict)
        )
    return parts


def _is_enough(idata: Any) -> bool:
    """Return whether a run has draws to answer from where its evaluations alone allow too much."""
    return "surrogate" in groups_of(idata) and not is_short(idata, _FEW)


def _of_learned(
    learned: Learned, table: Table, function: Quantities, levels: np.ndarray, doubts: list[str]
) -> Any:
    """Return moments and quantiles, with errors, from functions that the evaluations allow."""
    values, weights = function(table.points), table.weights_of_all  # (m, k), (functions, m)
    means = weights @ values
    mean, whole = means.mean(axis=0), weights.mean(axis=0)
    variances = np.maximum(weights @ (values - mean) ** 2 - (means - mean) ** 2, 0.0)
    variance = variances.mean(axis=0)
    sd = np.sqrt(variance)
    squares, outskirts = (values - mean) ** 2, table.outskirts
    of_squares = np.maximum(whole @ squares**2 - variance**2, 0.0) / table.effective
    # in the outskirts there may be twice as much mass, or none
    beyond = np.sqrt(table.unseen * (outskirts @ squares))
    beyond_squares = outskirts @ (squares - variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_sd = np.sqrt(of_squares + beyond_squares**2) / (2.0 * sd)
    mcse = np.sqrt(means.var(axis=0) + variance / table.effective + beyond**2)
    mcse_sd = np.hypot(np.sqrt(variances).std(axis=0), of_sd)

    shape = len(levels), values.shape[1]
    quantiles, widths, errors = np.empty(shape), np.empty(shape), np.empty(shape)
    for i, rows in enumerate(np.argsort(values, axis=0).T):
        ordered, each = values[rows, i], np.cumsum(weights[:, rows], axis=1)
        ranks = np.maximum.accumulate(np.cumsum(whole[rows])) - 0.5 * whole[rows]
        for own, level in enumerate(levels):
            quantiles[own, i] = limit = np.interp(level, ranks, ordered)
            below = each[:, max(np.searchsorted(ordered, limit, side="right") - 1, 0)]
            beyond = table.unseen * (outskirts @ ((values[:, i] <= limit) - level) ** 2)
            errors[own, i] = error = np.sqrt(
                below.var() + level * (1.0 - level) / table.effective + beyond
            )
            first, last = np.interp([level - error, level + error], ranks, ordered)
            widths[own, i] = 0.5 * (last - first)
    said = [*dict.fromkeys(doubts), *learned.sentences(table)]
    ess = levels[:, None] * (1.0 - levels[:, None]) / errors**2
    none = np.full(len(mean), np.nan)
    counts = {"n_draws": learned.n_draws, "n_surrogate_draws": len(values)}
    attrs = {**counts, "corrected": 0, "method": LEARNED, "warnings": said}
    means, sds, plain = (mean, mcse), (sd, mcse_sd), (none, none)
    return _laid_out(function.labels, levels, means, sds, (quantiles, widths, ess), plain, attrs)


def _dataset(
    parts: list[ReplicateEstimate], levels: np.ndarray, labels: list[str], said: list[str]
) -> Any:
    mean, variance, mcse, mcse_variance = _mean_and_variance(parts)
    sd = np.where(np.isnan(mcse_variance), np.nan, np.sqrt(np.maximum(variance, 0.0)))
    mcse_sd = mcse_variance / (2.0 * np.where(sd > 0, sd, np.inf))
    attrs = {
        "n_draws": sum(part.n_draws for part in parts),
        "n_surrogate_draws": sum(part.n_surrogate_draws for part in parts),
        "corrected": int(not any(part.doubts for part in parts)),
        "warnings": said,
    }
    quantiles = _quantiles(parts, levels, len(labels))
    return _laid_out(
        labels, levels, (mean, mcse), (sd, mcse_sd), quantiles, _plain(parts), attrs, variance
    )


def _laid_out(labels, levels, means, sds, quantiles, plain, attrs, variance=None) -> Any:
    """Return the result from values and errors; quantiles also have equivalent sample sizes."""
    import xarray

    (mean, mcse), (sd, mcse_sd), (limits, widths, ess_quantiles) = means, sds, quantiles
    variance = sd**2 if variance is None else variance
    with np.errstate(divide="ignore", invalid="ignore"):
        ess, ess_sd = variance / mcse**2, 0.5 * variance / mcse_sd**2
    each, table = ("quantity",), ("quantile", "quantity")
    return xarray.Dataset(
        {
            "mean": (each, mean),
            "sd": (each, sd),
            "quantiles": (table, limits),
            "mcse": (each, mcse),
            "mcse_sd": (each, mcse_sd),
            "mcse_quantiles": (table, widths),
            "equivalent_ess": (each, ess),
            "equivalent_ess_sd": (each, ess_sd),
            "equivalent_ess_quantiles": (table, ess_quantiles),
            "plain_mean": (each, plain[0]),
            "plain_mcse": (each, plain[1]),
        },
        coords={"quantity": labels, "quantile": levels},
        attrs=attrs,
    )


def _mean_and_variance(parts):
    """Return means and variances of the k numbers, and the standard errors of both."""
    k = len(parts[0].center)
    center = parts[0].center
    estimates = []
    for part in parts:
        found = part.moments()
        shift = part.center - center  # squares are around each part's own center
        off = found.mean[:k]
        square = found.mean[k:] + 2 * shift * off + shift**2
        estimates.append(Estimate(np.concatenate([shift + off, square]), found.squared_error))
    mean, squared = together(estimates)
    off = mean[:k]
    return (
        center + off,
        mean[k:] - off**2,
        np.sqrt(squared[:k]),
        np.sqrt(squared[k:] + 4 * off**2 * squared[:k]),
    )


def _plain(parts):
    weights = np.array([part.n_draws for part in parts], float)
    mean = np.average([part.center for part in parts], axis=0, weights=weights)
    squared = np.average([part.plain_squared_error for part in parts], axis=0, weights=weights**2)
    return mean, np.sqrt(squared * np.sum(weights**2)) / weights.sum()


def _quantiles(parts, levels, k):
    """Return the quantiles of the corrected distribution functions.

    They come with errors and equivalent sample sizes, and are the plain ones where the corrected
    function does not come within its error of the level, as the surrogate has hardly any draws
    there, or where it is constant.
    """
    shape = len(levels), k
    if not len(levels):
        return np.empty(shape), np.empty(shape), np.empty(shape)
    level, i = (part.ravel() for part in np.meshgrid(levels, np.arange(k), indexing="ij"))
    found = _plain_quantiles(parts, level, i)
    if not all(part.doubts for part in parts):
        own = _inverted(parts, level, i)
        known = np.isfinite(own).all(axis=0)
        found = np.where(known, own, found)
    quantile, width, error = found
    with np.errstate(divide="ignore"):
        ess = level * (1 - level) / error**2
    return quantile.reshape(shape), width.reshape(shape), ess.reshape(shape)


def _inverted(parts: list[ReplicateEstimate], level: np.ndarray, i: np.ndarray) -> np.ndarray:
    """Return the quantiles of quantities i (m,), and two kinds of errors, (3, m).

    The errors are those of the quantiles, and those of the distribution functions there.

    The probability under the surrogate is bracketed by 0 and 1, and the bracket is narrowed by
    regula falsi ([1]_, "Illinois"), which survives that noise may make the function decrease. NaN
    where it has no such quantile.

    References
    ----------
    .. [1] Dowell and Jarratt (1971), "A modified regula falsi method for computing the root of an
       equation", BIT 11.
    """
    shapes = {j: parts[0].sorted(j) for j in np.unique(i)}

    def at(u):
        return np.array(
            [np.interp(p, shapes[j][1], shapes[j][0]) for p, j in zip(u, i, strict=True)]
        )

    def below(rows, u):
        return together([part.below(i[rows], at(u)[rows]) for part in parts])

    low, high = np.zeros_like(level), np.ones_like(level)
    at_low, at_high = -level, 1.0 - level
    side = np.zeros_like(level)  # that moved last
    best, least, error = level, np.full_like(level, np.inf), np.zeros_like(level)
    off, squared = np.empty_like(level), np.empty_like(level)
    for _ in range(_MOST_STEPS):
        rows = np.flatnonzero((least > _CLOSE * error) & (high - low >= _NARROW))
        if not len(rows):
            break
        u = (low * at_high - high * at_low) / (at_high - at_low)
        found = below(rows, u)
        off[rows], squared[rows] = found.mean - level[rows], found.squared_error
        nearer = np.abs(off) < least
        best, least = np.where(nearer, u, best), np.where(nearer, np.abs(off), least)
        error = np.where(nearer, np.sqrt(squared), error)

        # brackets of functions that are found move as well, and nothing is made of them
        under = off < 0.0
        kept_low, kept_high = (
            np.where(side > 0, 0.5 * at_low, at_low),
            np.where(side < 0, 0.5 * at_high, at_high),
        )
        low, at_low = np.where(under, u, low), np.where(under, off, kept_low)
        high, at_high = np.where(under, high, u), np.where(under, kept_high, off)
        side = np.where(under, -1, 1)

    # The error by the slope of the corrected function or of the surrogate's, the smaller one: the
    # former has jumps.
    ends = [np.clip(best + sign * error, 0.0, 1.0) for sign in (-1, 1)]
    every = np.arange(len(level))
    rise = below(every, ends[1]).mean - below(every, ends[0]).mean
    first, last = map(at, ends)
    known = (least <= error) & (error > 0.0) & (rise > 0.0) & (last > first)
    width = np.where(
        known, (last - first) * np.maximum(error / np.where(known, rise, 1.0), 0.5), np.nan
    )
    return np.array([at(best), width, error])


def _plain_quantiles(parts, level, i):
    """Return quantiles by the draws alone, and two kinds of errors, (3, m).

    The errors are those of the quantiles, and those of the distribution functions there.
    """
    values = np.concatenate([part.values.reshape(-1, part.values.shape[2]) for part in parts])
    ranks = (np.arange(len(values)) + 0.5) / len(values)
    ordered = np.sort(values, axis=0)

    def at(u):
        return np.array([np.interp(p, ranks, ordered[:, j]) for p, j in zip(u, i, strict=True)])

    quantile = at(level)
    weights = np.array([part.n_draws for part in parts]) / len(values)
    squared = [stated((part.values[..., i] <= quantile).astype(float)) for part in parts]
    error = np.sqrt(weights**2 @ np.array(squared))
    constant = np.any([part.constant for part in parts], axis=0)[i]
    return np.array(
        [quantile, np.where(constant, np.nan, 0.5 * (at(level + error) - at(level - error))), error]
    )


def together(estimates: list[Estimate]) -> Estimate:
    """Combine independent estimates, each weighted by its precision."""
    if len(estimates) == 1:
        return estimates[0]
    squared = np.array([estimate.squared_error for estimate in estimates])
    precision = 1.0 / np.maximum(squared, 1e-300)
    mean = np.sum(
        [p * estimate.mean for p, estimate in zip(precision, estimates, strict=True)], axis=0
    )
    return Estimate(mean / precision.sum(axis=0), 1.0 / precision.sum(axis=0))


def _levels(quantiles):
    if isinstance(quantiles, str) or not isinstance(quantiles, (Sequence, np.ndarray)):
        raise TypeError(f"quantiles={quantiles!r}: expected probabilities, such as (0.05, 0.95)")
    if not all(is_number(level) and 0 < level < 1 for level in quantiles):
        raise ValueError(f"quantiles={quantiles!r}: expected numbers between 0 and 1")
    return np.array(quantiles, float)
