"""Walls: the boundary of the zero-density region, learned from points of positive and zero density.

The feasible region is an intersection of regions, each given by a linear or a quadratic function
h_k > 0 of whitened coordinates: c(z) = Π_k σ(h_k(z)) is the probability that the density at z is
positive. The regions are added one by one, where the previous ones misclassify most points of zero
density, as long as the Bayesian information criterion falls. It also chooses between linear and
quadratic ones.

At one point, jitted, the surrogate with a wall is log s(z) + log c(z). Paths use the gradient of
log s alone and are reflected where c < 1/2, so a wall can be arbitrarily steep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import log_expit

from kmc.njit import njit
from kmc.surrogate.coordinates.whitening import Whitening, whiten_states
from kmc.surrogate.known import check_arrays

DEEP = -8.0
"""Below this log c is its logarithm: a chain at a point that is wrongly considered forbidden must
be able to leave it. A constant would leave mass behind a wall, as the density that is learned in
front of it may rise there, and far."""

OUTSIDE = float(np.log(0.5))

# Set by hand.
# points of zero density near the states for a wall; fewer say nothing, as models fail at random,
# too
_FEWEST = 3
_SHARE = 0.01  # the same, as a fraction of all points there
_OUTER = 0.98  # quantile of the states' distances from their middle: the outer states
_REACH = 1.3  # times that distance: nearer points count
_MOST = 3000  # points of each kind to learn from
_FOLDS = 4  # of the points, one of which is held out
_SHARPNESS = 4  # power of the cosines by which a side is dense
_PRIOR_SD = 30.0  # of coefficients, in coordinates in which the feasible points are white
_ITERATIONS = 200  # of the optimization
_SCALES = (1.0, 0.5, 0.25, 0.12)  # factors on h, against overconfidence
_EDGE = 0.9  # quantile of the feasible points along it: start of the region
_STEEPNESS, _OFFSET = 2.0, 1.0  # initial values for the region, in white coordinates
_ALONG_AXIS = 0.95  # fraction of a plane's slope along an axis, for the plane to be named after it
_LEAST_LOG = 1e-9  # smallest distance of a log probability from 0


class Regions(NamedTuple):
    """h_k of coordinates v (n, d): coefficients (k, features) of 1, v and, if curved, products."""

    coefficients: np.ndarray
    curved: bool

    def log_chance(self, v: np.ndarray) -> np.ndarray:
        """Return log c at the rows of v (n, d), without the floor."""
        return log_expit(_features(v, self.curved) @ self.coefficients.T).sum(axis=1)


class _Points(NamedTuple):
    """Points near the states, and whether the density is positive there."""

    v: np.ndarray  # (n, d)
    inside: np.ndarray  # (n,)

    def at(self, rows: np.ndarray) -> _Points:
        """Return the selected rows (boolean mask)."""
        return _Points(self.v[rows], self.inside[rows])


@dataclass(frozen=True)
class Wall:
    """A learned wall in the coordinates u of the surrogate's fit.

    Attributes
    ----------
    whitening : Whitening
        From u to v.
    regions : Regions
    loss : float
        Mean log loss of held-out points, in nats.
    share : float
        Fraction of zero density among the points near the states.
    """

    whitening: Whitening
    regions: Regions
    loss: float
    share: float

    def state(self, whitening: Whitening) -> WallState:
        """Return the state for jitted loops, in the coordinates z of a whitening of u."""
        d = len(self.whitening.origin)
        matrix = self.whitening.matrix @ whitening.inverse
        shift = self.whitening.matrix @ (self.whitening.origin - whitening.origin)
        coefficients = self.regions.coefficients
        quadratic = np.zeros((0, d, d))
        if self.regions.curved:
            quadratic = np.zeros((len(coefficients), d, d))
            quadratic[:, *np.triu_indices(d)] = coefficients[:, 1 + d :]
            quadratic = 0.5 * (quadratic + quadratic.transpose(0, 2, 1))
        linear = np.ascontiguousarray(coefficients[:, 1 : 1 + d])
        return WallState(
            np.ascontiguousarray(matrix),
            shift,
            np.ascontiguousarray(coefficients[:, 0]),
            linear,
            quadratic,
        )

    def behind(self, u: np.ndarray) -> np.ndarray:
        """Return whether the chance of positive density is below a half at the rows of u (n, d)."""
        return self.regions.log_chance(self.whitening(u)) < OUTSIDE

    def facts(self, *, bent: bool) -> dict[str, Any]:
        """Return facts for the results' attributes.

        ``bent`` says that u is not the user's coordinates.
        """
        words = "a curved surface" if bent else self.description()
        return {"surrogate_wall": words, "surrogate_wall_share": self.share}

    def description(self) -> str:
        """Describe the wall in u: flat regions along an axis by "x[i] < b" or "x[i] > b".

        Other flat ones are "a plane", and curved ones "a curved surface".
        """
        if self.regions.curved:
            return "a curved surface"
        slopes = self.regions.coefficients[:, 1:] @ self.whitening.matrix
        offsets = self.regions.coefficients[:, 0] - slopes @ self.whitening.origin
        sd = np.linalg.norm(self.whitening.inverse, axis=1)
        said = []
        for slope, offset in zip(slopes, offsets):
            effect = np.abs(slope * sd)
            axis = int(np.argmax(effect))
            if effect[axis] < _ALONG_AXIS * np.linalg.norm(effect):
                said.append("a plane")
                continue
            said.append(f"x[{axis}] {'>' if slope[axis] > 0 else '<'} {-offset / slope[axis]:.3g}")
        return " and ".join(dict.fromkeys(said))


def learn_wall(
    u: np.ndarray,
    log_density: np.ndarray,
    states: np.ndarray,
    *,
    rng: np.random.Generator,
    last: Wall | None = None,
) -> Wall | None:
    """Learn the wall between points of positive and of zero density.

    Return None if there is none worth learning.

    Parameters
    ----------
    u : ndarray, shape (n, d)
        Evaluated points in the surrogate's coordinates.
    log_density : ndarray, shape (n,)
        -inf where the density is zero.
    states : ndarray, shape (k, d)
        States of chains: a point counts if it is not much further from their middle than they are.
    rng : Generator
        For the choice of held-out points.
    last : Wall, optional
        A wall in the same coordinates: its regions are kept, and others may be added.
    """
    positive = np.isfinite(log_density)
    if positive.all():
        return None
    white = whiten_states(states)
    distance = np.linalg.norm(white(u), axis=1)
    near = distance < _REACH * np.quantile(np.linalg.norm(white(states), axis=1), _OUTER)
    inside, outside = np.flatnonzero(positive & near), np.flatnonzero(~positive & near)
    share = len(outside) / max(len(outside) + len(inside), 1)
    if len(outside) < _FEWEST or share < _SHARE or len(inside) <= 2 * u.shape[1]:
        return None
    whitening = whiten_states(u[inside]) if last is None else last.whitening
    inside, outside = (rng.permutation(rows)[:_MOST] for rows in (inside, outside))
    points = _Points(
        whitening(u[np.concatenate([inside, outside])]),
        np.repeat([True, False], [len(inside), len(outside)]),
    )
    # The points of both kinds that are closest determine how steep a wall is: all have the same
    # weight.
    if last is not None:
        found = [last.regions]
    else:
        found = [_no_regions(u.shape[1], curved) for curved in (False, True)]
    grown = [
        each for each in (_grown(regions, points) for regions in found) if len(each.coefficients)
    ]
    walls = [_moderated(regions, points, rng) for regions in grown]
    if not walls:
        return None
    regions, loss = min(walls, key=lambda wall: wall[1])
    return Wall(whitening, regions, loss, share)


def _moderated(
    regions: Regions, points: _Points, rng: np.random.Generator
) -> tuple[Regions, float]:
    """Return the regions, less steep if that predicts held-out points better, and their loss.

    Each point is held out once. Fits start from a gentle slope: a steep one that knew all points
    would stay.
    """
    fold, scales = rng.permutation(len(points.v)) % _FOLDS, np.array(_SCALES)[:, None, None]
    losses = np.zeros((len(scales), len(points.v)))
    gentle = regions._replace(coefficients=min(_SCALES) * regions.coefficients)
    for out in (fold == one for one in range(_FOLDS)):
        known = _optimized(gentle, points.at(~out)).coefficients
        for row, coefficients in zip(losses, scales * known, strict=True):
            row[out] = _losses(regions._replace(coefficients=coefficients), points.at(out))
    inside = points.inside
    # kinds have the same weight
    means = 0.5 * (losses[:, inside].mean(axis=1) + losses[:, ~inside].mean(axis=1))
    best = int(np.argmin(means))
    return regions._replace(coefficients=scales[best] * regions.coefficients), float(means[best])


def _no_regions(dim: int, curved: bool) -> Regions:
    return Regions(np.empty((0, _features(np.zeros((1, dim)), curved).size)), curved)


def _features(v: np.ndarray, curved: bool) -> np.ndarray:
    """Return the features (n, f): 1, v and, if curved, the products v_i v_j, i <= j."""
    columns = [np.ones((len(v), 1)), v]
    if curved:
        i, j = np.triu_indices(v.shape[1])
        columns.append(v[:, i] * v[:, j])
    return np.hstack(columns)


def _grown(regions: Regions, points: _Points) -> Regions:
    """Return the regions fitted to the points, with more of them as long as the criterion falls."""
    found = _optimized(regions, points) if len(regions.coefficients) else regions
    while (start := _one_more(found, points)) is not None:
        more = _optimized(start, points)
        if _criterion(more, points) >= _criterion(found, points):
            break
        found = more
    return found


def _criterion(regions: Regions, points: _Points) -> float:
    """Return half the Bayesian information criterion of the points in nats."""
    chance = np.minimum(regions.log_chance(points.v), -_LEAST_LOG)
    likelihood = np.where(points.inside, chance, np.log(-np.expm1(chance))).sum()
    return 0.5 * regions.coefficients.size * float(np.log(len(points.v))) - float(likelihood)


def _one_more(regions: Regions, points: _Points) -> Regions | None:
    """Add a flat region between the feasible points and the densest side of misclassified ones.

    Return None if no points are misclassified.
    """
    v, inside = points
    chance = regions.log_chance(v)
    wrong = np.flatnonzero(~inside & (chance > OUTSIDE))
    if not len(wrong):
        return None
    center = v[inside].mean(axis=0)
    rays = v[wrong] - center
    rays = rays / np.maximum(np.linalg.norm(rays, axis=1, keepdims=True), 1e-12)
    near = np.maximum(rays @ rays.T, 0.0) ** _SHARPNESS
    direction = near[np.argmax(near.sum(axis=0))] @ rays
    direction = direction / max(np.linalg.norm(direction), 1e-12)
    along = (v[inside] - center) @ direction
    edge = np.quantile(along, _EDGE)
    row = np.zeros(regions.coefficients.shape[1])
    row[1 : 1 + v.shape[1]] = -_STEEPNESS * direction
    row[0] = _STEEPNESS * (edge + center @ direction) + _OFFSET
    return regions._replace(coefficients=np.vstack([regions.coefficients, row]))


def _optimized(regions: Regions, points: _Points) -> Regions:
    """Return the regions with the largest posterior density, optimized from these."""
    v, inside = points
    features = _features(v, regions.curved)
    shape = regions.coefficients.shape
    precision = np.full(shape, _PRIOR_SD**-2.0)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        coefficients = flat.reshape(shape)
        h = features @ coefficients.T
        chance = np.minimum(log_expit(h).sum(axis=1), -1e-12)
        miss = -np.expm1(chance)
        total = -chance[inside].sum() - np.log(miss[~inside]).sum()
        weight = np.where(inside, -1.0, np.exp(chance) / miss)[:, None] / (
            1.0 + np.exp(np.clip(h, -500, 500))
        )
        gradient = weight.T @ features + precision * coefficients
        return total + 0.5 * np.sum(precision * coefficients**2), gradient.ravel()

    found = optimize.minimize(
        objective,
        regions.coefficients.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _ITERATIONS},
    )
    return regions._replace(coefficients=found.x.reshape(shape))


def _losses(regions: Regions, points: _Points) -> np.ndarray:
    """Return the log losses (n,) in nats."""
    chance = np.minimum([slowed(each) for each in regions.log_chance(points.v)], -_LEAST_LOG)
    return np.where(points.inside, -chance, -np.log(-np.expm1(chance)))


class WallState(NamedTuple):
    """log c(z) = Σ_k log σ(h_k) with h_k = bias_k + <linear_k, v> + vᵀ quadratic_k v.

    Here v = matrix z - shift. ``quadratic`` has no rows if all h are linear.
    """

    matrix: np.ndarray  # (d, d)
    shift: np.ndarray  # (d,)
    bias: np.ndarray  # (k,)
    linear: np.ndarray  # (k, d)
    quadratic: np.ndarray  # (k, d, d), symmetric, or (0, d, d)


NO_WALL = WallState(
    np.empty((0, 0)), np.empty(0), np.empty(0), np.empty((0, 0)), np.empty((0, 0, 0))
)
"""For a density that is positive everywhere."""


def check_wall_state(wall: WallState, dim: int) -> None:
    """Raise a ValueError if loops over the arrays would leave them."""
    k = wall.bias.size
    dim = dim if k else 0
    curved = k if len(wall.quadratic) else 0
    shapes = {"matrix": (dim, dim), "shift": (dim,), "bias": (k,), "linear": (k, dim)}
    check_arrays(wall, {**shapes, "quadratic": (curved, dim, dim)})


@njit(allocates=False)
def slowed(chance):
    """Return log c for an intersection's ``chance``.

    Below DEEP it is algebraic in the chance, with equal value and slope there.
    """
    return chance if chance > DEEP else DEEP * (1.0 + np.log(chance / DEEP))


@njit(allocates=False)
def log_chance(wall, z, normal, work):
    """Return log c(z), slowed, and whether c < 1/2.

    If so, write the gradient of log c into ``normal`` (d,).
    """
    d = z.size
    v, slope, product = work[0], work[1], work[2]
    for i in range(d):
        total = 0.0
        for j in range(d):
            total += wall.matrix[i, j] * z[j]
        v[i] = total - wall.shift[i]
        slope[i] = 0.0
    curved = len(wall.quadratic) > 0
    chance = 0.0
    for k in range(wall.bias.size):
        h = wall.bias[k]
        if curved:
            for i in range(d):
                total = wall.linear[k, i]
                for j in range(d):
                    total += wall.quadratic[k, i, j] * v[j]
                h += total * v[i]
                product[i] = 2.0 * total - wall.linear[k, i]
        else:
            for i in range(d):
                h += wall.linear[k, i] * v[i]
                product[i] = wall.linear[k, i]
        if h < 0.0:
            decay = np.exp(h)
            chance += h - np.log1p(decay)
            weight = 1.0 / (1.0 + decay)
        else:
            decay = np.exp(-h)
            chance -= np.log1p(decay)
            weight = decay / (1.0 + decay)
        for i in range(d):
            slope[i] += weight * product[i]
    outside = chance < OUTSIDE
    if outside:
        for j in range(d):
            total = 0.0
            for i in range(d):
                total += wall.matrix[i, j] * slope[i]
            normal[j] = total
    return slowed(chance), outside


@njit(allocates=False)
def barrier(state, z, normal, work):
    """Do what :func:`log_chance` does with the wall of a state, which may have none."""
    if not state.wall.bias.size:
        return 0.0, False
    return log_chance(state.wall, z, normal, work[0])


@njit()
def log_chances(wall, points):
    """Return log c at the rows of ``points`` (n, d), shape (n,)."""
    work, normal = np.empty((4, points.shape[1])), np.empty(points.shape[1])
    out = np.empty(len(points))
    for i in range(len(points)):
        out[i] = log_chance(wall, points[i], normal, work)[0]
    return out
