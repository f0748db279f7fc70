"""Extensions without editing the package: each is defined here, from outside, in a few lines."""

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

import kmc
from kmc.bases import Basis
from kmc.kernels import Gaussian, Kernel, Matern52, register_kernel
from kmc.model.evaluate import evaluate_block
from kmc.model.parameters import Parameter
from kmc.run.store.base import NullRecorder
from kmc.samplers.base import STATS, SamplerSetup, Step
from kmc.scores.base import ScoreEstimator

pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
QUICK = {
    "sampler": "random-walk",
    "draws": 30,
    "warmup": 10,
    "chains": 2,
    "seed": 1,
    "progress": False,
}


def log_density(x):
    return -0.5 * float(x @ x)


# A basis, with the methods that are needed and no others


class Squares(Basis):
    """x_i²."""

    size = 2

    def values(self, x):
        return x**2

    def gradients(self, x):
        return 2.0 * x[:, :, None] * np.eye(2)


class SquaresByTheirMethods:
    """The same, of no class of kmc."""

    size, values, gradients = 2, Squares.values, Squares.gradients


@pytest.mark.parametrize(
    "basis", [Squares(), SquaresByTheirMethods()], ids=["subclass", "methods alone"]
)
def test_a_basis(basis):
    x = np.random.default_rng(0).standard_normal((200, 2))
    fit = kmc.regression.HermiteRegression(basis=basis, regularization=0.0)
    fit.fit(x, 1.0 + x[:, 0] ** 2 - x[:, 1] ** 2, 2.0 * x * [1.0, -1.0])
    np.testing.assert_allclose(fit.gradient([[1.0, 2.0]]), [[2.0, -4.0]], rtol=1e-5)
    found = kmc.spectral.galerkin(kmc.spectral.DirichletForm(), basis, None, x)
    # of E |∇φ_1|² = 4 E x_1², E φ_1 φ_2 and the rest nothing is fused
    power = np.mean(x[:, 0] ** 2)
    np.testing.assert_allclose(
        kmc.forms.accumulate(basis, x, ("dirichlet",)).dirichlet[0, 0], 4 * power * len(x)
    )
    assert found.eigenvalues_.shape == (2,)
    with pytest.raises(TypeError, match="has no laplacians"):
        kmc.forms.accumulate(basis, x, ("linear",))


# A kernel by name


def test_a_kernel_by_name():
    register_kernel(
        "rougher", lambda bandwidth=1.0: Gaussian(bandwidth) + 0.1 * Matern52(bandwidth)
    )
    x = np.random.default_rng(0).standard_normal((60, 2))
    named = kmc.scores.LiteKEF(kernel="rougher", bandwidth=2.0, n_basis=10, random_state=0).fit(x)
    given = kmc.scores.LiteKEF(
        kernel=Gaussian() + 0.1 * Matern52(), bandwidth=2.0, n_basis=10, random_state=0
    ).fit(x)
    np.testing.assert_allclose(named.gradient(x), given.gradient(x), rtol=1e-10)
    with pytest.raises(ValueError, match="'gaussian' is a kernel of kmc: choose another name"):
        register_kernel("gaussian", Matern52)
    with pytest.raises(TypeError, match="expected a string and a callable"):
        register_kernel("mine", 3)


@dataclass(frozen=True)
class Logistic(Kernel):
    """1 / (1 + s / bandwidth²), by its own derivatives."""

    bandwidth: float = 1.0
    kind = "distance"

    def derivatives(self, u, order=2):
        rate = self.bandwidth**-2
        base, factors = 1.0 / (1.0 + rate * u), (1.0, -1.0, 2.0, -6.0, 24.0)
        return tuple(factors[k] * rate**k * base ** (k + 1) for k in range(order + 1))


def test_a_kernel_of_new_formulas():
    register_kernel("logistic", Logistic)
    x = np.random.default_rng(1).standard_normal((300, 1))
    fit = kmc.scores.NystromKEF(
        kernel="logistic", bandwidth=3.0, regularization=1e-4, n_basis=20, random_state=0
    ).fit(x)
    assert np.corrcoef(fit.gradient(x)[:, 0], -x[:, 0])[0, 1] > 0.9


