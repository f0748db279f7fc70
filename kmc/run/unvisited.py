"""Evaluated places where no draw is: a mode that the chains have left, or never entered."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import digamma, expit, gammaln

from kmc.control_variates.domain import thinned
from kmc.samplers.inner_chains import InnerChainOptions
from kmc.samplers.local_mixture import local_mixture
from kmc.samplers.tuning import Trials, ends_of, with_step_size
from kmc.surrogate.coordinates.whitening import whiten_states
from kmc.surrogate.density import Component, Density
from kmc.surrogate.jit_state import gradients
from kmc.surrogate.mass import bulk_depth

# Set by hand; benchmarks/honesty.py shows how many runs are warned of, and how many should be.
_FAR = 6.0  # times the usual distance between draws is far from all of them
_LEAST_SHARE = 0.05  # of the mass of draws and mode together
# chains on the surrogate that begin at draws, and at the highest points that are far from them
_STARTS = 64
_MOVES = InnerChainOptions(
    step_size=0.1, trajectory_length=2.5, independence_probability=0.15, small_step_probability=0.4
)
_DRAWS, _BETWEEN = 8, 10  # of each of these chains, and moves between them
# of the chains that are far from the draws at first, in another mode: along a ridge they come back
_STAYING = 0.9
# points between a mode and the draws; nats that s is lower there: a tail only rises
_ON_WAY, _DIP = 50, 2.0
_STEP = 0.05  # standard deviations of the draws, of differences for a curvature
_FEWEST_PER_DIM, _FEWEST_MORE = 2, 2  # draws that show what is far, at least
_MORE = 2.0  # nats, plus half the dimension: points less deep than that are in the bulk
_USUAL = 0.95  # quantile of distances between neighboring draws: the usual distance
_NEIGHBOR = 3  # the nearest one by which an entropy is estimated


class Unvisited(NamedTuple):
    """An evaluated place where no draw is."""

    x: np.ndarray  # (d,)
    value: float
    share: float  # of the mass


def unvisited(
    density: Density, x: np.ndarray, values: np.ndarray, draws: np.ndarray, rng: np.random.Generator
) -> list[Unvisited]:
    """Find places far from all draws, one for each surrogate.

    They are as high as the bulk and not as narrow as to have no mass, or in a mode of some mass.

    Parameters
    ----------
    density : Density
        The frozen surrogate s.
    x, values : ndarray, shape (n, d) and (n,)
        Evaluated points.
    draws : ndarray, shape (k, d)
    rng : Generator

    Notes
    -----
    A point in the bulk that is far from all draws is one: that s leads its chains there helps
    nothing if none of their ends was accepted. But a point of a wide mode may be deep and stand for
    much mass all the same. So chains on s begin at points that are far, and near no draw of s by
    chains that begin at the draws. If they stay far, and s is lower on the way to the draws, they
    are in another mode, with the mass exp(E log s + H), where the entropy H is estimated by nearest
    neighbors. As s may be anything where few values are known, it counts as at most the highest
    value there.
    """
    finite = np.isfinite(values)
    x, values = x[finite], values[finite]
    at_points, at_draws = (
        np.argmax([one.log_density(p) for one in density.components], axis=0) for p in (x, draws)
    )
    found = []
    for k, component in enumerate(density.components):
        states, here = thinned(np.unique(draws[at_draws == k], axis=0)), at_points == k
        if len(states) < _FEWEST_PER_DIM * density.dim + _FEWEST_MORE or not here.any():
            continue
        best, share = _mode(component, x[here], values[here], states, rng)
        if share <= _LEAST_SHARE:
            z = component.coordinates(states)
            white = whiten_states(z)
            high = np.flatnonzero(
                here & _in_bulk(values - component.transport.log_jacobian(x), density.dim)
            )
            high = high[_is_far(white(component.coordinates(x[high])), cKDTree(white(z)))]
            high = high[np.argsort(-values[high], kind="stable")][:_STARTS]
            heights = values[high] - component.transport.log_jacobian(x[high])
            shares = _shares(component, component.coordinates(x[high]), heights, z)
            high = high[shares > _LEAST_SHARE]
            if not len(high):
                continue
            best, share = high[0], 0.0
        else:
            best = np.flatnonzero(here)[best]
        found.append(Unvisited(x[best], float(values[best]), share))
    return found


def _mode(
    component: Component,
    x: np.ndarray,
    values: np.ndarray,
    states: np.ndarray,
    rng: np.random.Generator,
) -> tuple[int, float]:
    """Return the highest of the points (n, d) in a mode where no states are.

    The second value is the mode's share of the mass.
    """
    z = component.coordinates(states)
    z = np.vstack([z, _drawn(component, z[rng.integers(len(z), size=_STARTS)], z, rng)])
    white = whiten_states(z[: len(states)])
    tree = cKDTree(white(z))
    places = component.coordinates(x)
    far = np.flatnonzero(_is_far(white(places), tree))
    if not len(far):
        return 0, 0.0
    far = far[np.argsort(-values[far], kind="stable")][:_STARTS]
    ends = _drawn(component, places[far], z[: len(states)], rng)[_DRAWS // 2 * len(far) :]
    away = _is_far(white(ends), tree)
    first, *_, last = away.reshape(-1, len(far)).sum(axis=1)
    if last <= _STAYING * first:
        return 0, 0.0
    beside = far[cKDTree(white(places[far])).query(white(ends[away]))[1]]
    highest = beside[np.argmax(values[beside])]
    most = float(values[highest] - component.transport.log_jacobian(x[[highest]])[0])
    way = np.linspace(places[highest], z[tree.query(white(places[[highest]]))[1][0]], _ON_WAY)
    if _levels(component, way).min() >= most - _DIP:
        return 0, 0.0
    return highest, float(
        expit(_log_mass(component, ends[away], most) - _log_mass(component, z[len(states) :]))
    )


def _shares(
    component: Component, z: np.ndarray, heights: np.ndarray, draws: np.ndarray
) -> np.ndarray:
    """Estimate the shares (n,) of the mass that is around points z (n, d) of these log-densities.

    The rest is that of draws (k, d). A funnel's neck is high, but narrow by the surrogate's
    curvature; nothing is wider than the draws.
    """
    dim = z.shape[1]
    root = np.linalg.cholesky(np.cov(draws.T).reshape(dim, dim))
    steps = _STEP * np.vstack([root.T, -root.T])
    volumes = np.empty(len(z))
    for i, point in enumerate(z):
        slopes = gradients(component.jit_state, point + steps) @ root
        curvature = (slopes[dim:] - slopes[:dim]) / (2.0 * _STEP)
        sizes = np.linalg.eigvalsh(0.5 * (curvature + curvature.T))
        volumes[i] = -0.5 * np.sum(np.log(np.maximum(sizes, 1.0)))
    return expit(heights + volumes - _levels(component, draws).mean() - 0.5 * dim)


def _drawn(
    component: Component, starts: np.ndarray, archive: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw points (8 n, d) from a surrogate by short chains from (n, d), all in its coordinates."""
    trials = Trials(component.jit_state, starts, local_mixture(archive))
    some = trials._replace(starts=archive[rng.integers(len(archive), size=_STARTS)])
    options = with_step_size(some, _MOVES, rng)
    z, kept = trials.starts, []
    for _ in range(_DRAWS):
        z = ends_of(trials, z, _BETWEEN, options=options, rng=rng)
        kept.append(z)
    return np.vstack(kept)


