"""Moves on finite lattices: checks that enumerate one step of the package's own code from every
state.

Each check builds the transition matrix of the chain and compares its stationary distribution with
the target, to rounding. They are called by ``test_enumeration.py``, and by ``test_mutations.py``,
where they must fail.
"""

import copy
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from scipy import stats

from kmc.kernel_hmc.modes import Modes
from kmc.kernel_hmc.proposals import ArchiveMoves, ModeJumps, ProposalMixture, UserMoves, flattest
from kmc.kernel_hmc.sampler import KernelHMC
from kmc.samplers.adapting import AdaptingState, Learned, walkers_of
from kmc.samplers.adaptive_langevin import langevin, riemannian
from kmc.samplers.adaptive_metropolis import AdaptiveMetropolis, LearnedMixture
from kmc.samplers.base import SamplerSetup
from kmc.samplers.delayed_acceptance import ScreenedProposer
from kmc.samplers.inner_chains import InnerChainOptions, InnerChainsResult, inner_chain, make_moves
from kmc.samplers.kameleon import Kameleon, KameleonProposer, Subsample
from kmc.samplers.local_mixture import LocalMixture
from kmc.samplers.metropolis import Proposal
from kmc.samplers.moves import DifferentialEvolution, Snooker, differential_evolution, snooker
from kmc.samplers.parallel_tempering import TemperatureLadder, TemperedState
from kmc.samplers.random_walk import GaussianSteps
from kmc.samplers.score_field import Field, ScoreMixture
from kmc.samplers.walkers import Walkers, requested
from kmc.scores import GaussianScore
from kmc.surrogate.coordinates.transport import IDENTITY
from kmc.surrogate.coordinates.walls import NO_WALL, WallState
from kmc.surrogate.coordinates.whitening import Whitening
from kmc.surrogate.density import Component
from tests.oracles import kameleon
from tests.oracles.bookkeeping import (
    EXACT,
    ForkingGenerator,
    assert_stationary,
    outcomes,
    transition_matrix,
)
from tests.oracles.mcmc import jit_state

JUMPS = InnerChainOptions(
    step_size=0.1, trajectory_length=1.0, independence_probability=1.0, small_step_probability=0.0
)  # no momenta
GAMMA = 2.0  # of differential evolution: differences of integers times it are integers


class Lattice(NamedTuple):
    """Points with integer coordinates, and their log-densities; the density is zero everywhere
    else.
    """

    points: np.ndarray  # (n, d)
    log_density: np.ndarray  # (n,)

    def index(self, x) -> int | None:
        """Which point x is, None if it is another one."""
        x = np.asarray(x)
        assert np.max(np.abs(x - np.rint(x))) < 1e-9, f"{x} is not on the lattice"
        found = np.flatnonzero(np.all(self.points == np.rint(x), axis=1))
        return int(found[0]) if len(found) else None

    def value(self, x) -> float:
        """The log-density at x."""
        at = self.index(x)
        return -np.inf if at is None else float(self.log_density[at])

    def values(self, x) -> np.ndarray:
        """The same at the rows of x."""
        return np.array([self.value(row) for row in x])

    def mass(self) -> np.ndarray:
        """The density at the points."""
        return np.exp(self.log_density)


def line(size: int = 7) -> Lattice:
    """Points 0 .. size - 1 on a line, the fourth of density zero."""
    values = np.random.default_rng(1).normal(0.0, 1.0, size)
    values[3] = -np.inf
    return Lattice(np.arange(float(size))[:, None], values)


def grid() -> Lattice:
    """Twelve points in the plane, one of density zero."""
    points = np.array([(float(i), float(j)) for i in range(4) for j in range(3)])
    values = np.random.default_rng(2).normal(0.0, 1.0, len(points))
    values[5] = -np.inf
    return Lattice(points, values)