# An estimator


class Smoothed:
    """The mean of Gaussians of one width around the samples."""

    def __init__(self, centers, width):
        self.centers, self.width = centers, width

    def pulls(self, x):
        z = (self.centers - x[:, None]) / self.width**2
        return z, -0.5 * self.width**2 * np.sum(z**2, axis=2)

    def log_density(self, x):
        return logsumexp(self.pulls(x)[1], axis=1)

    def gradient(self, x):
        z, heights = self.pulls(x)
        return np.einsum("nk,nkd->nd", softmax(heights, axis=1), z)

    def laplacian(self, x):
        z, heights = self.pulls(x)
        square = np.einsum("nk,nkd->n", softmax(heights, axis=1), z**2)
        return square - np.sum(self.gradient(x) ** 2, axis=1) - x.shape[1] / self.width**2


class KernelDensityScore(ScoreEstimator):
    def __init__(self, width=0.5):
        self.width = width

    def _fit(self, samples):
        self.samples_, self.density_ = samples.x, Smoothed(samples.x, self.width)

    def _extend(self, block):
        self._fit(block._replace(x=np.vstack([self.samples_, block.x])))


def test_an_estimator():
    """Of N(0, I) it estimates N(0, 1.25 I); its derivatives are those of its log-density, and
    blocks are added.
    """
    x = np.random.default_rng(0).standard_normal((800, 2))
    whole, parts = (
        KernelDensityScore().fit(x),
        KernelDensityScore().fit(x[:500]).partial_fit(x[500:]),
    )
    at, step = np.array([[1.0, 0.0], [0.3, -0.8]]), 1e-4 * np.eye(2)
    np.testing.assert_allclose(parts.gradient(at), whole.gradient(at), rtol=1e-12)
    np.testing.assert_allclose(whole.gradient(at), -at / 1.25, atol=0.25)
    rises = [(whole.log_density(at + h) - whole.log_density(at - h)) / 2e-4 for h in step]
    np.testing.assert_allclose(whole.gradient(at), np.transpose(rises), atol=1e-6)
    bends = [
        (whole.gradient(at + h) - whole.gradient(at - h))[:, i] / 2e-4 for i, h in enumerate(step)
    ]
    np.testing.assert_allclose(whole.laplacian(at), np.sum(bends, axis=0), atol=1e-6)
    idata = kmc.sample(
        log_density,
        dim=2,
        **(QUICK | {"sampler": kmc.ScoreHMC(KernelDensityScore()), "warmup": 250}),
    )
    assert idata.posterior.sizes["draw"] == 30 and idata.attrs["n_refits"] > 0


# A move


class Reflection:
    """Through a random archived state: x -> 2 a - x, as likely as back."""

    def propose(self, rng, position, archive):
        return 2.0 * archive[rng.integers(len(archive))] - position, 0.0


def test_a_move():
    kmc.testing.check_move(Reflection())
    sampler = kmc.KernelHMC(moves=[(Reflection(), 0.3)])
    idata = kmc.sample(log_density, dim=2, **(QUICK | {"sampler": sampler, "warmup": 100}))
    move = idata.sample_stats["move"]
    assert np.any(move.values == move.attrs["flag_meanings"].split().index("Reflection"))


# A parameter with its transform


class Negation:
    """x -> -exp(x): the negative numbers."""

    unconstrained_shape = shape = ()
    support = "negative numbers"

    def constrain(self, x):
        return -np.exp(x)

    def unconstrain(self, y):
        return np.log(-np.asarray(y))

    def log_jacobian(self, x):
        return np.array(x, dtype=float)

    def contains(self, y):
        return np.asarray(y) < 0


@dataclass(frozen=True)
class Negative(Parameter):
    shape: Any = None

    @property
    def transform(self):
        return Negation()


def test_a_parameter_with_its_transform():
    # minus an exponential variable
    model = kmc.Model(lambda p: p["debt"], parameters={"debt": Negative()})
    debt = kmc.sample(model, **(QUICK | {"draws": 3000, "warmup": 200})).posterior["debt"].values
    # some 300 effective draws: .06
    assert np.all(debt < 0) and np.mean(debt) == pytest.approx(-1.0, abs=0.2)


