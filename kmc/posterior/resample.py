"""``kmc.resample``: approximate draws in any number, with a bound on their error."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from kmc.checks import as_number
from kmc.control_variates.domain import Domain, UnknownMode
from kmc.control_variates.estimate import ReplicateEstimate
from kmc.control_variates.means import CHAINS, chains_of, mass_by
from kmc.control_variates.replicate import Replicate
from kmc.convergence import ENOUGH_DRAWS, squared_error
from kmc.errors import KmcWarning
from kmc.posterior.learned import LEARNED, Learned
from kmc.posterior.results import Result, read, seed_of
from kmc.run.results import container
from kmc.seeds import Seed

_CHAINS = 4
_POOL = 4  # draws from the surrogate for each requested draw
# lower limit of log p/s in a fit: where p is much less than s, the exact value matters little
_DEEPEST = -5.0
_PER_COEFFICIENT = 10  # pairs
_CHECKED = 30_000  # draws from the surrogate that are compared with those of the target
_BLOCK = 10_000  # draws that are made at a time: all of a default call
_MOST_BYTES = 2**30  # of the draws, of which a call holds a few copies

LogRatio = Callable[[np.ndarray], np.ndarray]


def resample(result: Any, draws: int = 2500, *, model: Any = None, seed: Seed = 0) -> Any:
    """Make approximate draws from the posterior, in any number, without further evaluations.

    They are draws from the surrogate s, resampled with weights fitted to the ratio p/s at the
    points that the run evaluated. They are *not* exact, however many there are; for exact
    expectations use :func:`kmc.expectations`. They are meant for uses that need many draws more
    than exactness, such as plots and predictions.

    Parameters
    ----------
    result : result of kmc.sample, or path of a store
        A run of "kernel-hmc", or several of one posterior, joined along the dimension "chain".
    draws : int
        Number of draws of each of four independent chains. They are made in blocks, in little more
        memory than they take themselves, which may be up to 1 GiB.
    model : Model, pymc.Model or bridgestan.StanModel, optional
        Needed if only the model can constrain the parameters.
    seed : int, SeedSequence or Generator

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        The group ``posterior`` with the parameters of `result`, and ``unconstrained_posterior`` if
        they have names. The attribute "total_variation" estimates the distance from the posterior,
        which bounds the error of the probability of any event. "total_variation_bound" adds two
        standard errors of that estimate. It is 1, with a warning, if the surrogate contradicts the
        draws of `result`.

    Raises
    ------
    TypeError, ValueError
        The result has no surrogate, or too few draws; an argument is invalid.

    Notes
    -----
    log p/s is regressed on a quadratic polynomial in white coordinates. The distance ½ E_s |p/s -
    fitted ratio|, both normalized, is averaged over states and proposals by the weights of their
    mixture (:mod:`kmc.control_variates.replicate`); for each half of the run, the fit is from the
    other half.

    Of a run with fewer than 100 draws, draws follow the regression of its evaluations, as for
    :func:`kmc.expectations`, with a warning. "total_variation" is then the average distance between
    functions that the evaluations allow and their average: right as far as the regression is.

    Examples
    --------
    >>> import kmc
    >>> idata = kmc.sample(
    ...     lambda x: -0.5 * x @ x, dim=2, draws=None, max_evaluations=700, seed=1, progress=False
    ... )
    >>> many = kmc.resample(idata, draws=1000)
    >>> many.posterior["x"].shape, bool(many.posterior.attrs["total_variation_bound"] < 0.1)
    ((4, 1000, 2), True)
    """
    n = as_number("draws", draws, 1)
    run = read(result, model, least=ENOUGH_DRAWS)
    dim = run.replicates[0].draws.shape[2] if run.replicates else run.evaluations[0].shape[1]
    if _CHAINS * n * dim * 8 > _MOST_BYTES:
        raise ValueError(
            f"draws={draws!r}: {_CHAINS} chains of so many vectors of {dim} numbers take "
            f"{_CHAINS * n * dim * 8 / 2**30:,.0f} GiB, and more than {_MOST_BYTES / 2**30:.0f} "
            f"GiB may not fit in memory; expected at most {_MOST_BYTES // (_CHAINS * dim * 8)}, "
            "make more by calls with other seeds"
        )
    run.constrain(np.empty((0, dim)))  # an error now, not after the work
    if not run.replicates:
        return _of_learned(run, n, seed_of(seed))
    parts, distances = [], []
    said: list[str] = []
    counts = np.full(len(run.replicates), _CHAINS * n // len(run.replicates))
    counts[: _CHAINS * n - counts.sum()] += 1
    for replicate, count, own in zip(
        run.replicates, counts, seed_of(seed).spawn(len(counts)), strict=True
    ):
        points, distance, doubts = _of_replicate(replicate, int(count), own)
        parts.append(points)
        distances.append(distance)
        said += [f"The surrogate contradicts the draws: {doubts}."] if doubts else []
    for sentence in said:
        warnings.warn(sentence, KmcWarning, stacklevel=2)
    total, bound = np.average(distances, axis=0, weights=counts)
    rng = np.random.default_rng(seed_of(seed).spawn(len(counts) + 1)[-1])
    points = rng.permutation(np.vstack(parts)).reshape(_CHAINS, n, -1)
    attrs = _attrs(
        total, 1.0 if said else bound, said, "from the surrogate, with fitted weights; not exact"
    )
    return _laid_out(run, points, attrs)


def _of_learned(run: Result, n: int, seed: np.random.SeedSequence) -> Any:
    """Return draws by the average weights of functions that the evaluations allow.

    Their distance is that of the functions from the average.
    """
    own, after = seed.spawn(2)
    learned = Learned(run, "result", own)
    rng = np.random.default_rng(after)
    parts: list[np.ndarray] = []
    distances = []
    while sum(map(len, parts)) < _CHAINS * n:
        table = learned.table()
        weights = table.weights
        whole = weights.mean(axis=0)
        distances.append(0.5 * np.abs(weights - whole).sum(axis=1))
        ends = np.cumsum(whole)
        chosen = np.searchsorted(
            ends, (rng.random() + np.arange(len(whole))) / len(whole) * ends[-1]
        )
        parts.append(table.points[np.minimum(chosen, len(whole) - 1)])
    said = learned.sentences(table)
    for sentence in said:
        warnings.warn(sentence, KmcWarning, stacklevel=3)
    found = np.concatenate(distances)
    points = rng.permutation(np.vstack(parts))[: _CHAINS * n].reshape(_CHAINS, n, -1)
    return _laid_out(
        run, points, _attrs(found.mean(), found.mean() + 2.0 * found.std(), said, LEARNED)
    )


def _attrs(distance: float, bound: float, said: list[str], description: str) -> dict[str, Any]:
    return {
        "total_variation": float(distance),
        "total_variation_bound": float(min(bound, 1.0)),
        "warnings": str(said),
        "description": f"approximate draws by kmc.resample: {description}",
    }


def _of_replicate(replicate: Replicate, count: int, seed: np.random.SeedSequence):
    """Return points (count, d), the distance and the bound on it, and doubts."""
    sampling, checking = seed.spawn(2)
    rng = np.random.default_rng(sampling)
    estimate = ReplicateEstimate(replicate, lambda points: points, checking, _CHECKED, np.inf)
    try:
        domain = replicate.domain()
        chains = chains_of(replicate, rng, domain)
    except UnknownMode as error:
        raise ValueError(f"result: {error}; sample for longer") from error
    shares = np.ones(1)
    if len(chains) > 1:
        log_masses = np.array([mass_by(own, rng).log_mass for own in chains])
        shares = np.exp(log_masses - log_masses.max())
    log_ratio = _fitted(replicate, slice(None))
    points = np.empty((count, replicate.draws.shape[2]))
    for start in range(0, count, _BLOCK):
        block = points[start : start + _BLOCK]
        pools = rng.multinomial(_POOL * len(block), shares / shares.sum())
        pool = np.vstack(
            [
                own.back(own.draws(-(-size // CHAINS))).reshape(-1, block.shape[1])[:size]
                for own, size in zip(chains, pools, strict=True)
            ]
        )
        weights = np.exp(log_ratio(pool))
        ends = np.cumsum(weights) / weights.sum()
        chosen = np.searchsorted(ends, (rng.random() + np.arange(len(block))) / len(block))
        block[:] = pool[np.minimum(chosen, len(pool) - 1)]
    return points, _distance(replicate, domain), estimate.doubts


def _fitted(replicate: Replicate, sweeps: slice) -> LogRatio:
    """Fit log p/s by a quadratic polynomial, from some of the sweeps.

    The fit is bounded by the values of log p/s at the states.
    """
    transitions = replicate.transitions()
    run = transitions.run[:, sweeps]
    x, y = replicate.starts[:, sweeps][run], replicate.ends[:, sweeps][run]
    at_x, at_y = transitions.start[:, sweeps][run], transitions.end[:, sweeps][run]
    points = np.vstack([x, y])
    values = np.maximum(np.concatenate([at_x, at_y]), _DEEPEST)
    center, factor = (
        x.mean(axis=0),
        np.linalg.cholesky(np.atleast_2d(np.cov(x.T)) + 1e-12 * np.eye(x.shape[1])),
    )
    curved = len(x) > _PER_COEFFICIENT * (1 + x.shape[1] + x.shape[1] * (x.shape[1] + 1) // 2)

    def features(rows):
        z = np.linalg.solve(factor, (rows - center).T).T
        i, j = np.triu_indices(z.shape[1])
        return np.hstack([np.ones((len(z), 1)), z, *([z[:, i] * z[:, j]] if curved else [])])

    design = features(points)
    gram = design.T @ design
    gram[np.diag_indices_from(gram)] += 1e-3 * len(points) / len(gram)
    coefficients = np.linalg.solve(gram, design.T @ values)
    low, high = values.min(), values.max()
    return lambda rows: np.clip(features(rows) @ coefficients, low, high)


def _distance(replicate: Replicate, domain: Domain | None) -> tuple[float, float]:
    """Estimate and bound the weighted surrogate's total variation distance from the target."""
    transitions = replicate.transitions_in(domain)
    n = transitions.run.shape[1]
    halves = slice(None, n // 2), slice(n // 2, None)
    fitted = [np.empty_like(transitions.start) for _ in range(2)]
    for half, other in (halves, halves[::-1]):
        log_ratio = _fitted(replicate, other)
        for values, x in zip(
            fitted, (replicate.starts[:, half], replicate.ends[:, half]), strict=True
        ):
            values[:, half] = log_ratio(x.reshape(-1, x.shape[2])).reshape(x.shape[:2])
    exact = [np.exp(np.minimum(side, 50.0)) for side in (transitions.start, transitions.end)]
    near = [np.exp(side) for side in fitted]
    means = [
        float(transitions.of_surrogate(*(side[..., None] for side in sides)).mean())
        for sides in (exact, near)
    ]
    off = [
        0.5 * np.abs(a / means[0] - b / means[1])[..., None]
        for a, b in zip(exact, near, strict=True)
    ]
    series = transitions.of_surrogate(*off)
    outside = 0.0 if transitions.inside is None else 1.0 - float(transitions.inside[0].mean())
    distance = float(series.mean()) + outside + float(transitions.unseen(off[1])[0])
    return distance, distance + 2 * float(np.sqrt(squared_error(series)[0]))


def _laid_out(run: Result, points: np.ndarray, attrs: dict[str, Any]) -> Any:
    import xarray

    chains, n, dim = points.shape
    values = run.constrain(points.reshape(-1, dim))
    like = run.idata["posterior"]
    variables, coords = {}, {"chain": np.arange(chains), "draw": np.arange(n)}
    for name, variable in like.data_vars.items():
        if name in values:
            variables[name] = (
                variable.dims,
                np.reshape(values[name], (chains, n, *variable.shape[2:])),
            )
            coords |= {dim: like.coords[dim].values for dim in variable.dims[2:]}
    groups = {"posterior": xarray.Dataset(variables, coords=coords, attrs=attrs)}
    if run.named:
        groups["unconstrained_posterior"] = xarray.Dataset(
            {"x": (("chain", "draw", "x_dim_0"), points)}
        )
    return container(groups, attrs)