def plan(lattice: Lattice, wall: WallState = NO_WALL, **options) -> ProposalMixture:
    """A plan whose moves stay on integers, with a surrogate that is unrelated to the lattice's
    values.
    """
    dim = lattice.points.shape[1]
    archive = {
        1: np.array([[1.0], [2.0], [4.0]]),
        2: np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]),
    }[dim]
    whitening = Whitening.of(lattice.points.mean(axis=0), 0.5 * np.eye(dim))
    surrogate = Component(IDENTITY, whitening, jit_state(dim, seed=5, wall=wall))
    fields = {
        "surrogate": surrogate,
        "mixture": on_points(surrogate.coordinates(lattice.points)),
        "archive_probability": 0.3,
        "inner": JUMPS,
        "shortest_chain": 1,
        "longest_chain": 2,
        "tempered_probability": 0.4,
    }
    chosen = fields | options
    archive_moves = ArchiveMoves(archive, chosen.pop("archive_probability"))
    return ProposalMixture(others=[*chosen.pop("others", []), archive_moves], **chosen)


def nodes(dim: int) -> dict:
    """Values that keep differential evolution and (in one dimension) the snooker on integers, and
    two powers.
    """
    least = flattest(dim)
    return {
        (0.7, 1.3): (GAMMA * np.sqrt(2 * dim) / 2.38,),
        (1.2, 2.2): (2.0,),
        (least, 1.0): (least, 0.8),
    }


def on_points(z: np.ndarray) -> LocalMixture:
    """Equal probabilities of points but for the first, whose probability is twice theirs, in the
    form of a mixture.
    """
    centers = np.vstack([z[:1], z])
    return LocalMixture(centers, np.empty(0), np.empty(0), np.empty(0), np.zeros(len(centers)))


def draw_point(mixture, rng, out):
    """Draw from such probabilities, where kernel HMC draws from Gaussians."""
    out[:] = mixture.centers[int(rng.random() * len(mixture.centers))]


def log_probability(mixture, z, work):
    """Their logarithms, up to a constant."""
    equal = np.sum(np.max(np.abs(mixture.centers - z), axis=1) < 1e-9)
    return np.log(equal) if equal else -np.inf


def one_after_the_other(state, start, lengths, *, powers, rngs, options, mixture):
    """``inner_chains`` without the compiler, so that its generators may fork: the same code for
    each chain.
    """
    ends = [
        inner_chain.py_func(state, power, rng, z, length, options, mixture)
        for power, rng, z, length in zip(powers, rngs, start, lengths, strict=True)
    ]
    ratios = [
        power * (end.start_value - end.value) + (end.start_wall - end.wall)
        for power, end in zip(powers, ends, strict=True)
    ]
    columns = {name: np.array([getattr(end, name) for end in ends]) for name in ends[0]._fields}
    names = (name for name in InnerChainsResult._fields if name != "log_ratio")
    return InnerChainsResult(log_ratio=np.array(ratios), **{name: columns[name] for name in names})


def without_the_compiler():
    """A context in which proposals of kernel HMC may fork."""
    transition = "kmc.samplers.inner_chains"
    stack = ExitStack()
    stack.enter_context(patch("kmc.kernel_hmc.proposals.inner_chains", one_after_the_other))
    stack.enter_context(patch(f"{transition}.make_moves", make_moves.py_func))
    stack.enter_context(patch(f"{transition}.draw_from", draw_point))
    stack.enter_context(patch(f"{transition}.log_density_of", log_probability))
    return stack


def walker_step(lattice: Lattice, propose):
    """One move of one walker, as a function of the index of its point; the walker's records are
    checked as well.
    """

    def step(rng, i):
        x, value = lattice.points[i], lattice.log_density[i]
        group = Walkers([rng], x[None], np.array([value]))
        proposal = propose(rng, x)
        asked = requested([proposal], len(x))
        assert len(asked) == proposal.moved
        stats = group.decide([proposal], lattice.values(asked))
        j = lattice.index(group.x[0])
        assert j is not None and group.log_density[0] == lattice.log_density[j]
        np.testing.assert_array_equal(group.x[0], proposal.position if stats["accepted"][0] else x)
        assert stats["n_evaluations"][0] == len(asked) >= stats["accepted"][0]
        return j

    return step


def check_plan(lattice: Lattice, **options) -> None:
    """``ProposalMixture.propose`` and ``Walkers.decide``: the target is stationary, a step
    reversible.
    """
    moves, dim = plan(lattice, **options), lattice.points.shape[1]
    with without_the_compiler():
        step = walker_step(lattice, lambda rng, x: moves.propose([rng], [x])[0])
        matrix = transition_matrix(step, len(lattice.points), nodes(dim))
    assert_stationary(matrix, lattice.mass())


