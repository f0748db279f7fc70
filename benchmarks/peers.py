"""The methods under test: kmc, and gradient-free peers.

A method takes (problem, seed, budget) and returns runs, of which the one with the largest ESS is
reported. For peers there are several, as burn-in and number of walkers are chosen in hindsight,
which flatters them. Every evaluation counts, including starts, and one beyond the budget raises. A
peer is imported when it is first used.

Left out, because its draws are biased: emcee's snooker move (with exact starts the sd is .84 in
five dimensions), alone and in the mixture that emcee's documentation recommends.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module

import numpy as np
from targets import Problem

from kmc.model.toys import Gaussian

CHAINS = 4
BURN_INS = (1 / 6, 1 / 3, 1 / 2)
# draws of a chain: from a handful ArviZ finds no autocorrelation, and an ESS above their number
FEWEST = 20
INITIAL_PHASE = 200  # sweeps without adaptation, as in PINTS's controller


class Unavailable(Exception):
    """A cell that cannot be run here, with the reason."""


class BudgetSpent(Exception):
    """A method requested one evaluation more than its budget."""


@dataclass(frozen=True)
class Run:
    """The result of a method with its budget."""

    draws: np.ndarray  # (chains, n, d), without warm-up or burn-in
    evaluations: int
    seconds: float  # wall time
    overhead: float  # seconds of processor time outside the log-density
    setting: str = ""
    compile_seconds: float = 0.0  # before the run, not included in its seconds
    warnings: tuple[str, ...] = ()


class Counted:
    """A log-density that counts its evaluations, and separates its own time from the sampler's.

    Overhead is processor time (of one thread, see :mod:`sampling`), so that other load on the
    machine does not add to it.
    """

    def __init__(self, log_density: Callable[[np.ndarray], float], budget: int):
        self.log_density, self.budget, self.evaluations, self._inside = log_density, budget, 0, 0.0
        self.begin()

    def begin(self) -> None:
        """Start the clocks; the count of evaluations continues."""
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def __call__(self, x):
        if self.evaluations == self.budget:
            raise BudgetSpent
        self.evaluations += 1
        start = time.process_time()
        value = self.log_density(x)
        self._inside += time.process_time() - start
        return value

    def run(self, draws: np.ndarray, setting: str = "") -> Run:
        """The run until now."""
        wall, processor = time.perf_counter() - self._wall, time.process_time() - self._processor
        return Run(draws, self.evaluations, wall, processor - self._inside, setting)


# kmc


def run_kmc(problem: Problem, seed: int, budget: int, sampler: str) -> list[Run]:
    """kmc with default settings, four chains. A tiny run on another target compiles it first."""
    import kmc

    compile_seconds = _compiled(sampler)
    options = _options_of(sampler)
    initial = problem.initial(np.random.default_rng(seed), CHAINS)
    target = Counted(problem.black_box(seed), budget)
    idata = kmc.sample(
        kmc.Model(target, problem.dim, noisy=problem.noisy),
        initial=initial,
        sampler=options,
        chains=CHAINS,
        draws=None,
        max_evaluations=budget,
        seed=seed,
        progress=False,
    )
    run = target.run(idata.posterior["x"].transpose("chain", "draw", ...).values)
    said = json.loads(idata.posterior.attrs.get("warnings", "[]"))
    return [replace(run, compile_seconds=compile_seconds, warnings=tuple(said))]


@cache
def _compiled(sampler: str) -> float:
    """Seconds of a first small run in this process, mainly compilation."""
    import kmc

    normal, start = Gaussian(10), time.perf_counter()
    options = _options_of(sampler)
    initial = normal.sample(np.random.default_rng(0), CHAINS)
    kmc.sample(
        normal, 10, initial, options, draws=None, max_evaluations=600, seed=0, progress=False
    )
    return time.perf_counter() - start


def _options_of(sampler: str):
    """What ``kmc.sample`` takes for a name; some samplers have none of their own there."""
    import kmc

    unnamed = {
        "score-hmc": kmc.ScoreHMC(
            kmc.scores.LiteKEF(n_basis=200), warmup_sampler=kmc.AdaptiveMetropolis()
        ),
    }
    return unnamed.get(sampler, sampler)


# Ensembles of walkers: the better of two sizes


def run_emcee(problem: Problem, seed: int, budget: int, move: str) -> list[Run]:
    """One emcee move alone. Walkers keep their values, so noise is allowed."""
    emcee = peer_package("emcee", "emcee")
    runs = []
    for walkers in _ensembles(problem):
        initial = problem.initial(np.random.default_rng(seed), walkers)
        target = Counted(problem.black_box(seed), budget)
        sampler = emcee.EnsembleSampler(
            walkers, problem.dim, target, moves=getattr(emcee.moves, move)()
        )
        state = emcee.State(initial, random_state=np.random.RandomState(seed).get_state())
        sampler.run_mcmc(state, budget // walkers - 1)
        runs += _burnt(target.run(sampler.get_chain().swapaxes(0, 1), f"{walkers} walkers"))
    return _enough(runs, budget)


def run_zeus(problem: Problem, seed: int, budget: int) -> list[Run]:
    """Ensemble slice sampling, stopped at the evaluation that would exceed the budget."""
    zeus = peer_package("zeus", "zeus-mcmc")
    if problem.noisy:
        raise Unavailable(
            "a slice has no estimate to keep: the noise of every point on it is drawn anew"
        )
    runs = []
    for walkers in _ensembles(problem):
        initial = problem.initial(np.random.default_rng(seed), walkers)
        np.random.seed(seed)  # noqa: NPY002, the generator that zeus uses
        target, positions = Counted(problem.black_box(seed), budget), []
        sampler = zeus.EnsembleSampler(walkers, problem.dim, target, verbose=False)
        # zeus prints what the function raises
        with suppress(BudgetSpent), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            for x, *_ in sampler.sample(initial, iterations=budget, progress=False):
                positions.append(x.copy())
        if positions:
            runs += _burnt(target.run(np.stack(positions, axis=1), f"{walkers} walkers"))
    return _enough(runs, budget)


def _ensembles(problem):
    return 2 * problem.dim + 2, max(4 * problem.dim + 4, 20)


# Chains


def run_pints_acmc(problem: Problem, seed: int, budget: int) -> list[Run]:
    """Haario and Bardenet's adaptive covariance: four chains that adapt independently."""
    pints = peer_package("pints", "pints")
    initial, target = _start(problem, seed, CHAINS, budget)
    scale = np.diag((2 * problem.truth.sd) ** 2)  # of the starts
    samplers = [pints.HaarioBardenetACMC(x, scale) for x in initial]
    draws = []
    for sweep in range(budget // CHAINS):
        if sweep == INITIAL_PHASE:
            for sampler in samplers:
                sampler.set_initial_phase(False)
        draws.append([sampler.tell(target(sampler.ask()))[0] for sampler in samplers])
    return _enough(_burnt(target.run(np.array(draws).swapaxes(0, 1))), budget)


def run_pints_dream(problem: Problem, seed: int, budget: int) -> list[Run]:
    """DREAM: at least eight chains and one per dimension, with crossover rates adapted over the
    first third.
    """
    pints = peer_package("pints", "pints")
    chains = max(8, problem.dim)
    initial, target = _start(problem, seed, chains, budget)
    sampler = pints.DreamMCMC(chains, initial)
    draws, sweeps = [], budget // chains
    for sweep in range(sweeps):
        if sweep == sweeps // 3:
            sampler.set_initial_phase(False)
        draws.append(sampler.tell([target(x) for x in sampler.ask()])[0])
    return _enough(
        _burnt(target.run(np.array(draws).swapaxes(0, 1), f"{chains} chains"), BURN_INS[1:]), budget
    )


def run_pymc(problem: Problem, seed: int, budget: int) -> list[Run]:
    """DEMetropolisZ on a black box: four chains, a third of the steps for tuning, two evaluations a
    step.
    """
    pymc = peer_package("pymc", "pymc")
    if problem.noisy:
        raise Unavailable(
            "DEMetropolisZ evaluates its state again at every step, and so draws its noise anew"
        )
    initial, target = _start(problem, seed, CHAINS, budget)
    start = time.perf_counter()
    with pymc.Model():
        x = pymc.Flat("x", shape=problem.dim, initval=initial[0])
        pymc.Potential("log_density", _black_box(target)(x))
        step = pymc.DEMetropolisZ(rng=seed, compile_kwargs={"mode": "FAST_COMPILE"})
    compile_seconds = time.perf_counter() - start
    target.begin()
    steps = budget // (2 * CHAINS)
    draws = np.empty((CHAINS, steps, problem.dim))
    for chain, start in enumerate(initial):
        point = {"x": start}
        step.reset_tuning()
        step.tune = True
        for i in range(steps):
            if i == steps // 3:
                step.stop_tuning()
            point, _ = step.step(point)
            draws[chain, i] = point["x"]
    run = target.run(draws[:, steps // 3 :], "33% for tuning")
    return [replace(run, compile_seconds=compile_seconds)]


def _start(problem, seed, chains, budget):
    """Starts, the counted log-density, and a seed for the global generator that PINTS uses."""
    initial = problem.initial(np.random.default_rng(seed), chains)
    np.random.seed(seed)  # noqa: NPY002
    return initial, Counted(problem.black_box(seed), budget)


def _burnt(run: Run, burn_ins=BURN_INS) -> list[Run]:
    """The run without each of these fractions of its draws."""
    n = run.draws.shape[1]
    return [
        replace(
            run,
            draws=run.draws[:, round(share * n) :],
            setting=f"{run.setting}, burn-in {share:.0%}".lstrip(", "),
        )
        for share in burn_ins
        if round((1 - share) * n) >= FEWEST
    ]


def _enough(runs: list[Run], budget: int) -> list[Run]:
    if not runs:
        raise Unavailable(f"{budget} evaluations leave fewer than {FEWEST} draws of a walker")
    return runs


def _black_box(log_density):
    """The function as a PyTensor operation without a gradient."""
    import pytensor.tensor as pt
    from pytensor.graph.op import Op

    class BlackBox(Op):
        itypes = [pt.dvector]  # noqa: RUF012, PyTensor's names
        otypes = [pt.dscalar]  # noqa: RUF012

        def perform(self, node, inputs, output_storage):
            output_storage[0][0] = np.asarray(log_density(inputs[0]), dtype=float)

    return BlackBox()


def peer_package(module: str, package: str):
    """The module, or ``Unavailable`` with the package to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise Unavailable(f"{package} is not installed ({error}): pip install {package}") from None


METHODS: dict[str, Callable[[Problem, int, int], list[Run]]] = {
    "kmc": partial(run_kmc, sampler="kernel-hmc"),
    "kmc adaptive Metropolis": partial(run_kmc, sampler="adaptive-metropolis"),
    "kmc adaptive Langevin": partial(run_kmc, sampler="adaptive-langevin"),
    "kmc delayed acceptance": partial(run_kmc, sampler="delayed-acceptance"),
    "kmc Kameleon": partial(run_kmc, sampler="kameleon"),
    "kmc parallel tempering": partial(run_kmc, sampler="tempered"),
    "kmc random walk": partial(run_kmc, sampler="random-walk"),
    "kmc ScoreHMC": partial(run_kmc, sampler="score-hmc"),
    "emcee stretch": partial(run_emcee, move="StretchMove"),
    "emcee DE": partial(run_emcee, move="DEMove"),
    "zeus": run_zeus,
    "pints ACMC": run_pints_acmc,
    "pints DREAM": run_pints_dream,
    "pymc DEMetropolisZ": run_pymc,
}
OURS = ("kmc",)
EMCEE = ("emcee stretch", "emcee DE")
PEERS = tuple(method for method in METHODS if not method.startswith("kmc"))
NO_NOISE = ("zeus", "pymc DEMetropolisZ")
"""Methods that draw the noise of a state anew, and so do not run on noisy targets."""
