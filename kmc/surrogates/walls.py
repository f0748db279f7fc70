"""Walls: where the density is zero, learned from points of positive and of zero density.

The feasible region is an intersection of regions, each given by a linear or a quadratic function h_k > 0 of whitened
coordinates: c(z) = Π_k σ(h_k(z)) is the chance that the density at z is positive. The regions are added one by one,
where the last ones take most points of zero density for feasible, as long as points that were left out are predicted
better; linear ones are preferred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import log_expit

from kmc.surrogates import wall_jit_state
from kmc.surrogates.jit_state import SurrogateJitState
from kmc.surrogates.wall_jit_state import WalledState, WallState
from kmc.surrogates.whitening import Whitening, whiten_states

FEWEST = 10  # points of zero density near the states: a wall is worth learning
_SHARE = 0.01  # the same, of all points there
_REACH = 1.3  # times the distance of the outer states from their middle: points nearer than that count
_MOST = 3000  # points of each kind that are learned from
_PRIOR_SD = 30.0  # of coefficients, in coordinates in which the feasible points are white
_BETTER = 0.95  # times the held-out loss: one more region is worth having
_MUCH_BETTER = 0.7  # times that of one plane: so is a curved surface
_GOOD = 0.03  # held-out loss that calls for no further effort
_SCALES = (1.0, 0.5, 0.25, 0.12)  # of h, against overconfidence


class Regions(NamedTuple):
    """h_k of coordinates v (n, d): coefficients (k, features) of 1, v and, if curved, of products."""

    coefficients: np.ndarray
    curved: bool

    def log_chance(self, v: np.ndarray) -> np.ndarray:
        """log c at the rows of v (n, d), without the floor."""
        return log_expit(_features(v, self.curved) @ self.coefficients.T).sum(axis=1)


@dataclass(frozen=True)
class Wall:
    """A learned wall in the coordinates u that surrogates are fitted in.

    Attributes
    ----------
    whitening : Whitening
        From u to v.
    regions : Regions
    loss : float
        Mean log loss of points that were left out, in nats.
    share : float
        Of the points near the states, those of zero density.
    """

    whitening: Whitening
    regions: Regions
    loss: float
    share: float

    def state(self, whitening: Whitening) -> WallState:
        """For jitted loops, in the coordinates z of a whitening of u."""
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
            np.ascontiguousarray(matrix), shift, np.ascontiguousarray(coefficients[:, 0]), linear, quadratic
        )

    def behind(self, u: np.ndarray) -> np.ndarray:
        """Whether the chance of a positive density is below one half, at the rows of u (n, d)."""
        return self.regions.log_chance(self.whitening(u)) < wall_jit_state.OUTSIDE

    def description(self) -> str:
        """What it is in u: "x[i] < b" or "> b" for flat regions along an axis, "a plane", or "a curved surface"."""
        if self.regions.curved:
            return "a curved surface"
        slopes = self.regions.coefficients[:, 1:] @ self.whitening.matrix
        offsets = self.regions.coefficients[:, 0] - slopes @ self.whitening.origin
        sd = np.linalg.norm(self.whitening.inverse, axis=1)
        said = []
        for slope, offset in zip(slopes, offsets):
            effect = np.abs(slope * sd)
            axis = int(np.argmax(effect))
            if effect[axis] < 0.95 * np.linalg.norm(effect):
                said.append("a plane")
                continue
            said.append(f"x[{axis}] {'>' if slope[axis] > 0 else '<'} {-offset / slope[axis]:.3g}")
        return " and ".join(dict.fromkeys(said))


def learn_wall(
    u: np.ndarray,
    log_density: np.ndarray,
    states: np.ndarray,
    rng: np.random.Generator,
) -> Wall | None:
    """The wall between points of positive and of zero density; None where there is none worth learning.

    Parameters
    ----------
    u : ndarray, shape (n, d)
        Evaluated points in the surrogate's coordinates.
    log_density : ndarray, shape (n,)
        -inf where the density is zero.
    states : ndarray, shape (k, d)
        States of chains: a point counts if it is not much further from their middle than they are.
    rng : Generator
        Chooses what is left out.
    """
    positive = np.isfinite(log_density)
    if positive.all():
        return None
    white = whiten_states(states)
    distance = np.linalg.norm(white(u), axis=1)
    near = distance < _REACH * np.quantile(np.linalg.norm(white(states), axis=1), 0.98)
    inside, outside = np.flatnonzero(positive & near), np.flatnonzero(~positive & near)
    share = len(outside) / max(len(outside) + len(inside), 1)
    if len(outside) < FEWEST or share < _SHARE or len(inside) < 2 * u.shape[1] + 10:
        return None
    whitening = whiten_states(u[inside])
    inside, outside = (rng.permutation(rows)[:_MOST] for rows in (inside, outside))
    points = whitening(u[np.concatenate([inside, outside])])
    labels = np.repeat([True, False], [len(inside), len(outside)])
    kept = rng.random(len(points)) < 0.75
    # A wall is as steep as it is where points of both kinds are closest: all count alike.
    regions, loss = _grown(points, labels, kept, curved=False)
    if loss > _GOOD:
        curved, curved_loss = _grown(points, labels, kept, curved=True)
        if curved_loss < (_MUCH_BETTER if len(regions.coefficients) == 1 else _BETTER) * loss:
            regions, loss = curved, curved_loss
    scale = min(
        _SCALES, key=lambda s: _loss(regions._replace(coefficients=s * regions.coefficients), points, labels, ~kept)
    )
    whole = _optimized(regions, points, labels)
    return Wall(whitening, whole._replace(coefficients=scale * whole.coefficients), loss, share)


def walled(state: SurrogateJitState, wall: Wall | None, whitening: Whitening) -> SurrogateJitState | WalledState:
    """The surrogate's state with its wall, if it has one."""
    return state if wall is None else WalledState(state, wall.state(whitening))