def check_evolution(lattice: Lattice) -> None:
    """The same of differential evolution alone."""
    moves, dim = plan(lattice), lattice.points.shape[1]

    def propose(rng, x):
        return differential_evolution(rng, x, moves.others[-1].archive, scale=1.0)

    matrix = transition_matrix(walker_step(lattice, propose), len(lattice.points), nodes(dim))
    assert_stationary(matrix, lattice.mass())


class _CenterFirst(ForkingGenerator):
    """Draws the first point of an archive as the center of every snooker."""

    def choice(self, count, size, replace):
        return np.append(0, 1 + super().choice(count - 1, size - 1, replace))


def check_snooker_on_rays(dim: int, move=None) -> None:
    """A snooker whose center is the origin, on the points ±1 .. ±4 of a line through it.

    Each of them stands for the cell of a polar grid, whose volume grows as |x|^(d-1): the
    stationary mass is p(x) times that. The archive's differences are even along the line, so that γ
    of 3/2 and 2 make integer steps.
    """
    t = np.array([-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0])
    rng = np.random.default_rng(dim)
    ray = Lattice(
        np.hstack([t[:, None], np.zeros((len(t), dim - 1))]), rng.normal(0.0, 1.0, len(t))
    )
    archive = np.vstack([np.zeros(dim), rng.integers(-2, 3, (3, dim))])
    archive[1:, 0] = [0, 2, 4]

    def propose(rng, x):
        return (move or snooker)(rng, x, archive)

    matrix = transition_matrix(
        walker_step(ray, propose), len(t), {(1.2, 2.2): (1.5, 2.0)}, _CenterFirst
    )
    assert_stationary(matrix, ray.mass() * np.abs(t) ** (dim - 1))


def check_volumes(move, dim: int) -> None:
    """The move is a map x -> x' drawn independently of x: its log_ratio is log |det ∂x'/∂x| (Green
    1995).

    The derivatives are central differences with steps of 1e-5: their error, and that of a
    determinant of them, is about 1e-9 times the curvature of the map, which is at most (distance /
    distance to the center)² here.
    """
    rng = np.random.default_rng(dim)
    archive, h = 2.0 * rng.standard_normal((8, dim)), 1e-5
    for seed in range(40):
        x = rng.standard_normal(dim)
        ends = [
            [
                move(np.random.default_rng(seed), x + sign * h * e, archive).position
                for e in np.eye(dim)
            ]
            for sign in (1, -1)
        ]
        jacobian = (np.array(ends[0]) - np.array(ends[1])) / (2 * h)
        volume = np.linalg.slogdet(jacobian)[1]
        log_ratio = move(np.random.default_rng(seed), x, archive).log_ratio
        np.testing.assert_allclose(log_ratio, volume, rtol=0, atol=1e-5)


# Proposals with a density


class _Given:
    """A generator with given normal numbers, and the middle of each interval."""

    def __init__(self, normals):
        self._normals = iter(normals)

    def standard_normal(self, size: int) -> np.ndarray:
        """The next of them."""
        normal = next(self._normals)
        assert normal.shape == (size,)
        return normal

    def uniform(self, low: float, high: float) -> float:
        """The middle."""
        return 0.5 * (low + high)


def check_densities(lattice: Lattice, propose, density, normals) -> None:
    """A continuous proposal, as far as its density and acceptance are concerned: pairs of points on
    the lattice.

    From point i, point j is proposed with probability h q(x_j | x_i), for a cell of volume h; other
    proposals are outside, where the density is zero. The target is stationary if the acceptance has
    the right densities.

    Parameters
    ----------
    propose : callable
        (rng, x) -> Proposal, the code under test.
    density : callable
        (x, y) -> q(y | x), by an independent computation.
    normals : callable
        (x, y) -> list of ndarray, the standard normal numbers with which ``propose`` goes from x to
        y.
    """
    q = np.array([[density(x, y) for y in lattice.points] for x in lattice.points])
    q *= 0.9 / q.sum(axis=1).max()

    def step(rng, i):
        x = lattice.points[i]
        j = rng.fork(np.append(q[i], 1.0 - q[i].sum()))
        if j == len(lattice.points):
            return i
        proposal = propose(_Given(normals(x, lattice.points[j])), x)
        np.testing.assert_allclose(proposal.position, lattice.points[j], atol=1e-9)
        group = Walkers([rng], x[None], lattice.log_density[i : i + 1])
        accepted = group.decide([proposal], lattice.log_density[j : j + 1])["accepted"]
        return j if accepted[0] else i

    assert_stationary(transition_matrix(step, len(lattice.points), {}), lattice.mass())