def _levels(component: Component, z: np.ndarray) -> np.ndarray:
    """Return the log-density of a surrogate at points z (n, d) in its coordinates, (n,)."""
    smooth, wall = component.parts(np.ascontiguousarray(z))
    return smooth + wall


def _log_mass(component: Component, z: np.ndarray, most: float = np.inf) -> float:
    """Estimate the log-mass of a mode from draws z (n, d) of a surrogate.

    The surrogate counts as at most so much. The entropy is that of Kozachenko and Leonenko (1987),
    "Sample estimate of the entropy of a random vector", Problems of Information Transmission 23.
    Draws that are too deep for the mode are on their way to it.
    """
    z = np.unique(z, axis=0)
    levels = np.minimum(_levels(component, z), most)
    bulk = levels > levels.max() - bulk_depth(z.shape[1])
    z, levels = z[bulk], levels[bulk]
    n, dim = z.shape
    if n <= _NEIGHBOR:
        return -np.inf
    distances = cKDTree(z).query(z, k=_NEIGHBOR + 1)[0][:, -1]
    ball = 0.5 * dim * np.log(np.pi) - gammaln(0.5 * dim + 1.0)
    return float(
        levels.mean() + dim * np.log(distances).mean() + ball + digamma(n) - digamma(_NEIGHBOR)
    )


def _in_bulk(values: np.ndarray, dim: int) -> np.ndarray:
    """Return which of the log-densities (n,), of transported coordinates, are of the bulk."""
    return values > values.max() - 0.5 * dim - _MORE


def _is_far(points: np.ndarray, tree: cKDTree) -> np.ndarray:
    """Return which points (n, d) are far from those of the tree, by the distances between these."""
    usual = np.quantile(tree.query(tree.data, k=2)[0][:, 1], _USUAL)
    return tree.query(points)[0] > _FAR * usual
