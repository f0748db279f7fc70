"""What kernel HMC learns from, and how: the pooled history becomes a plan of moves."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg import LinAlgWarning

from kmc.mcmc.history import History
from kmc.mcmc.probes import probe_points, probes_near
from kmc.mcmc.proposal_mixture import ProposalMixture, distinct
from kmc.mcmc.tempering import COLD, flattened, flattest
from kmc.mcmc.tuning import choose_inner_chain_length, choose_step_size, free_draws
from kmc.surrogates import FitOptions, Surrogate, fit_surrogate
from kmc.surrogates.depth import bulk_depth
from kmc.surrogates.transport import IDENTITY, Transport, find_transport

_STARTS = 64  # chains on the surrogate for tuning


class SurrogateTrainer:
    """The evaluations so far, the states visited, and fits to them.

    Attributes
    ----------
    history : History
        Every evaluation, in order; first those of `given`.
    n_given : int
        Evaluations that were made elsewhere.
    n_fits : int
        Fits made.
    settled_at : int
        Evaluations of this run at which a fit last changed the surrogate: more than a twentieth of flattened draws by
        one nat.
    noise_sd : float
        Of the values, as the last fit has it; 0 before the first, and if they are exact.
    transport : Transport
        Coordinates in which the target has no funnel that was found. Depths are those of the density there.
    """

    def __init__(
        self,
        dim: int,
        fit: FitOptions,
        max_archive: int,
        rng: np.random.Generator,
        noisy: bool = False,
        given: tuple[np.ndarray, np.ndarray] | None = None,
    ):
        self.history, self.n_given = History(dim), 0
        if given is not None:
            self.history.extend(*given)
            self.n_given = len(self.history)
        self.n_fits = self.settled_at = 0
        self.noise_sd = 0.0
        self.transport: Transport = IDENTITY
        self._noisy, self._top = noisy, -np.inf
        self._known_levels: tuple[Transport, np.ndarray] = (IDENTITY, np.empty(0))
        self._dim, self._fit, self._max_archive, self._rng = dim, fit, max_archive, rng
        self._cloud = np.empty((0, dim))
        self._visits: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    @property
    def n_own(self) -> int:
        """Evaluations of this run."""
        return len(self.history) - self.n_given

    def begin(self, cloud: np.ndarray) -> None:
        """Take points (k, d) that stand for the states until the walkers have visited enough of their own."""
        self._cloud = cloud

    def visit(self, x: np.ndarray, log_density: np.ndarray, inverse_temperatures: np.ndarray) -> None:
        """Note where the walkers are after a sweep: (w, d), (w,) and (w,)."""
        self._visits.append((x.copy(), log_density.copy(), inverse_temperatures))

    def cold_visits(self, share: float) -> tuple[np.ndarray, np.ndarray]:
        """States (n, d) and values (n,) of the walkers at temperature one, over the last ``share`` of the sweeps."""
        recent = self._recent(share)
        if not recent:
            return np.empty((0, self._dim)), np.empty(0)
        return (
            np.vstack([x[beta == 1] for x, _, beta in recent]),
            np.concatenate([values[beta == 1] for _, values, beta in recent]),
        )

    def stays(self, x: np.ndarray, sweeps: int) -> np.ndarray:
        """Which of the points (k, d) some walker has been at after each of the last sweeps, shape (k,)."""
        recent = self._visits[-sweeps:]
        held = np.full(len(x), len(recent) == sweeps)
        for visited, _, _ in recent:
            held &= (x[:, None] == visited).all(axis=2).any(axis=1)
        return held

    def states(self) -> np.ndarray:
        """Distinct recent states (n, d) of the coldest walkers that have visited enough of them, in random order."""
        recent = self._recent(0.6)
        if recent:
            betas = np.unique(np.concatenate([beta for _, _, beta in recent]))[::-1]
            for coldest in betas[[0, min(1, len(betas) - 1), -1]]:
                rows = np.vstack([x[beta >= coldest] for x, _, beta in recent])
                if len(np.unique(rows, axis=0)) >= 3 * self._dim + 5:
                    return distinct(rows, self._max_archive, self._rng)
        return distinct(np.vstack([self._cloud, *(x for x, _, _ in recent)]), self._max_archive, self._rng)

    @property
    def top(self) -> float:
        """The highest transported value; of noisy ones the last fit's, which an estimate far too high does not
        raise.
        """
        if np.isfinite(self._top):
            return self._top
        return float(self._levels().max())

    def transported(self, x: np.ndarray, log_density: np.ndarray) -> np.ndarray:
        """The log-density of the transported coordinates, (n,), from that of x (n, d)."""
        return log_density - self.transport.log_jacobian(x)

    def _levels(self):
        """The transported values of the history (n,); each is computed once, as some transports are slow."""
        transport, levels = self._known_levels
        if transport is not self.transport:
            levels = np.empty(0)
        if len(levels) < len(self.history):
            new = slice(len(levels), None)
            levels = np.append(levels, self.transported(self.history.x[new], self.history.log_density[new]))
            self._known_levels = self.transport, levels
        return levels

    def replan(self, plan: ProposalMixture) -> ProposalMixture:
        """Refit, and tune the moves on the surrogate; the plan as it was if no fit is possible."""
        states = self.states()
        surrogate = self._fitted(states, plan.surrogate)
        if surrogate is None:
            return plan
        surrogate = self._sphered(surrogate, states, plan)
        if self._changed(surrogate, states, plan) > 0.05:
            self.settled_at = self.n_own
        z = surrogate.coordinates(states)
        starts = z[self._rng.integers(len(z), size=_STARTS)]
        step_size = choose_step_size(surrogate.jit_state, starts, z, plan.inner, self._rng)
        return plan._replace(
            surrogate=surrogate, archive=states, archive_z=z, inner=plan.inner._replace(step_size=step_size)
        )

    def with_inner_chain_length(self, plan: ProposalMixture) -> ProposalMixture:
        """The plan with inner chains that forget their start."""
        if plan.surrogate is None:
            return plan
        starts = plan.archive_z[self._rng.integers(len(plan.archive_z), size=8 * _STARTS)]
        longest = choose_inner_chain_length(plan.surrogate.jit_state, starts, plan.archive_z, plan.inner, self._rng)
        return plan._replace(shortest_chain=longest // 2, longest_chain=longest)

    def probes(self, surrogate: Surrogate, count: int, edge: float) -> np.ndarray:
        """Points (count, d) past the edge of the evaluations that lie less deep than ``edge``."""
        if not count:
            return np.empty((0, self._dim))
        x, values = self.history.x, self.history.log_density
        z, metric = surrogate.coordinates(x), surrogate.expansion.metric
        shallow = np.flatnonzero(self.top - self._levels() < edge)
        near = int(self._rng.binomial(count, 0.5)) if self._noisy else 0
        points = probe_points(z, metric, shallow, count - near, self._rng)
        if near:
            excess = values[shallow] - surrogate.log_density(x[shallow])
            points = np.vstack([points, probes_near(z, metric, shallow, excess, near, self._rng)])
        return surrogate.back(points)

    def tempering_edge(self) -> float:
        """The depth beyond which hot walkers are drawn back: past all but 1 % of the recent states."""
        bulk = bulk_depth(self._dim)
        recent = self._recent(0.6)
        if not recent:
            return bulk + 5.0
        deep = self.top - np.concatenate([self.transported(x, values) for x, values, _ in recent])
        return max(bulk + 5.0, min(2.0 * bulk, float(np.quantile(deep, 0.99))) + 3.0)

    def _recent(self, share):
        return self._visits[-max(int(share * len(self._visits)), 1) :]

    def _fitted(self, states, previous: Surrogate | None) -> Surrogate | None:
        """A new surrogate, or the old one where it is clearly the better of the two on recent points."""
        x, values = self.history.x, self.history.log_density
        transport = find_transport(x, values, states, self.transport, self.noise_sd, self._noisy)
        visited, levels = self.cold_visits(1 / 3)
        levels = levels - transport.log_jacobian(visited)
        try:
            with warnings.catch_warnings():  # leave-one-out judges an ill-conditioned candidate; the user cannot
                warnings.simplefilter("ignore", LinAlgWarning)
                surrogate = fit_surrogate(
                    x, values, states, self._rng, self._fit, previous, levels, self._noisy, transport
                )
        except np.linalg.LinAlgError:
            return previous
        self.n_fits += 1
        self.transport = transport
        if self._noisy:
            self._top, self.noise_sd = surrogate.top, surrogate.noise_sd
        if previous is None or surrogate.error_sd < 1.5 * previous.error_sd + 0.1:
            return surrogate
        recent = slice(-min(200, len(values)), None)
        depth = self.transported(x, values).max() - self.transported(x[recent], values[recent])
        shallow = depth < surrogate.edge
        x, values = x[recent][shallow], values[recent][shallow]
        if not len(x):
            return surrogate
        best = min(surrogate, previous, key=lambda s: float(np.median(np.abs(s.log_density(x) - values))))
        self.transport = best.transport
        return best

    def _changed(self, surrogate, states, plan):
        """Share of the flattened surrogate's draws that the last one held for a nat deeper or less deep."""
        if plan.surrogate is None:
            return 1.0
        draws = surrogate.back(self._free_draws(surrogate, states, plan, flattened(flattest(self._dim))))
        new = surrogate.log_density(draws)
        difference = new - plan.surrogate.log_density(draws)
        matters = self.top - self.transported(draws, new) < surrogate.edge
        if not matters.any():
            return 1.0
        return float(np.mean(np.abs(difference - np.median(difference))[matters] > 1.0))

    def _free_draws(self, surrogate, states, plan, tempering=COLD):
        z = surrogate.coordinates(states)
        starts = z[self._rng.integers(len(z), size=_STARTS)]
        return free_draws(surrogate.jit_state, starts, z, plan.inner, self._rng, tempering)

    def _sphered(self, surrogate, states, plan):
        """The surrogate in coordinates in which its own draws are white, so that unit mass suits its dynamics."""
        draws = self._free_draws(surrogate, states, plan)
        inside = np.linalg.norm(draws, axis=1) < 1.2 * surrogate.jit_state.reach
        if np.mean(inside) < 0.9:  # the surrogate has mass where there are no data: its covariance means nothing
            return surrogate
        eigenvalues = np.linalg.eigvalsh(np.atleast_2d(np.cov(draws[inside].T)))
        return surrogate.rewhitened(draws[inside]) if eigenvalues[0] < 0.4 or eigenvalues[-1] > 2.5 else surrogate