def check_independence() -> None:
    """The Student-t proposal of adaptive Metropolis."""
    lattice = grid()
    root = np.array([[1.3, 0.0], [0.5, 0.8]])
    proposer = LearnedMixture(
        AdaptiveMetropolis(), lattice.points, spread=np.ones(2), rng=np.random.default_rng(0)
    )
    proposer.moments.mean, proposer.moments.root = np.array([1.2, 0.7]), root
    law = stats.multivariate_t(proposer.moments.mean, root @ root.T, df=5)

    def normals(_, y):
        return [np.linalg.solve(root, y - proposer.moments.mean), np.ones(5)]

    check_densities(lattice, proposer._independent, lambda _, y: law.pdf(y), normals)


def check_kameleon() -> None:
    """A covariance that depends on the state, with the densities of both directions from its
    transcription.
    """
    lattice = grid()
    z, scale, settings = (
        np.random.default_rng(6).standard_normal((12, 2)) + 1.0,
        np.array([2.0, 0.7]),
        (0.9, 0.4, 0.8),
    )
    proposer = KameleonProposer(Kameleon(gamma=settings[1]), np.ones(2), np.random.default_rng(0))
    proposer._subsample = Subsample(z, scale, bandwidth=settings[0], unit=settings[2])

    def density(x, y):
        return np.exp(kameleon.log_proposal(y / scale, x / scale, z, *settings))

    def normals(x, y):
        root = np.linalg.cholesky(kameleon.covariance(x / scale, z, *settings))
        return [np.linalg.solve(root, (y - x) / scale)]

    check_densities(lattice, proposer.propose, density, normals)


def check_random_walk() -> None:
    """``GaussianSteps``: steps of one covariance from every state."""
    lattice, scale = grid(), np.array([1.3, 0.8])
    proposer = GaussianSteps(scale, None)

    def density(x, y):
        return stats.multivariate_normal(x, np.diag(scale**2)).pdf(y)

    check_densities(lattice, proposer.propose, density, lambda x, y: [(y - x) / scale])


def check_score_paths() -> None:
    """``ScoreMixture``: a path of one leapfrog step along a gradient that belongs to another
    density.
    """
    lattice, step_size = grid(), 0.9
    whitening = Whitening.of(np.array([1.0, 0.5]), np.array([[0.8, 0.1], [0.0, 1.1]]))
    score = GaussianScore().fit(
        np.random.default_rng(3).standard_normal((50, 2)) @ np.diag([0.7, 2.0])
    )
    mixture = ScoreMixture(Field.of(score, whitening, in_z=True), whitening, 0.1, step_size / 0.85)

    def mean(x):
        z = whitening(x[None])
        return z[0] + 0.5 * step_size**2 * score.gradient(z)[0]

    def density(x, y):
        return stats.multivariate_normal(mean(x), step_size**2 * np.eye(2)).pdf(
            whitening(y[None])[0]
        )

    def propose(rng, x):
        rng.random, rng.integers = lambda: 0.5, lambda low, high: 1  # a path, of one step
        return mixture.propose(rng, x)

    check_densities(
        lattice, propose, density, lambda x, y: [(whitening(y[None])[0] - mean(x)) / step_size]
    )


def check_langevin() -> None:
    """A Langevin step along a gradient that belongs to another density."""
    lattice, step_size = grid(), 0.9
    whitening = Whitening.of(np.array([1.0, 0.5]), np.array([[0.8, 0.1], [0.0, 1.1]]))
    score = GaussianScore().fit(
        np.random.default_rng(3).standard_normal((50, 2)) @ np.diag([0.7, 2.0])
    )
    learned = Learned(Field.of(score, whitening, in_z=True), None)

    def mean(x):
        z = whitening(x[None])
        return z[0] + 0.5 * step_size**2 * score.gradient(z)[0]

    def density(x, y):
        return stats.multivariate_normal(mean(x), step_size**2 * np.eye(2)).pdf(
            whitening(y[None])[0]
        )

    def propose(rng, x):
        return langevin(learned, x, rng.standard_normal(2), step_size=step_size)

    check_densities(
        lattice, propose, density, lambda x, y: [(whitening(y[None])[0] - mean(x)) / step_size]
    )


