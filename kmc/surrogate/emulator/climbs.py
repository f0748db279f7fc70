"""Climbs from far starts to the posterior by trust-region steps with linearized outputs.

The prior and the likelihood are exact. Derivatives of outputs that depend on different inputs come
from the same evaluations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from kmc.surrogate.coordinates.walls import NO_WALL
from kmc.surrogate.emulator.jit_state import EmulatorJitState, Group
from kmc.surrogate.emulator.structure import Structure, candidates
from kmc.surrogate.jit_state import values_and_gradients
from kmc.surrogate.mass import full_depth

WORTH = 1.0
"""Nats that a step must promise."""

_DIFFERENCE = 0.02  # standard deviations of the prior: step of the first derivatives
_RADIUS, _SMALLEST = 1.0, 0.02  # half the widths of the cubes in which steps end, in the same units
_GOOD, _POOR = 0.5, 0.1  # shares of the promised gain
_STEPS, _CLIMBS = 20, 8  # most steps of a climb, and most climbs


@dataclass(eq=False)
class LinearizedClimb:
    """One climb: the best point so far, and the derivatives of the outputs there.

    The point is evaluated first, unless it has been, and then the derivatives.
    """

    x: np.ndarray  # (d,)
    value: float
    eta: np.ndarray  # (n,)
    slopes: np.ndarray  # (n, p); of the inputs
    # logarithm of the linearized posterior's volume there, relative to the prior's
    volume: float = 0.0
    radius: float = _RADIUS
    promised: float = np.inf
    known: bool = False  # whether the derivatives are of differences at this point
    n_steps: int = -1  # -2: the point is evaluated; -1: the derivatives

    @property
    def mass(self) -> float:
        """Return the log-mass of the linearized posterior."""
        return self.value + self.volume


class Climbs:
    """Climbs from several starts, side by side.

    They are in the non-centered coordinates u of a hierarchy: where the scale of a family of
    parameters is zero, the density of the parameters themselves is infinite. Steps gain mass, by
    the normal approximation around their ends: where parameters follow the data and their noise is
    nil, the density is high, too, but the volume is small.

    Each begins with differences along its inputs, at once along those that no output has in common
    (Curtis, Powell and Reid 1974, On the estimation of sparse Jacobian matrices). Then a step ends
    at the maximum of the posterior with linearized outputs, in a cube around the best point that
    grows and shrinks as in trust-region methods, and each evaluation corrects the derivatives
    (Broyden 1965, A class of methods for solving nonlinear simultaneous equations), those of each
    output along its own inputs (Schubert 1970, Modification of a quasi-Newton method for nonlinear
    equations with a sparse Jacobian).

    Parameters
    ----------
    structure : Structure
    points, values, outputs : ndarray, shapes (k, d), (k,) and (k, n)
        Starts; those without outputs are left out.
    rng : Generator
        As many starts more are drawn from the prior.
    most : int
        Evaluations that all differences together may take; the highest starts come first, and one
        is always allowed.
    """

    def __init__(
        self,
        structure: Structure,
        points: np.ndarray,
        values: np.ndarray,
        outputs: np.ndarray,
        *,
        rng: np.random.Generator,
        most: int,
    ):
        self._scales = structure.parameters.scales
        self._transport = structure.parameters.noncentered
        self._steps = _DIFFERENCE * self._scales[structure.inputs]
        self._use(structure)
        self._differences: list[tuple[np.ndarray, np.ndarray]] | None = [(points, outputs)]
        values = values - self._transport.log_jacobian(points)
        usable = np.flatnonzero(np.isfinite(values) & np.isfinite(outputs).all(axis=1))
        usable = usable[np.argsort(-values[usable], kind="stable")]
        slopes = np.zeros((outputs.shape[1], len(structure.inputs)))
        self._climbs = [
            LinearizedClimb(points[i], float(values[i]), outputs[i], slopes) for i in usable
        ]
        more = structure.parameters.draw(rng, len(points))
        self._climbs += [LinearizedClimb(x, -np.inf, outputs[0], slopes, n_steps=-2) for x in more]
        self._climbs = self._climbs[: min(max(most // (int(self._places.max()) + 1), 1), _CLIMBS)]
        self._asked: list[tuple[LinearizedClimb, np.ndarray]] = []

    def _use(self, structure):
        self._structure = structure
        # (n, k), along which inputs an output has a derivative
        self._own = structure.depends[structure.group]
        self._places = together(structure.depends)

    def propose(self) -> np.ndarray:
        """Return the points (k, d) to be evaluated next; none if the best climb has ended.

        Others wait where their next step is not to come near to the best one: see
        :meth:`overtaken`.
        """
        highest = max(climb.mass for climb in self._climbs)
        lowest = highest - full_depth(len(self._scales))
        self._asked = [
            (climb, points)
            for climb, points in self._next()
            if climb.n_steps < 0 or climb.mass + climb.promised > lowest
        ]
        # Corrected derivatives are wrong along a curved ridge, where climbs end too early: the best
        # one gets new ones.
        best = max(self._climbs, key=lambda climb: climb.mass)
        if not self._asked and np.isfinite(best.value) and not best.known:
            best.n_steps, best.radius = -1, _RADIUS
            self._asked = [(best, self._around(best))]
        return self._points()

    def overtaken(self, most: int) -> np.ndarray:
        """Return at most so many points (k, d) of climbs that wait: each may end in another mode.

        Those that promise the most mass come first.
        """
        waiting = [one for one in self._next() if one[0].n_steps >= 0]
        waiting.sort(key=lambda one: -(one[0].mass + one[0].promised))
        self._asked = waiting[:most]
        return self._points()

    def end(self) -> None:
        """End the climbs whose points were asked for last: they are not evaluated."""
        for climb, _ in self._asked:
            climb.n_steps = _STEPS
        self._asked = []

    def _points(self):
        return np.vstack([np.empty((0, len(self._scales))), *(points for _, points in self._asked)])

    def _next(self):
        """Return all climbs that have not ended, with their next points."""
        found = []
        for climb in self._climbs:
            if climb.n_steps == -2:
                found.append((climb, climb.x[None]))
            elif not np.isfinite(climb.value):
                continue
            elif climb.n_steps == -1:
                found.append((climb, self._around(climb)))
            elif climb.n_steps < _STEPS:
                end = self._best_in_cubes(climb)
                if climb.promised > WORTH:
                    found.append((climb, end[None]))
        return found

    def _around(self, climb):
        """Return the points (k, d) of the derivatives at a climb's best point."""
        points = np.repeat(climb.x[None], int(self._places.max()) + 1, axis=0)
        steps = np.where(np.arange(len(points))[:, None] == self._places, self._steps, 0.0)
        points[:, self._structure.inputs] += steps
        return points

    def tell(self, values: np.ndarray, outputs: np.ndarray) -> None:
        """Take the values (k,) and outputs (k, n) at these points."""
        start = 0
        for climb, points in self._asked:
            rows = slice(start, start + len(points))
            heights = values[rows] - self._transport.log_jacobian(points)
            start += len(points)
            if climb.n_steps == -2:
                if np.isfinite(outputs[rows]).all():
                    climb.value, climb.eta = float(heights[0]), outputs[rows][0]
            elif climb.n_steps == -1:
                rise = (outputs[rows][self._places] - climb.eta) / self._steps[:, None]
                climb.slopes, climb.known = (
                    np.where(np.isfinite(rise) & self._own.T, rise, 0.0).T.copy(),
                    True,
                )
                climb.volume = self._log_volume(climb, climb.x)
            else:
                self._stepped(climb, points[0], float(heights[0]), outputs[rows][0])
            climb.n_steps += 1
        if self._differences is not None:
            self._differences.append((self._points(), outputs))
            if all(climb.n_steps >= 0 or climb.value == -np.inf for climb in self._climbs):
                known = map(np.concatenate, zip(*self._differences, strict=True))
                self._use(candidates(self._structure, *known)[0])
                self._differences = None

    def top(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the best point (d,), and a root (d, d) of the linearized posterior's covariance.

        The posterior is linearized at that point. Its curvature is bounded below by that of a
        normal as wide as the prior.
        """
        best = max(self._climbs, key=lambda climb: climb.mass)
        return best.x, self._root(self._linearized(best), best.x, self._scales)

    def draws(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws (n, d) of the normal approximation at the best point, in u."""
        best, depends = max(self._climbs, key=lambda climb: climb.mass), self._transport.depends
        u, scales = self._transport(best.x[None]), np.where(depends, 1.0, self._scales)
        root = self._root(self._linearized(best)._replace(noncentered=depends), u[0], scales)
        return self._transport.back(u + rng.standard_normal((n, len(scales))) @ root.T)

    def _log_volume(self, climb, x):
        """Return the logarithm of the linearized posterior's volume in u, around x (d,)."""
        depends = self._transport.depends
        state = self._linearized(climb)._replace(noncentered=depends)
        scales = np.where(depends, 1.0, self._scales)
        precisions, _ = self._precisions(state, self._transport(x[None])[0], scales)
        return -0.5 * float(np.sum(np.log(np.maximum(precisions, 1.0))))

    def _root(self, state, at, scales):
        """Return a root (d, d) of the covariance of a state's normal approximation."""
        precisions, axes = self._precisions(state, at, scales)
        return scales[:, None] * axes / np.sqrt(np.maximum(precisions, 1.0))

    def _precisions(self, state, at, scales):
        """Return the eigenvalues and eigenvectors of a state's negative curvature at (d,).

        They are in units of the scales (d,).
        """
        steps = _DIFFERENCE * np.diag(scales)
        slopes = [values_and_gradients(state, at + sign * steps)[1] for sign in (1, -1)]
        # curvatures per squared sd of the prior
        along = 0.5 * (slopes[1] - slopes[0]) / _DIFFERENCE * scales
        along = np.where(np.isfinite(along), along, 0.0)  # unknown: as wide as the prior
        return np.linalg.eigh(0.5 * (along + along.T))

    def _stepped(self, climb, x, value, eta):
        gain = -np.inf
        if np.isfinite(value) and np.isfinite(eta).all():
            step = (x - climb.x)[self._structure.inputs]
            missed = eta - climb.eta - climb.slopes @ step
            slopes = climb.slopes.copy()
            for g, own in enumerate(self._structure.depends):
                rows = np.flatnonzero(self._structure.group == g)
                scaled = step[own] / self._steps[own] ** 2
                slopes[np.ix_(rows, own)] += np.outer(
                    missed[rows], scaled / max(scaled @ step[own], 1e-300)
                )
            climb.slopes = slopes
            climb.volume = self._log_volume(climb, climb.x)
            volume = self._log_volume(replace(climb, x=x, eta=eta), x)
            gain = value + volume - climb.mass
        if gain < _POOR * climb.promised:
            climb.radius *= 0.25
        elif gain > _GOOD * climb.promised:
            climb.radius *= 2.0
        if gain > 0.0:
            climb.x, climb.value, climb.eta, climb.known = x, value, eta, False
            climb.volume = volume

    def _best_in_cubes(self, climb):
        """Return the end (d,) of the climb's next step, and set what mass it promises.

        It is the maximum of the linearized posterior in a cube, which shrinks where the way up is
        to where the posterior is high but narrow, and has less mass.
        """
        depends = self._transport.depends
        state = self._linearized(climb)._replace(noncentered=depends)
        u = self._transport(climb.x[None])[0]

        def objective(u):
            values, gradients = values_and_gradients(state, u[None])
            return -values[0], -gradients[0]

        end, climb.promised = climb.x, 0.0
        while climb.radius > _SMALLEST and climb.promised <= WORTH:
            half = climb.radius * np.where(depends, 1.0, self._scales)
            bounds = optimize.Bounds(u - half, u + half)
            found = optimize.minimize(objective, u, jac=True, method="L-BFGS-B", bounds=bounds)
            end, higher = self._transport.back(found.x[None])[0], -float(found.fun) - climb.value
            climb.promised = higher + self._log_volume(climb, end) - climb.volume
            if higher <= WORTH:
                break
            if climb.promised <= WORTH:
                climb.radius *= 0.25
        return end

    def _linearized(self, climb) -> EmulatorJitState:
        d, p, structure = len(climb.x), climb.slopes.shape[1], self._structure
        group = Group(
            inputs=structure.inputs,
            center=climb.x[structure.inputs],
            whitening=np.eye(p),
            metric=np.eye(p),
            constant=np.zeros(p),
            polynomial=np.eye(p, p + p * (p + 1) // 2),
            sections=np.zeros((p, 1)),
            centers=np.zeros((p, 1)),
            rate=1.0,
            matern=0.0,
            bent=0.0,
            spread=1.0,
            offset=climb.eta,
            basis=climb.slopes,
        )
        return EmulatorJitState.of(
            [group],
            origin=np.zeros(d),
            back=np.eye(d),
            noncentered=np.zeros(d, bool),
            parameters=structure.parameters,
            data=structure.data,
            temperature=1.0,
            reach=np.inf,
            fall=0.0,
            wall=NO_WALL,
        )


def together(depends: np.ndarray) -> np.ndarray:
    """Place the inputs (k,), from 0, so that no group (g, k) depends on two at the same place.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.surrogate.emulator.climbs import together
    >>> together(np.array([[True, True, False, False], [True, False, True, True]]))
    array([0, 1, 1, 2])
    """
    places = np.zeros(depends.shape[1], np.int64)
    for j in range(1, len(places)):
        taken = places[:j][np.any(depends[depends[:, j], :j], axis=0)]
        places[j] = np.setdiff1d(np.arange(j + 1), taken)[0]
    return places