# An executor


class Counting:
    """Evaluates in blocks, and counts them."""

    def __init__(self):
        self.blocks = 0

    @contextmanager
    def open(self, model):
        def mapper(points):
            self.blocks += 1
            return evaluate_block(model, points)

        yield mapper


def test_an_executor():
    executor = Counting()
    idata = kmc.sample(log_density, dim=2, executor=executor, **QUICK)
    np.testing.assert_array_equal(
        idata.posterior["x"], kmc.sample(log_density, dim=2, **QUICK).posterior["x"]
    )
    assert executor.blocks > 30


# A store


class Memory:
    """Keeps every evaluation of a run."""

    def recorder(self, request):
        self.points, self.finished, memory = [], None, self

        class Recorder(NullRecorder):
            def keep(self, points, evaluations):
                memory.points += [
                    (*point, evaluation.value) for point, evaluation in zip(points, evaluations)
                ]

            def finish(self, result):
                memory.finished = result

        return Recorder()


def test_a_store():
    memory = Memory()
    idata = kmc.sample(log_density, dim=2, store=memory, **QUICK)
    assert len(memory.points) == idata.attrs["n_evaluations"] and memory.finished is idata
    x, values = np.array(memory.points)[:, :2], np.array(memory.points)[:, 2]
    np.testing.assert_allclose(values, -0.5 * np.sum(x**2, axis=1))


# A sampler


@dataclass(frozen=True)
class HitAndRest:
    """Independent proposals; every third sweep costs no evaluation, every fourth makes no draw."""

    name = "hit-and-rest"
    moves = ("hit", "rest")

    def start(self, setup: SamplerSetup):
        return HitAndRestState(setup)


class HitAndRestState:
    warming_up = False

    def __init__(self, setup):
        self.rng, self.sweep = np.random.default_rng(setup.seed), 0
        self.x, self.values = (
            setup.initial[: setup.chains].copy(),
            setup.initial_log_density[: setup.chains].copy(),
        )

    def propose(self):
        self.rests = self.sweep % 3 == 2
        self.new = 2.0 * self.rng.standard_normal(self.x.shape)
        return self.new[:0] if self.rests else self.new

    def advance(self, values):
        self.sweep += 1
        accepted = np.zeros(len(self.x), bool)
        if not self.rests:
            change = (
                values - self.values + (np.sum(self.new**2, axis=1) - np.sum(self.x**2, axis=1)) / 8
            )
            accepted = np.log(self.rng.random(len(self.x))) < change
            self.x[accepted], self.values[accepted] = self.new[accepted], values[accepted]
        if self.sweep % 4 == 0:
            return None
        stats = {name: np.zeros(len(self.x), dtype) for name, dtype in STATS.items()}
        stats |= {"accepted": accepted, "move": np.full(len(self.x), self.rests, np.int8)}
        stats["n_evaluations"] += 0 if self.rests else 300  # as a sampler may spend
        return Step(False, self.x.copy(), self.values.copy(), stats)

    def report(self):
        return {}


def test_a_sampler(tmp_path):
    options = {"draws": 600, "chains": 4, "seed": 2, "progress": False}
    run = lambda **more: kmc.sample(log_density, dim=2, sampler=HitAndRest(), **options, **more)  # noqa: E731
    idata = run(store=tmp_path / "run.zarr")
    move, cost = idata.sample_stats["move"], idata.sample_stats["n_evaluations"].values
    assert move.attrs["flag_meanings"] == "hit rest"
    np.testing.assert_array_equal(np.unique(move), [0, 1])
    np.testing.assert_array_equal(cost, np.where(move == 0, 300, 0))  # which an int8 does not hold
    # the start alone is no draw
    assert idata.attrs["n_evaluations_warmup"] < 100 < idata.attrs["n_evaluations"]
    # 1,200 effective draws: a standard error of .03
    assert abs(float(idata.posterior["x"].mean())) < 0.15
    assert kmc.load(tmp_path / "run.zarr").sample_stats["move"].attrs["flag_meanings"] == "hit rest"