class Bent:
    """A gradient and, as its Hessian, a matrix that has nothing to do with it."""

    def fit(self, X):
        return self

    def gradient(self, X):
        return np.column_stack([np.sin(X[:, 1]) - X[:, 0], -0.5 * X[:, 1]])

    def hessian(self, X):
        a, b = np.sin(X[:, 0]), np.cos(X[:, 0] + X[:, 1])
        return np.moveaxis(np.array([[1.5 + a, 0.4 * b], [0.4 * b, -1.0 - 0.5 * a * b]]), 2, 0)


def check_riemannian() -> None:
    """A Langevin step whose covariance depends on the position."""
    lattice, step_size = grid(), 0.9
    whitening = Whitening.of(np.array([1.0, 0.5]), np.array([[0.8, 0.1], [0.0, 1.1]]))
    learned = Learned(Field.of(Bent(), whitening, in_z=True), None)

    def moments(x):
        z = whitening(x[None])
        curvatures, vectors = np.linalg.eigh(Bent().hessian(z)[0])
        covariance = (vectors / np.clip(np.abs(curvatures), 0.1, 10.0)) @ vectors.T
        return z[0] + 0.5 * step_size**2 * covariance @ Bent().gradient(z)[0], covariance

    def density(x, y):
        mean, covariance = moments(x)
        return stats.multivariate_normal(mean, step_size**2 * covariance).pdf(whitening(y[None])[0])

    def normals(x, y):
        mean, covariance = moments(x)
        values, vectors = np.linalg.eigh(covariance)
        return [
            (vectors / np.sqrt(values)) @ vectors.T @ (whitening(y[None])[0] - mean) / step_size
        ]

    def propose(rng, x):
        return riemannian(learned, x, rng.standard_normal(2), step_size=step_size)

    check_densities(lattice, propose, density, normals)


def check_screening() -> None:
    """Delayed acceptance by another density, around jumps on the lattice that are not symmetric."""
    lattice = line()
    known = np.random.default_rng(9).normal(0.0, 1.0, 40)

    class Jumps:
        def propose(self, rng, x):
            right = rng.random() < 0.7
            return Proposal(
                x + (1.0 if right else -1.0), float(np.log(0.3 / 0.7)) * (1 if right else -1), 0
            )

    class Known:
        def log_density(self, x):
            return known[int(np.rint(x[0]))]

    proposer = ScreenedProposer(Jumps(), SimpleNamespace(learned=Known()))
    matrix = transition_matrix(walker_step(lattice, proposer.propose), len(lattice.points), {})
    # the density of zero in the middle separates the two sides
    flow = lattice.mass()[:, None] * matrix
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=EXACT)
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=EXACT)
    assert np.trace(matrix) < 0.95 * len(matrix)


def setup_on(lattice: Lattice) -> SamplerSetup:
    """Of one chain, without warm-up."""
    return SamplerSetup(
        dim=1,
        chains=1,
        initial=lattice.points,
        initial_log_density=lattice.log_density,
        draws=10,
        warmup=0,
        max_evaluations=None,
        seed=np.random.SeedSequence(1),
    )


# Parallel tempering


class Jumps:
    """Symmetric jumps of one or two points on a line, and what a proposer has besides."""

    def propose(self, rng, x):
        return Proposal(x + (-2.0, -1.0, 1.0, 2.0)[rng.integers(4)], 0.0, 0)

    def learn(self, moved, sweep):
        raise AssertionError("frozen")


class Jumping:
    """A sampler of such jumps."""

    def _start(self, setup):
        return AdaptingState(setup, walkers_of(setup), [Jumps()], freeze=True, warmup=0)


