"""How kernel HMC learns: a surrogate is fitted to the pooled history, and moves are tuned on it."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgWarning

from kmc.mcmc.history import GIVEN, History
from kmc.mcmc.probes import Evaluated, probe_points, probes_in_necks, probes_near
from kmc.mcmc.proposal_mixture import ProposalMixture, distinct
from kmc.mcmc.roughness import FIRST, NEXT, Pairs, close_pairs, is_unexplained, roughness_sd
from kmc.mcmc.surrogate_transition import InnerChainOptions
from kmc.mcmc.tempering import COLD, Tempering, flattened, flattest
from kmc.mcmc.tuning import Trials, choose_inner_chain_length, choose_step_size, free_draws
from kmc.mcmc.unvisited import left_behind
from kmc.surrogates import FitOptions, Surrogate, fit_surrogate, values_needed
from kmc.surrogates.depth import bulk_depth, floor_of
from kmc.surrogates.fit import GOOD_FIT, most_gradients
from kmc.surrogates.necks import NO_NECKS, Necks
from kmc.surrogates.terms import TermExpansion
from kmc.surrogates.transport import IDENTITY, Identity, Transport, find_transport
from kmc.surrogates.wide_trend import is_wide, values_for_structure

# "Tried" is docs/what-was-tried.md; the others were set by hand.
_STARTS = 64  # inner chains used to choose the step size ...
_STARTS_FOR_LENGTH = 512  # ... and the length (tried: run length)
_RECENT = 0.6  # last part of the sweeps, whose states represent the target
_LATELY = 1 / 3  # last part of the sweeps, whose values show the depth of the bulk (tried: coldest walker)
_STATES_PER_DIM, _MORE_STATES = 3, 5  # distinct states needed from a temperature
_MOVED, _MOVED_SHARE = 1.0, 0.05  # nats, and fraction of flattened draws: a change (tried: twisted Gaussian)
_WORSE, _WORSE_BY = 1.5, 0.1  # times the last error plus nats: a worse fit is tested ...
_WORTH_PLAIN = 0.5  # largest fraction of the error left by terms in plain coordinates, for these to be used
_LAST_VALUES = 200  # ... on so many values
_OUT_OF_REACH = 1.2  # times the radius of the centers: draws further away ...
_MOST_OUT = 0.1  # ... may be at most this fraction; otherwise their covariance is not meaningful (tried: ring)
_NEARLY_WHITE = 0.4, 2.5  # range of variances of free draws in which coordinates are kept
_HOT_DEPTH = 5.0  # nats below the bulk: smallest depth from which hot walkers are drawn back
_HOT_QUANTILE, _PAST_STATES = 0.99, 3.0  # quantile of the states' depths, and nats below it ...
_DEEPEST_STATES = 2.0  # ... up to this multiple of the bulk
_WITH_GRADIENT = 2.0  # times the bulk: deeper values need no gradient (set by hand)
_LEAST_FIRST, _LEAST_FIRST_PER_DIM = 20, 4  # evaluations before a first fit with gradients (set by hand)
_NEXT_TRY = 1.2  # times the values of a first fit that failed
_IN_NECKS = 0.5  # fraction of the probes, if scales of groups are known
_BESIDE_HIGH = 0.5  # fraction of the probes, if values are noisy (tried: noisy targets)


class Fitted(NamedTuple):
    """The fields of a :class:`kmc.mcmc.proposal_mixture.ProposalMixture` that a fit changes."""

    surrogate: Surrogate
    archive: np.ndarray
    archive_z: np.ndarray
    inner: InnerChainOptions


class SurrogateTrainer:
    """The evaluations so far, the visited states, and the fits to them.

    Parameters
    ----------
    dim : int
    fit : FitOptions
    max_archive : int
        Largest number of states for archive moves.
    rng : Generator
    noisy : bool
        Whether values are estimates.
    given : tuple of ndarray, optional
        Points (n, d) and values (n,) evaluated elsewhere.
    with_gradients : bool
        Whether gradients are known at some of the points.
    few_values : bool
        Whether fits have to do with hardly more values than a quadratic has terms.
    keeps_modes : bool
        Whether points of the bulk that the walkers have left remain among the states: no search will find them again.

    Attributes
    ----------
    dim : int
    history : History
        Every value, in order; first those of the given history.
    n_given : int
        Number of given evaluations.
    n_fits : int
        Fits made.
    settled_at : int
        Evaluations of this run at which a fit last changed the surrogate: more than a twentieth of flattened draws by
        one nat.
    noise_sd : float
        Noise of the values by the last fit, or the roughness of exact ones; 0 before the first, and if they are smooth.
    transport : Transport
        Coordinates without the funnel that was found, if any. Depths are those of the density there.
    necks : Necks
        What turns values of that density into heights, from which depths are counted.
    """

    def __init__(
        self,
        dim: int,
        fit: FitOptions,
        *,
        max_archive: int,
        rng: np.random.Generator,
        noisy: bool = False,
        given: tuple[np.ndarray, np.ndarray] | None = None,
        with_gradients: bool = False,
        few_values: bool = False,
        keeps_modes: bool = False,
    ):
        self.history, self.n_given = History(dim, with_gradients=with_gradients), 0
        if given is not None:
            self.history.extend(*given, source=GIVEN)
            self.n_given = len(self.history)
        self.n_fits = self.settled_at = 0
        self.noise_sd = 0.0
        self.transport: Transport = IDENTITY
        self.necks = NO_NECKS
        self._noisy, self._top, self._few_values, self._keeps_modes = noisy, -np.inf, few_values, keeps_modes
        self._known_levels: tuple[Transport, Necks, np.ndarray] = (IDENTITY, NO_NECKS, np.empty(0))
        self.dim, self._fit, self._max_archive, self._rng = dim, fit, max_archive, rng
        self._failed_at = 0  # evaluations at the last fit that failed,
        self._searched_at = 0  # at the last search of terms in many dimensions,
        self._compared_at = 0  # and at the last pairs of close points
        self._cloud = np.empty((0, dim))
        self._visits: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    @property
    def n_own(self) -> int:
        """Evaluations of this run."""
        return len(self.history) - self.n_given

    def needs_gradient(self, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        """At which of new points (k, d) with values (k,) a gradient would help the next fit, shape (k,).

        At those that are not deep, until there are as many gradients as a fit uses.
        """
        gradients, limit = self.history.gradients, _WITH_GRADIENT * bulk_depth(self.dim)
        assert gradients is not None
        levels, known = self.heights(x, values), ~np.isnan(gradients[:, 0])
        before = self._levels()
        top = max(before.max(initial=-np.inf), levels.max(initial=-np.inf))
        missing = most_gradients(self.dim, self._fit) - int(np.sum(top - before[known] < limit))
        needed = np.isfinite(levels) & (top - levels < limit)
        return needed & (np.cumsum(needed) <= missing)

    def ready_early(self, needed: int) -> bool:
        """Whether a first fit, which needs so many values, may succeed with fewer.

        Gradients make up for missing values, and in many dimensions the posterior may be simple enough.
        """
        gradients, n = self.history.gradients, len(self.history)
        if gradients is None and is_wide(self.dim):
            return n >= max(values_for_structure(self.dim), _NEXT_TRY * self._failed_at)
        if gradients is None or n < _LEAST_FIRST_PER_DIM * self.dim + _LEAST_FIRST:
            return False
        return n + self.dim * int(np.sum(~np.isnan(gradients[:, 0]))) >= needed

    def begin(self, cloud: np.ndarray) -> None:
        """Use points (k, d) as states until the walkers have visited enough."""
        self._cloud = cloud

    def visit(self, x: np.ndarray, log_density: np.ndarray, inverse_temperatures: np.ndarray) -> None:
        """Record where the walkers are after a sweep: (w, d), (w,) and (w,)."""
        self._visits.append((x.copy(), log_density.copy(), inverse_temperatures))

    def cold_visits(self, share: float) -> tuple[np.ndarray, np.ndarray]:
        """States (n, d) and values (n,) of the walkers at temperature one, over the last ``share`` of the sweeps."""
        recent = self._recent(share)
        if not recent:
            return np.empty((0, self.dim)), np.empty(0)
        return (
            np.vstack([x[beta == 1] for x, _, beta in recent]),
            np.concatenate([values[beta == 1] for _, values, beta in recent]),
        )

    def stays(self, x: np.ndarray, sweeps: int) -> np.ndarray:
        """Which of the points (k, d) a walker occupied after each of the last sweeps, shape (k,)."""
        recent = self._visits[-sweeps:]
        held = np.full(len(x), len(recent) == sweeps)
        for visited, _, _ in recent:
            held &= (x[:, None] == visited).all(axis=2).any(axis=1)
        return held

    def states(self) -> np.ndarray:
        """Points (n, d) that represent the target: recent states, and what these leave out of the bulk."""
        states = self._recent_states()
        if not self._keeps_modes:
            return states
        # Its own generator: other random choices stay the same where nothing is left out.
        left = left_behind(self.history, states, np.random.default_rng(len(self.history)))
        return np.vstack([states, left])

    def _recent_states(self) -> np.ndarray:
        """Distinct recent states (n, d) of the coldest walkers that have enough of them, in random order."""
        recent = self._recent(_RECENT)
        if recent:
            betas = np.unique(np.concatenate([beta for _, _, beta in recent]))[::-1]
            for coldest in betas[[0, min(1, len(betas) - 1), -1]]:
                rows = np.vstack([x[beta >= coldest] for x, _, beta in recent])
                if len(np.unique(rows, axis=0)) >= _STATES_PER_DIM * self.dim + _MORE_STATES:
                    return distinct(rows, self._max_archive, self._rng)
        return distinct(np.vstack([self._cloud, *(x for x, _, _ in recent)]), self._max_archive, self._rng)

    @property
    def top(self) -> float:
        """The largest height; for noisy ones that of the last fit, which no single estimate raises."""
        if np.isfinite(self._top):
            return self._top
        return float(self._levels().max())

    def heights(self, x: np.ndarray, log_density: np.ndarray) -> np.ndarray:
        """The log-density of the transported coordinates, without the rise into necks, (n,), from that of x (n, d)."""
        return log_density - self.transport.log_jacobian(x) + self.necks.correction(self.transport(x))

    def _levels(self) -> np.ndarray:
        """The heights of the history (n,); each is computed once, as some transports are slow."""
        transport, necks, levels = self._known_levels
        if transport is not self.transport or necks is not self.necks:
            levels = np.empty(0)
        if len(levels) < len(self.history):
            new = slice(len(levels), None)
            levels = np.append(levels, self.heights(self.history.x[new], self.history.log_density[new]))
            self._known_levels = self.transport, self.necks, levels
        return levels

    def fit(self, mixture: ProposalMixture) -> Fitted | None:
        """Fit, and tune the moves of a mixture on the surrogate; None if no fit is possible."""
        states = self.states()
        surrogate = self._fitted(states, mixture.surrogate)
        if surrogate is None:
            return None
        surrogate = self._sphered(surrogate, states, mixture)
        if self._changed(surrogate, states, mixture) > _MOVED_SHARE:
            self.settled_at = self.n_own
        z = surrogate.coordinates(states)
        starts = z[self._rng.integers(len(z), size=_STARTS)]
        step_size = choose_step_size(Trials(surrogate.jit_state, starts, z), mixture.inner, self._rng)
        return Fitted(surrogate, states, z, mixture.inner._replace(step_size=step_size))

    def inner_chain_length(self, mixture: ProposalMixture) -> int | None:
        """The length at which a mixture's inner chains forget their start; None without a surrogate."""
        if mixture.surrogate is None:
            return None
        starts = mixture.archive_z[self._rng.integers(len(mixture.archive_z), size=_STARTS_FOR_LENGTH)]
        trials = Trials(mixture.surrogate.jit_state, starts, mixture.archive_z)
        return choose_inner_chain_length(trials, mixture.inner, self._rng)

    def floor(self, mixture: ProposalMixture) -> float | None:
        """The log-density below which hardly any draw from a mixture's surrogate lies.

        None without a surrogate.
        """
        surrogate, z = mixture.surrogate, mixture.archive_z
        if surrogate is None:
            return None
        rng = np.random.default_rng(len(self.history))  # its own: other random choices stay the same
        draws = z[rng.integers(len(z), size=_STARTS)]
        for _ in range(2):  # states of the archive may be deep: the first draws forget them
            starts = draws[-_STARTS:]
            draws = free_draws(Trials(surrogate.jit_state, starts, z), mixture.inner, rng)
        return floor_of(surrogate.log_density(surrogate.back(draws)))

    def probes(self, surrogate: Surrogate, count: int, edge: float) -> np.ndarray:
        """Points (count, d) beyond the edge of the evaluations, whose depth is below ``edge``."""
        if not count:
            return np.empty((0, self.dim))
        x, values = self.history.x, self.history.log_density
        shallow = np.flatnonzero(self.top - self._levels() < edge)
        known = Evaluated(surrogate.coordinates(x), surrogate.expansion.metric, shallow)
        near = int(self._rng.binomial(count, _BESIDE_HIGH)) if self._noisy else 0
        groups = surrogate.scale_groups
        along = int(self._rng.binomial(count - near, _IN_NECKS)) if groups else 0
        points = probe_points(known, count - near - along, rng=self._rng)
        if along:
            necks = probes_in_necks(self.cold_visits(_RECENT)[0], groups, along, rng=self._rng)
            points = np.vstack([points, surrogate.coordinates(necks)])
        if near:
            excess = values[shallow] - surrogate.log_density(x[shallow])
            points = np.vstack([points, probes_near(known, excess, near, rng=self._rng)])
        return surrogate.back(points)

    def close_pairs(self, surrogate: Surrogate | None) -> Pairs | None:
        """Pairs of close points that can tell roughness from misfit; None where there is nothing to tell."""
        due = self.n_own >= max(FIRST, NEXT * self._compared_at)
        if surrogate is None or self._noisy or not due or not is_unexplained(surrogate):
            return None
        shallow = np.flatnonzero(self.top - self._levels() < surrogate.edge)
        rng = np.random.default_rng(len(self.history))  # its own: pairs do not change other random choices
        return close_pairs(surrogate, self.history.x[shallow], self.history.log_density[shallow], rng=rng)

    def compare(self, pairs: Pairs, values: np.ndarray, surrogate: Surrogate) -> None:
        """Estimate the roughness from values (k,) at the close points; the next fit allows for it."""
        self.noise_sd, self._compared_at = roughness_sd(pairs, values, surrogate.loo_sd), self.n_own

    def tempering_edge(self) -> float:
        """The depth beyond which hot walkers are pulled back: that of all but 1 % of the recent states."""
        bulk = bulk_depth(self.dim)
        recent = self._recent(_RECENT)
        if not recent:
            return bulk + _HOT_DEPTH
        deep = self.top - np.concatenate([self.heights(x, values) for x, values, _ in recent])
        states = float(np.quantile(deep, _HOT_QUANTILE))
        return max(bulk + _HOT_DEPTH, min(_DEEPEST_STATES * bulk, states) + _PAST_STATES)

    def _recent(self, share: float) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        return self._visits[-max(int(share * len(self._visits)), 1) :]

    def _fitted(self, states: np.ndarray, previous: Surrogate | None) -> Surrogate | None:
        """A new surrogate, or the old one if it is clearly better on recent points."""
        x, values = self.history.x, self.history.log_density
        try:
            surrogate = self._in_best_coordinates(states, previous)
        except np.linalg.LinAlgError:
            self._failed_at = len(x)
            return previous
        self.n_fits += 1
        self.transport, self.necks = surrogate.transport, surrogate.necks
        if self._noisy:
            self._top, self.noise_sd = surrogate.top, surrogate.noise_sd
        if previous is None or surrogate.error_sd < _WORSE * previous.error_sd + _WORSE_BY:
            return surrogate
        recent = slice(-min(_LAST_VALUES, len(values)), None)
        depth = self.heights(x, values).max() - self.heights(x[recent], values[recent])
        shallow = depth < surrogate.edge
        x, values = x[recent][shallow], values[recent][shallow]
        if not len(x):
            return surrogate
        best = min(surrogate, previous, key=lambda s: float(np.median(np.abs(s.log_density(x) - values))))
        self.transport, self.necks = best.transport, best.necks
        return best

    def _in_best_coordinates(self, states: np.ndarray, previous: Surrogate | None) -> Surrogate:
        """A surrogate in coordinates without a funnel, or in such in which a few terms explain the values."""
        if previous is not None and isinstance(previous.expansion, TermExpansion):
            surrogate = self._fit_in(previous.transport, states, previous)
            if surrogate.error_sd < GOOD_FIT:
                return surrogate
        if (sparse := self._sparse(states, previous)) is not None:
            return sparse
        x, values, transport = self.history.x, self.history.log_density, self.transport
        few = self.history.gradients is not None or is_wide(self.dim)
        if not few or len(x) >= values_needed(self.dim):  # fewer values cannot tell a funnel
            transport = find_transport(x, values, states, current=transport, noise_sd=self.noise_sd, noisy=self._noisy)
        surrogate = self._fit_in(transport, states, previous)
        if isinstance(transport, Identity) or surrogate.error_sd < GOOD_FIT or self._noisy:
            return surrogate
        plain = self._terms_in(IDENTITY, states)
        if plain is None or plain.error_sd > min(_WORTH_PLAIN * surrogate.error_sd, GOOD_FIT):
            return surrogate
        return plain

    def _sparse(self, states: np.ndarray, previous: Surrogate | None) -> Surrogate | None:
        """In many dimensions, a surrogate of few terms: it needs fewer values than a quadratic."""
        n, good = len(self.history), previous is not None and previous.error_sd < GOOD_FIT
        if good or not is_wide(self.dim) or self._noisy or n < _NEXT_TRY * self._searched_at:
            return None
        self._searched_at = n
        found = self._terms_in(IDENTITY, states)
        return found if found is not None and found.error_sd < GOOD_FIT else None

    def _terms_in(self, transport: Transport, states: np.ndarray) -> Surrogate | None:
        """A surrogate by terms alone; its random choices do not change those of the run."""
        try:
            return self._fit_in(transport, states, None, rng=np.random.default_rng(len(self.history)), only_terms=True)
        except np.linalg.LinAlgError:
            return None

    def _fit_in(
        self,
        transport: Transport,
        states: np.ndarray,
        previous: Surrogate | None,
        *,
        rng: np.random.Generator | None = None,
        only_terms: bool = False,
    ) -> Surrogate:
        visited, levels = self.cold_visits(_LATELY)
        necks = self.necks if transport == self.transport else NO_NECKS
        with warnings.catch_warnings():  # leave-one-out decides about ill-conditioned candidates, not the user
            warnings.simplefilter("ignore", LinAlgWarning)
            return fit_surrogate(
                self.history.x,
                self.history.log_density,
                states,
                rng=self._rng if rng is None else rng,
                options=self._fit,
                previous=previous,
                levels=levels - transport.log_jacobian(visited) + necks.correction(transport(visited)),
                noisy=self._noisy,
                transport=transport,
                gradients=self.history.gradients,
                only_terms=only_terms,
                roughness_sd=0.0 if self._noisy else self.noise_sd,
                necks=necks,
                few_values=self._few_values,
            )

    def _changed(self, surrogate: Surrogate, states: np.ndarray, mixture: ProposalMixture) -> float:
        """Share of the flattened surrogate's draws at which it differs from the last one by more than a nat."""
        if mixture.surrogate is None:
            return 1.0
        draws = surrogate.back(self._free_draws(surrogate, states, mixture, tempering=flattened(flattest(self.dim))))
        new = surrogate.log_density(draws)
        difference = new - mixture.surrogate.log_density(draws)
        matters = self.top - self.heights(draws, new) < surrogate.edge
        if not matters.any():
            return 1.0
        return float(np.mean(np.abs(difference - np.median(difference))[matters] > _MOVED))

    def _free_draws(
        self, surrogate: Surrogate, states: np.ndarray, mixture: ProposalMixture, *, tempering: Tempering = COLD
    ) -> np.ndarray:
        z = surrogate.coordinates(states)
        starts = z[self._rng.integers(len(z), size=_STARTS)]
        return free_draws(Trials(surrogate.jit_state, starts, z), mixture.inner, self._rng, tempering=tempering)

    def _sphered(self, surrogate: Surrogate, states: np.ndarray, mixture: ProposalMixture) -> Surrogate:
        """The surrogate in coordinates in which its own draws are white, so that unit mass suits its dynamics."""
        draws = self._free_draws(surrogate, states, mixture)
        inside = np.linalg.norm(draws, axis=1) < _OUT_OF_REACH * surrogate.jit_state.reach
        if np.mean(inside) < 1.0 - _MOST_OUT:  # mass where there are no data: the covariance is not meaningful
            return surrogate
        eigenvalues = np.linalg.eigvalsh(np.atleast_2d(np.cov(draws[inside].T)))
        low, high = _NEARLY_WHITE
        return surrogate.rewhitened(draws[inside]) if eigenvalues[0] < low or eigenvalues[-1] > high else surrogate
