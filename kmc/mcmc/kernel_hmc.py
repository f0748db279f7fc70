"""Kernel Hamiltonian Monte Carlo: the default sampler.

Warm-up moves walkers on a ladder of temperatures, first by differential evolution, then by runs on a surrogate that is
refitted at geometric counts of evaluations. The main phase is an exact Metropolis–Hastings chain for the target: all
that adapts is frozen (``adaptation="freeze"``), or is refitted at sweeps fixed in advance and ever rarer
(``adaptation="vanishing"``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from kmc.mcmc.base import MOVES, Problem, Sweep
from kmc.mcmc.history import History
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.plan import Plan, distinct
from kmc.mcmc.probes import probe_points
from kmc.mcmc.schedule import Round, Schedule
from kmc.mcmc.surrogate_transition import RunOptions
from kmc.mcmc.tempering import COLD, Tempering, ladder
from kmc.mcmc.tuning import choose_run_length, choose_step_size, free_draws
from kmc.mcmc.walkers import Walkers, best_starts, requested
from kmc.surrogates.fit import FitOptions, Surrogate, bulk_depth, fit_surrogate, values_needed

_SURROGATE_MOVES = (MOVES.index("surrogate"), MOVES.index("tempered-surrogate"))


@dataclass(frozen=True)
class KernelHMC:
    """Hamiltonian dynamics on a kernel surrogate of the log-density, corrected by one true evaluation per draw.

    Parameters
    ----------
    adaptation : {"freeze", "vanishing"}
        What happens after warm-up. "freeze": nothing changes any more, and the main phase is a Markov chain
        with the target as its stationary distribution. "vanishing": the surrogate is refitted after n, 1.25 n,
        1.25² n, ... sweeps of the main phase, n being ``first_refit``. The times are fixed in advance and the gaps grow, which is the setting
        of adapted increasingly rarely MCMC (Chimisov, Łatuszyński and Roberts 2018, arXiv:1801.09299), whose law of large
        numbers asks for simultaneous drift and minorisation of the kernels; that condition is not checked.
    archive_share : float
        Probability of a move that does not use the surrogate (differential evolution or snooker) in the main phase.
    tempered_share : float
        Of the surrogate's runs, the share on a flattened surrogate s^b, b uniform on [1 / (1 + 2/sqrt(d)), 1].
    single_share : float
        Of the surrogate's runs, the share with a single move.
    jump_share, small_share, trajectory_length : float
        Of the moves inside a run, the share of archive jumps; of its trajectories, the share with smaller steps; the
        longest integration time, in whitened coordinates.
    n_temperatures : int
        Temperatures of the warm-up, and the least number of walkers then.
    probe_rate, main_probe_rate : float
        Probes past the data's edge per walker and sweep, in warm-up and (with vanishing adaptation) after it.
    growth : float
        Factor of the number of evaluations between refits in warm-up.
    min_warmup_evaluations : int
        Warm-up does not end before, unless the budget is under three times this.
    settle : int
        Sweeps between the freeze and the first kept draw.
    first_refit : int
        Sweeps before the first refit of the main phase, with vanishing adaptation.
    max_archive : int
        States kept for the archive moves.
    fit : FitOptions
        The surrogate's own options.

    Examples
    --------
    >>> import kmc
    >>> kmc.KernelHMC(archive_share=0.1).adaptation
    'freeze'
    """

    adaptation: str = "freeze"
    archive_share: float = 0.06
    tempered_share: float = 0.1
    single_share: float = 0.1
    jump_share: float = 0.15
    small_share: float = 0.4
    trajectory_length: float = 2.5
    n_temperatures: int = 4
    probe_rate: float = 0.12
    main_probe_rate: float = 0.03
    growth: float = 1.2
    min_warmup_evaluations: int = 1500
    settle: int = 15
    first_refit: int = 100
    max_archive: int = 1000
    fit: FitOptions = field(default_factory=FitOptions)

    name: ClassVar[str] = "kernel-hmc"

    def __post_init__(self):
        if self.adaptation not in ("freeze", "vanishing"):
            raise ValueError(f"adaptation={self.adaptation!r}: expected 'freeze' or 'vanishing'")
        for share in ("archive_share", "tempered_share", "single_share", "jump_share", "small_share"):
            if not 0 <= getattr(self, share) <= 1:
                raise ValueError(f"{share}={getattr(self, share)!r}: expected a probability in [0, 1]")
        if not self.archive_share > 0:
            raise ValueError(
                f"archive_share={self.archive_share!r}: must be positive, or a wrong surrogate can trap a chain"
            )
        for rate in ("probe_rate", "main_probe_rate"):
            if not 0 <= getattr(self, rate) <= 1:
                raise ValueError(f"{rate}={getattr(self, rate)!r}: expected a number in [0, 1]")
        for factor in ("growth",):
            if not getattr(self, factor) > 1:
                raise ValueError(f"{factor}={getattr(self, factor)!r}: expected a factor above 1")
        for count in ("n_temperatures", "min_warmup_evaluations", "settle", "first_refit", "max_archive"):
            if getattr(self, count) < 1:
                raise ValueError(f"{count}={getattr(self, count)!r}: expected a positive integer")

    def start(self, problem: Problem) -> KernelHMCProcess:
        """Begin a run; see :class:`kmc.mcmc.base.Sampler`."""
        return KernelHMCProcess(self, problem)


class KernelHMCProcess:
    """Kernel HMC at work; see :class:`kmc.mcmc.base.Process`."""

    def __init__(self, options: KernelHMC, problem: Problem):
        self.options, self.problem = options, problem
        self.warming_up = True
        dim, walkers = problem.dim, max(problem.chains, options.n_temperatures)
        *self._rngs, self._rng = (np.random.default_rng(seed) for seed in problem.seed.spawn(walkers + 1))
        self._walkers = self._best_walkers(problem.initial, problem.initial_log_density)
        self._scouted = False  # whether the surroundings of the start are known
        self._history = History(dim)
        self._history.extend(problem.initial, problem.initial_log_density)
        self._visits: list[tuple[np.ndarray, np.ndarray]] = []  # states and values of all walkers, sweep by sweep
        self._schedule = Schedule.of(
            problem, values_needed(dim), options.growth, options.min_warmup_evaluations, options.settle
        )
        self._round = Round()
        self._betas = np.resize(ladder(dim, bulk_depth(dim), options.n_temperatures), walkers)
        self._hot_edge = bulk_depth(dim) + 5.0
        self._cloud = np.empty((0, dim))
        self._longest_warm_run = 4.0
        self._sweep = 0  # since the phase began
        self._settled = 0  # sweeps since the freeze, while still dropped
        self._frozen = False
        self._next_refit = float(options.first_refit)
        self._facts = {"n_refits": 0, "n_probes": 0, "probe_surprises": 0}
        self._plan = self._bare_plan()
        self._proposals: list[Proposal] = []
        self._temperings: list[Tempering] = []
        self._probes = np.empty((0, dim))

    def propose(self) -> np.ndarray:
        """The proposals of this sweep that moved, and then the probes."""
        if not self._scouted:
            self._cloud = self._surroundings()
            return self._cloud
        self._temperings = [self._tempering(i) for i in range(len(self._walkers))]
        self._proposals = [
            self._plan.propose(rng, x, tempering)
            for rng, x, tempering in zip(self._walkers.rngs, self._walkers.x, self._temperings, strict=True)
        ]
        self._probes = self._probe_points()
        return np.vstack([requested(self._proposals, self.problem.dim), self._probes])

    def advance(self, values: np.ndarray) -> Sweep | None:
        """Decide, learn from the values, and adapt if it is time."""
        if not self._scouted:
            self._begin(values)
            return None
        n_proposed = len(values) - len(self._probes)
        self._learn(values[:n_proposed], values[n_proposed:])
        stats = self._walkers.decide(self._proposals, values[:n_proposed], self._temperings)
        self._sweep += 1
        record = self._walkers.sweep(self.warming_up, stats, self.problem.chains)
        if not self._frozen:
            self._tally(stats)
            self._walkers.swap_neighbours(self._temperings, self._rng)
            self._visits.append((self._walkers.x.copy(), self._walkers.log_density.copy()))
            self._warm_up()
        elif self.warming_up:
            self._settled += 1
            if self._settled >= self.options.settle:
                self.warming_up, self._sweep = False, 0
        elif self.options.adaptation == "vanishing":
            self._visits.append((self._walkers.x.copy(), self._walkers.log_density.copy()))
            self._refit_rarely()
        return record

    def report(self) -> dict[str, Any]:
        """Facts for the results' attributes."""
        surrogate = self._plan.surrogate
        facts: dict[str, Any] = dict(self._facts)
        if surrogate is not None:
            facts |= {
                "surrogate_loo_sd": surrogate.loo_sd,
                "surrogate_trend_sd": surrogate.trend_sd,
                "surrogate_bandwidth_factor": surrogate.expansion.factor,
                "surrogate_n_values": surrogate.n_values,
                "run_length": self._plan.longest_run,
                "leapfrog_step_size": self._plan.run.step_size,
            }
        return facts

    # Start

    def _surroundings(self):
        """A cloud around the user's points that gives differential evolution its directions."""
        initial = self.problem.initial
        spread = initial.std(axis=0)
        spread = np.where(spread > 0, spread, 0.1 * np.maximum(np.abs(initial).max(axis=0), 1.0))
        count = max(2 * len(self._rngs), 2 * self.problem.dim + 4)
        centres = initial[self._rng.integers(len(initial), size=count)]
        return centres + 0.5 * spread * self._rng.standard_normal(centres.shape)

    def _begin(self, values):
        self._scouted = True
        self._history.extend(self._cloud, values)
        x, values = self._history.x.copy(), self._history.log_density.copy()
        self._walkers = self._best_walkers(x, values)
        self._visits.append((x, values))
        self._plan = self._plan._replace(archive=x)

    def _best_walkers(self, x, values):
        best = best_starts(x, values, len(self._rngs))
        return Walkers(self._rngs, x[best], values[best])

    def _bare_plan(self):
        o = self.options
        return Plan(
            surrogate=None,
            archive=np.empty((0, self.problem.dim)),
            archive_z=np.empty((0, self.problem.dim)),
            archive_share=1.0,
            archive_scale=1.0,
            run=RunOptions(0.1, o.trajectory_length, o.jump_share, o.small_share),
            shortest_run=1,
            longest_run=4,
            single_share=0.0,
            tempered_share=0.0,
        )

    # Warm-up

    def _tempering(self, walker):
        if self._frozen or self._betas[walker] == 1.0:
            return COLD
        return Tempering(float(self._history.log_density.max()), float(self._betas[walker]), self._hot_edge)

    def _probe_points(self):
        surrogate = self._plan.surrogate
        vanishing = self.options.adaptation == "vanishing"
        rate = self.options.probe_rate if not self._frozen else self.options.main_probe_rate * vanishing
        count = int(self._rng.binomial(len(self._walkers), rate)) if surrogate is not None else 0
        if not count:
            return np.empty((0, self.problem.dim))
        depth = self._history.log_density.max() - self._history.log_density
        shallow = np.flatnonzero(depth < self._hot_edge)
        metric = surrogate.expansion.basis.metric
        u = surrogate.whitening(self._history.x) @ metric.T
        return surrogate.whitening.back(np.linalg.solve(metric, probe_points(u, shallow, count, self._rng).T).T)

    def _learn(self, proposed_values, probe_values):
        """Keep the new values, and note how well the surrogate foretold them."""
        if self._frozen and self.options.adaptation == "freeze":
            return
        points = np.vstack([requested(self._proposals, self.problem.dim), self._probes])
        values = np.concatenate([proposed_values, probe_values])
        surrogate = self._plan.surrogate
        if surrogate is not None and len(points):
            foretold = surrogate.log_density(points)
            top = self._history.log_density.max()
            matters = top - np.maximum(foretold, values) < surrogate.edge
            k = len(proposed_values)
            surprising = int(np.sum((np.abs(values - foretold) > 2.0)[k:] & matters[k:]))
            self._round.n_points += k
            self._round.low += int(np.sum((values - foretold)[:k] > 2.0))
            self._round.probes += len(probe_values)
            self._round.surprises += surprising
            self._facts["n_probes"] += len(probe_values)
            self._facts["probe_surprises"] += surprising
        self._history.extend(points, values)

    def _tally(self, stats):
        for i, proposal in enumerate(self._proposals):
            cold = self._betas[i] == 1.0
            runs = self._round.cold if cold else self._round.hot
            kind = runs if proposal.move in _SURROGATE_MOVES else self._round.archive
            kind.append(float(stats["acceptance_rate"][i]))
        if len(self._round.archive) >= 40 and self._plan.surrogate is None:
            self._rescale_archive_moves()
            self._round = Round()

    def _warm_up(self):
        n = len(self._history)
        fitted = self._schedule.due(n)
        done = False
        if fitted:
            self._refit()
            done = self._schedule.finish(n, self._round)
            self._next_round()
        if done or self._schedule.exhausted(self._sweep, n):
            if not fitted and n >= values_needed(self.problem.dim):
                self._refit()
            self._freeze()

    def _refit(self):
        surrogate = self._fitted()
        if surrogate is None:
            return
        states = self._states(self.options.max_archive)
        surrogate = self._sphered(surrogate, states)
        plan = self._plan._replace(
            surrogate=surrogate, archive=states, archive_z=np.ascontiguousarray(surrogate.whitening(states))
        )
        starts = plan.archive_z[self._rng.integers(len(states), size=64)]
        step_size = choose_step_size(surrogate.point, starts, plan.archive_z, plan.run, self._rng)
        self._plan = plan._replace(run=plan.run._replace(step_size=step_size))

    def _fitted(self) -> Surrogate | None:
        """A new surrogate, or the old one where it is clearly the better of the two; None if no fit was possible."""
        previous = self._plan.surrogate
        x, values = self._history.x, self._history.log_density
        try:
            surrogate = fit_surrogate(
                x, values, self._states(), self._rng, self.options.fit, previous, self._cold_levels()
            )
        except np.linalg.LinAlgError:
            return previous
        self._facts["n_refits"] += 1
        if previous is not None and surrogate.loo_sd > 1.5 * previous.loo_sd + 0.1:
            recent = slice(-min(200, len(values)), None)
            shallow = values.max() - values[recent] < surrogate.edge
            errors = [
                np.median(np.abs(s.log_density(x[recent][shallow]) - values[recent][shallow]))
                for s in (surrogate, previous)
            ]
            if errors[1] < errors[0]:
                return previous
        return surrogate

    def _sphered(self, surrogate, states):
        """The surrogate in coordinates in which its own draws are white, so that unit mass suits its dynamics."""
        z = np.ascontiguousarray(surrogate.whitening(states))
        starts = z[self._rng.integers(len(z), size=64)]
        draws = free_draws(surrogate.point, starts, z, self._plan.run, self._rng)
        inside = np.linalg.norm(draws, axis=1) < 1.2 * surrogate.point.reach
        if np.mean(inside) < 0.9:  # the surrogate has mass where there are no data: its covariance means nothing
            return surrogate
        draws = draws[inside]
        eigenvalues = np.linalg.eigvalsh(np.atleast_2d(np.cov(draws.T)))
        return surrogate.rewhitened(draws) if eigenvalues[0] < 0.4 or eigenvalues[-1] > 2.5 else surrogate

    def _next_round(self):
        """Set what warm-up adapts from the round that ends."""
        acceptance = self._round.acceptance()
        if acceptance > 0.5:
            self._longest_warm_run = min(1.6 * self._longest_warm_run, 50.0)
        elif acceptance < 0.3:
            self._longest_warm_run = max(0.6 * self._longest_warm_run, 1.0)
        self._rescale_archive_moves()
        self._plan = self._plan._replace(
            archive_share=0.5 if acceptance < 0.3 else 0.1, longest_run=int(self._longest_warm_run)
        )
        self._hot_edge = self._safe_edge()
        self._rescue()
        self._round = Round()

    def _rescale_archive_moves(self):
        if self._round.archive:
            factor = np.clip(np.mean(self._round.archive) / 0.25, 0.6, 1.5)
            scale = float(np.clip(self._plan.archive_scale * factor, 0.05, 2.0))
            self._plan = self._plan._replace(archive_scale=scale)
        if self._plan.surrogate is None:
            self._plan = self._plan._replace(archive=self._states(self.options.max_archive))

    def _safe_edge(self):
        bulk = bulk_depth(self.problem.dim)
        values = np.concatenate([v for _, v in self._recent_visits()])
        deep = float(np.quantile(self._history.log_density.max() - values, 0.99))
        return max(bulk + 5.0, min(2.0 * bulk, deep) + 3.0)

    def _rescue(self):
        """Move walkers that are hopelessly deep to the place of another."""
        values = self._walkers.log_density
        lost = values < np.median(values) - (self.problem.dim + 15.0) / self._betas
        for i in np.flatnonzero(lost):
            j = int(self._rng.choice(np.flatnonzero(~lost)))
            self._walkers.x[i], self._walkers.log_density[i] = self._walkers.x[j], self._walkers.log_density[j]

    def _recent_visits(self):
        """The last 60 % of the sweeps, all walkers."""
        return self._visits[int(0.4 * len(self._visits)) :]

    def _cold_levels(self):
        """Log-densities of the coldest walker over the last third of the sweeps."""
        late = self._visits[-max(len(self._visits) // 3, 1) :]
        return np.concatenate([v if self._frozen else v[:1] for _, v in late])

    def _states(self, most: int | None = None):
        """Distinct states of the coldest walkers that have visited enough of them, in random order."""
        recent = self._recent_visits()
        needed = 3 * self.problem.dim + 5
        for walkers in (1, 2, len(self._walkers)):
            rows = np.vstack([x if self._frozen or len(x) != len(self._walkers) else x[:walkers] for x, _ in recent])
            if len(np.unique(rows, axis=0)) >= needed:
                break
        return distinct(rows, most or len(rows), self._rng)

    # Main phase

    def _freeze(self):
        self._frozen = True
        plan = self._plan._replace(
            archive_share=self.options.archive_share,
            single_share=self.options.single_share,
            tempered_share=self.options.tempered_share,
        )
        if plan.surrogate is not None:
            plan = self._with_run_length(plan)
        self._plan = plan
        self._walkers = self._main_walkers()
        self._betas = np.ones(len(self._walkers))

    def _with_run_length(self, plan):
        starts = plan.archive_z[self._rng.integers(len(plan.archive_z), size=256)]
        longest = choose_run_length(plan.surrogate.point, starts, plan.archive_z, plan.run, self._rng)
        return plan._replace(shortest_run=longest // 2, longest_run=longest)

    def _main_walkers(self):
        """One walker per chain, at states of the coldest warm-up walker."""
        cold = [(x[0], v[0]) for x, v in self._recent_visits() if len(x) == len(self._betas)]
        cold = cold or [(self._walkers.x[0], self._walkers.log_density[0])]
        chains = self.problem.chains
        rows = self._rng.choice(len(cold), chains, replace=len(cold) < chains)
        x, values = (np.array([cold[i][part] for i in rows]) for part in (0, 1))
        return Walkers(self._rngs[:chains], x, values)

    def _refit_rarely(self):
        if self._sweep < self._next_refit:
            return
        self._next_refit *= 1.25
        self._refit()
        if self._plan.surrogate is not None:
            self._plan = self._with_run_length(self._plan)