def check_tempering(size: int, betas: tuple[float, ...], moves: bool, apart: bool) -> None:
    """``TemperedState``: the joint mass of all temperatures is stationary, by swaps alone and by
    whole sweeps.

    A state is a tuple of points on a line, one for each temperature.
    """
    lattice, n = line(size), len(betas)
    prior = np.random.default_rng(8).normal(0.0, 1.5, size) * apart
    setup = setup_on(lattice)._replace(initial_log_prior=prior if apart else None)
    process = TemperedState(setup, Jumping(), TemperatureLadder(tuple(1 / np.array(betas)), 1))

    def log_prior(points):
        return (
            np.array([0.0 if (i := lattice.index(x)) is None else prior[i] for x in points])
            if apart
            else None
        )

    def step(rng, joint):
        one = copy.deepcopy(process)
        one._rng = rng
        for k, i in enumerate(np.unravel_index(joint, (size,) * n)):
            one.log_density[k], one.log_prior[k] = lattice.log_density[i], prior[i]
            walkers = one.levels[k].walkers
            walkers.x[0], walkers.rngs = lattice.points[i], [rng]
            walkers.log_density[0] = prior[i] + betas[k] * (lattice.log_density[i] - prior[i])
        if moves:
            points = one.propose()
            record = one.advance(lattice.values(points), log_prior(points))
            at = lattice.index(record.position[0])
            assert (
                record.log_density[0] == lattice.log_density[at]
                and record.stats["n_evaluations"][0] == n
            )
        else:
            one.swap()
        ends = [lattice.index(level.walkers.x[0]) for level in one.levels]
        for k, j in enumerate(ends):
            assert (
                one.log_density[k, 0] == lattice.log_density[j] and one.log_prior[k, 0] == prior[j]
            )
            expected = prior[j] + betas[k] * (lattice.log_density[j] - prior[j])
            np.testing.assert_allclose(one.levels[k].walkers.log_density[0], expected, rtol=1e-12)
        return int(np.ravel_multi_index(ends, (size,) * n))

    mass = np.ones(1)
    for beta in betas:
        inside = np.isfinite(lattice.log_density)
        own = np.where(
            inside, np.exp(prior + beta * (np.where(inside, lattice.log_density, 0.0) - prior)), 0.0
        )
        mass = np.outer(mass, own).ravel()
    starts = np.flatnonzero(mass > 0)
    matrix = np.zeros((len(mass), len(mass)))
    for i in starts:
        for probability, j in outcomes(lambda rng, i=i: step(rng, i)):
            matrix[i, j] += probability
    matrix, mass = matrix[np.ix_(starts, starts)], mass[starts] / mass.sum()
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=EXACT)
    np.testing.assert_allclose(mass @ matrix, mass, rtol=0, atol=EXACT)
    assert np.trace(matrix) < 0.95 * len(matrix)
    if moves:
        assert_stationary(matrix, mass, reversible=False)  # moves, then swaps: each is reversible
    else:
        flow = mass[:, None] * matrix
        np.testing.assert_allclose(flow, flow.T, rtol=0, atol=EXACT)


# A whole process


class Biased:
    """A user's move on a line: to the right more often than to the left."""

    right = 0.7

    def propose(self, rng, position, archive):
        """As ``kmc.moves.Move``."""
        sign = 1.0 if rng.random() < self.right else -1.0
        return position + sign, sign * float(np.log((1 - self.right) / self.right))


FROM_OUTSIDE = ((Biased(), 0.3), (DifferentialEvolution(1.0), 0.2), (Snooker(), 0.1))
"""Moves that stay on the integers, with the nodes above."""


def frozen_process(
    lattice: Lattice, mixture: ProposalMixture, gradients: Any = None, moves: Any = ()
):
    """A kernel-HMC process of one chain after the shortest possible warm-up, with a plan of our
    own.
    """
    first = lattice.points[:1]
    setup = SamplerSetup(
        dim=first.shape[1],
        chains=1,
        initial=first,
        initial_log_density=lattice.values(first),
        draws=10,
        warmup=1,
        max_evaluations=None,
        seed=np.random.SeedSequence(1),
    )
    process = KernelHMC(gradients=gradients, moves=moves).start(setup)
    while process.warming_up:
        process.advance(np.zeros(len(process.propose())))
    process.mixture = mixture
    return process