def _features(v, curved):
    """(n, f): 1, v and, if curved, the products v_i v_j, i <= j."""
    columns = [np.ones((len(v), 1)), v]
    if curved:
        i, j = np.triu_indices(v.shape[1])
        columns.append(v[:, i] * v[:, j])
    return np.hstack(columns)


def _grown(v, inside, kept, curved):
    """Regions added while points that are left out gain by them, and the loss of these."""
    d = v.shape[1]
    features = 1 + d + (d * (d + 1) // 2 if curved else 0)
    regions = Regions(np.empty((0, features)), curved)
    best, best_loss, failures = regions, np.inf, 0
    for _ in range(4 if curved else 2 * d + 2):
        start = _one_more(regions, v[kept], inside[kept])
        if start is None:
            break
        regions = _optimized(start, v[kept], inside[kept])
        loss = _loss(regions, v, inside, ~kept)
        if loss < _BETTER * best_loss:
            best, best_loss, failures = regions, loss, 0
        else:
            failures += 1
            if failures == 2:
                break
    return best, best_loss


def _one_more(regions, v, inside):
    """The regions and one more, flat, between the feasible points and a cluster of those wrongly taken for such."""
    chance = regions.log_chance(v)
    wrong = np.flatnonzero(~inside & (chance > wall_jit_state.OUTSIDE))
    if len(wrong) < 3:
        return None
    center = v[inside].mean(axis=0)
    rays = v[wrong] - center
    rays = rays / np.maximum(np.linalg.norm(rays, axis=1, keepdims=True), 1e-12)
    direction = rays.mean(axis=0)
    if len(regions.coefficients):  # the densest side, not the mean of opposite ones
        close = rays @ rays[:200].T
        seed = rays[int(np.argmax((np.maximum(close, 0) ** 4).sum(axis=0)))]
        direction = rays[rays @ seed > 0.5].mean(axis=0)
    direction = direction / max(np.linalg.norm(direction), 1e-12)
    along = (v[inside] - center) @ direction
    edge = np.quantile(along, 0.9)
    row = np.zeros(regions.coefficients.shape[1])
    row[1 : 1 + v.shape[1]] = -2.0 * direction
    row[0] = 2.0 * (edge + center @ direction) + 1.0
    return regions._replace(coefficients=np.vstack([regions.coefficients, row]))


def _optimized(regions, v, inside):
    """The regions of the largest posterior density, from these on."""
    features = _features(v, regions.curved)
    shape = regions.coefficients.shape
    precision = np.full(shape, _PRIOR_SD**-2.0)

    def objective(flat):
        coefficients = flat.reshape(shape)
        h = features @ coefficients.T
        chance = np.minimum(log_expit(h).sum(axis=1), -1e-12)
        miss = -np.expm1(chance)
        total = -chance[inside].sum() - np.log(miss[~inside]).sum()
        weight = np.where(inside, -1.0, np.exp(chance) / miss)[:, None] / (1.0 + np.exp(np.clip(h, -500, 500)))
        gradient = weight.T @ features + precision * coefficients
        return total + 0.5 * np.sum(precision * coefficients**2), gradient.ravel()

    found = optimize.minimize(
        objective, regions.coefficients.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200}
    )
    return regions._replace(coefficients=found.x.reshape(shape))


def _loss(regions, v, inside, rows):
    """Mean log loss (nats) over these rows, each kind weighing one half."""
    chance = np.minimum(regions.log_chance(v[rows]), -1e-9)
    chance = np.log(np.exp(wall_jit_state.LEAST) + (1 - np.exp(wall_jit_state.LEAST)) * np.exp(chance))
    chance = np.minimum(chance, -1e-9)
    kinds = inside[rows]
    losses = np.where(kinds, -chance, -np.log(-np.expm1(chance)))
    return 0.5 * sum(losses[kinds == kind].mean() if np.any(kinds == kind) else 0.0 for kind in (True, False))