def check_process(
    lattice: Lattice,
    gradients: Any = None,
    moves: Any = (),
    modes: Modes | None = None,
    cells: Any = 1.0,
    **options,
) -> None:
    """``KernelHMCState`` after the freeze: a chain depends on its own state only.

    Before the enumerated step the chain is made to stay where it is. If that changes how it moves,
    its moves depend on its state in a way that the acceptance does not account for, and the target
    is not stationary. A point stands for a cell, the volumes of which are ``cells`` (n,).
    """
    mixture = plan(lattice, **options)
    (archive_moves,) = mixture.others
    others = [UserMoves(moves, archive_moves.archive)] if moves else []
    others += [ModeJumps(modes, KernelHMC().mode_jump_probability)] if modes is not None else []
    process = frozen_process(
        lattice, mixture._replace(others=(*others, archive_moves)), gradients, moves
    )

    def step(rng, i):
        one = copy.copy(process)
        one.walkers = Walkers(
            [np.random.default_rng(i)], lattice.points[i : i + 1], lattice.log_density[i : i + 1]
        )
        one.advance(np.full(len(one.propose()), -np.inf))
        one.walkers.rngs = [rng]
        record = one.advance(lattice.values(one.propose()))
        j = lattice.index(record.position[0])
        assert (
            j is not None and record.log_density[0] == lattice.log_density[j] and not record.warmup
        )
        return j

    with without_the_compiler():
        matrix = transition_matrix(step, len(lattice.points), nodes(lattice.points.shape[1]))
    assert_stationary(matrix, lattice.mass() * cells)


def check_mode_jumps() -> None:
    """Jumps among three modes, one of them twice as wide, beside the other moves, which do not go
    so far.

    Each point of the wide mode stands for a cell twice as large.
    """
    centers, widths = np.array([0.0, 10.0, 25.0]), np.array([1.0, 1.0, 2.0])
    points = (centers[:, None] + widths[:, None] * np.array([-1.0, 0.0, 1.0, 2.0])).reshape(-1, 1)
    lattice = Lattice(points, np.random.default_rng(4).normal(0.0, 1.0, len(points)))
    modes = Modes(centers[:, None], widths[:, None, None], np.log(widths))
    near = on_points(plan(lattice).surrogate.coordinates(points[:4]))
    check_process(lattice, modes=modes, cells=np.repeat(widths, 4), mixture=near)


# A noisy target

NOISE = np.array([-2.0, -0.5, 1.0])
NOISE_SHARES = np.array([0.25, 0.5, 0.25])
NOISE = NOISE - np.log(NOISE_SHARES @ np.exp(NOISE))  # the estimate exp(log p + noise) is unbiased


def check_noisy_target() -> None:
    """Estimates that are kept with their state: the joint mass is p(x) g(w) e^w, and so p(x)
    without the noise w.

    Andrieu and Roberts (2009), "The pseudo-marginal approach for efficient Monte Carlo
    computations", Annals of Statistics 37. A state is a point and the noise of its estimate.
    """
    lattice = line()
    points, archive = (
        lattice.points[np.isfinite(lattice.log_density)],
        np.array([[1.0], [2.0], [4.0]]),
    )
    lattice = Lattice(points, lattice.values(points))
    levels = len(NOISE)

    def step(rng, state):
        i, level = divmod(state, levels)
        group = Walkers([rng], points[i : i + 1], lattice.log_density[i : i + 1] + NOISE[level])
        proposal = differential_evolution(rng, points[i], archive, scale=1.0)
        group.decide(
            [proposal], np.array([lattice.value(proposal.position) + NOISE[rng.fork(NOISE_SHARES)]])
        )
        j = lattice.index(group.x[0])
        return j * levels + int(
            np.argmin(np.abs(group.log_density[0] - lattice.log_density[j] - NOISE))
        )

    matrix = transition_matrix(step, len(points) * levels, nodes(1))
    joint = lattice.mass()[:, None] * NOISE_SHARES * np.exp(NOISE)
    np.testing.assert_allclose(joint.sum(axis=1), lattice.mass(), rtol=1e-14)
    assert_stationary(matrix, joint.ravel())


def to_five(log_ratio: float, **options) -> Proposal:
    """A proposal to go to (5, 5)."""
    return Proposal(np.full(2, 5.0), log_ratio, 1, **options)
