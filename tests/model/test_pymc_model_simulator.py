"""Black boxes in PyMC models: their outputs are learned, and the rest is known."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import stats

import kmc
from kmc.model.evaluate import evaluate_point
from kmc.run.structure import structured
from kmc.surrogate.emulator.jit_state import log_densities

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pm = pytest.importorskip("pymc")

import pytensor
import pytensor.tensor as pt
from pytensor.graph.op import Op

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS", "ignore::FutureWarning"),
    pytest.mark.packages,
]

TIMES = np.linspace(0.1, 2.0, 7)
DATA = np.array([1.0, 0.8, 0.6, 0.4, 0.3, 0.3, 0.2])
COUNTS = np.array([3, 1, 2, 0, 1, 0, 0])
QUICK = "FAST_COMPILE"


@pytest.fixture(autouse=True)
def quick_compilation():
    with pytensor.config.change_flags(mode=QUICK):
        yield


class Decay(Op):
    """start exp(-rate t), without a gradient."""

    itypes = (pt.dscalar, pt.dscalar)
    otypes = (pt.dvector,)

    def __init__(self):
        self.n_runs = 0

    def perform(self, node, inputs, outputs):
        self.n_runs += 1
        start, rate = inputs
        outputs[0][0] = start * np.exp(-rate * TIMES)


DISTRIBUTIONS = {
    "normal": lambda y, scale: pm.Normal("y", y, scale, observed=DATA),
    "two": lambda y, scale: (
        pm.Normal("y", 2.0 * y, 0.3, observed=DATA), pm.Poisson("n", y, observed=COUNTS)
    ),
    "known sd": lambda y, scale: pm.Normal("y", y, np.linspace(0.1, 0.2, 7), observed=DATA),
    "log-normal": lambda y, scale: pm.LogNormal("y", pt.log(y), scale, observed=DATA),
    "student": lambda y, scale: pm.StudentT("y", nu=4.0, mu=y, sigma=scale, observed=DATA),
    "degrees of freedom": lambda y, scale: (
        pm.StudentT("y", nu=scale, mu=y, sigma=0.2, observed=DATA)
    ),
    "poisson": lambda y, scale: pm.Poisson("y", 3.0 * y, observed=COUNTS),
    "negative binomial": lambda y, scale: (
        pm.NegativeBinomial("y", mu=y, alpha=scale, observed=COUNTS)
    ),
    "binomial": lambda y, scale: (
        pm.Binomial("y", n=np.arange(4, 11), p=y / (1.0 + y), observed=COUNTS)
    ),
    "bernoulli": lambda y, scale: pm.Bernoulli("y", p=y / (1.0 + y), observed=COUNTS > 0),
    "one output": lambda y, scale: pm.Normal("y", y[0], scale, observed=DATA),
    "other data": lambda y, scale: (
        pm.Normal("y", y, 0.3, observed=DATA),
        pm.Exponential("z", scale, observed=np.array([0.5, 1.5])),
    ),
}  # fmt: skip
OTHERS = {
    "censored": lambda y, scale: (
        pm.Censored("y", pm.Normal.dist(y, scale), lower=0.25, upper=None, observed=DATA)
    ),
    "two errors": lambda y, scale: (
        pm.Normal("y", y, pt.sqrt(scale**2 + (0.1 * y) ** 2), observed=DATA)
    ),
    "gamma": lambda y, scale: pm.Gamma("y", mu=y, sigma=scale, observed=DATA),
    "potential": lambda y, scale: pm.Potential("y", -pt.sum((y - DATA) ** 2) / scale),
    "and a potential": lambda y, scale: (
        pm.Normal("y", y, scale, observed=DATA), pm.Potential("late", -y[-1] ** 2)
    ),
    "prior": lambda y, scale: pm.Normal("y", pm.Normal("mean", y[0], 1.0), 1.0, observed=DATA),
    "no black box": lambda y, scale: pm.Normal("y", scale, 1.0, observed=DATA),
}  # fmt: skip


def build(distribution, op=None, **priors):
    with pm.Model() as model:
        start = pm.HalfNormal("start", 2.0)
        rate = pm.Uniform("rate", 0.1, 3.0)
        scale = pm.Gamma("scale", 2.0, 4.0)
        distribution((op or Decay())(start, rate), scale)
    return model


def evaluated(model, points):
    found = [evaluate_point(model, x) for x in points]
    return np.array([one.log_density for one in found]), structured(model).outputs(
        [one.blobs for one in found]
    )


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_structure_is_the_log_density(name):
    model = kmc.from_pymc(build(DISTRIBUTIONS[name]))
    points = np.random.default_rng(1).normal(0.0, 0.8, (20, model.dim))
    values, eta = evaluated(model, points)
    known = structured(model)
    assert np.isfinite(values).all() and known.holds(points, values, eta)
    np.testing.assert_allclose(
        log_densities(known.structure, points, eta), values, rtol=2e-3, atol=2e-3
    )


@pytest.mark.parametrize("name", OTHERS)
def test_other_models_are_learned_by_their_log_density(name):
    model = kmc.from_pymc(build(OTHERS[name]))
    assert structured(model) is None
    assert isinstance(model.call(np.zeros(model.dim)), float)


def test_priors_that_depend_on_each_other_are_not_known():
    with pm.Model() as theirs:
        start = pm.HalfNormal("start", 2.0)
        rate = pm.HalfNormal("rate", start)
        pm.Normal("y", Decay()(start, rate), 0.1, observed=DATA)
    assert structured(kmc.from_pymc(theirs)) is None


def test_transforms_and_arrays():
    """Scales with an upper bound, between bounds, and an array for each of two groups."""
    with pm.Model() as theirs:
        start = pm.Normal("start", 100.0, 10.0)
        share = pm.Beta("share", 2.0, 2.0)
        errors = pm.HalfNormal("errors", 1.0, shape=7)
        below = pm.Truncated("below", pm.Normal.dist(0.0, 2.0), upper=3.0)
        between = pm.Uniform("between", 0.5, 2.0)
        above = pm.Pareto("above", 3.0, 0.5)
        y = Decay()(start, share)
        pm.Normal("y", 0.01 * y, errors, observed=DATA)
        pm.Normal("z", 0.01 * y, between, observed=DATA)
        pm.StudentT("u", nu=above, mu=y - below, sigma=share, observed=DATA)
    model = kmc.from_pymc(theirs)
    points = np.random.default_rng(2).normal(0.0, 0.5, (20, model.dim)) + model.space.start
    values, eta = evaluated(model, points)
    known = structured(model)
    np.testing.assert_allclose(
        log_densities(known.structure, points, eta), values, rtol=2e-3, atol=2e-3
    )
    draws = known.structure.parameters.draw(np.random.default_rng(3), 4000)
    np.testing.assert_allclose(draws[:, 0].mean(), 100.0, atol=4 * 10 / np.sqrt(4000))
    np.testing.assert_allclose(draws[:, 0].std(), 10.0, rtol=4 / np.sqrt(8000))


def test_the_black_box_runs_once_for_an_evaluation():
    op = Decay()
    model = kmc.from_pymc(build(DISTRIBUTIONS["two"], op))
    op.n_runs = 0
    evaluate_point(model, np.zeros(3))
    assert op.n_runs == 1


def test_a_model_that_was_sent_elsewhere_has_the_same_structure():
    model = kmc.from_pymc(build(DISTRIBUTIONS["normal"]))
    arrived = pickle.loads(pickle.dumps(model))
    points = np.zeros((2, 3))
    for mine, theirs in zip(evaluated(model, points), evaluated(arrived, points), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.fixture(scope="module")
def straight():
    """A line through data, of a black box."""

    class Line(Op):
        itypes = (pt.dvector,)
        otypes = (pt.dvector,)

        def perform(self, node, inputs, outputs):
            outputs[0][0] = inputs[0][0] + inputs[0][1] * TIMES

    with pytensor.config.change_flags(mode=QUICK), pm.Model(coords={"time": TIMES}) as theirs:
        line = pm.Normal("line", 0.0, 2.0, shape=2)
        pm.Normal("y", Line()(line), 0.1, observed=DATA, dims="time")
        idata = kmc.sample(theirs, draws=None, max_evaluations=240, seed=4, progress=False)
    return idata


def test_draws_are_those_of_the_closed_form(straight):
    from arviz import ess

    design = np.column_stack([np.ones(7), TIMES])
    covariance = np.linalg.inv(design.T @ design / 0.01 + np.eye(2) / 4.0)
    mean = covariance @ design.T @ DATA / 0.01
    draws, sd = straight["posterior"]["line"], np.sqrt(np.diag(covariance))
    size = ess(straight["posterior"])["line"].values
    assert straight.attrs["surrogate_components"] == 2
    assert straight.attrs["n_evaluations_warmup"] < 100 and np.all(size > 80)
    assert np.all(abs(draws.mean(("chain", "draw")) - mean) < 4 * sd / np.sqrt(size))
    assert np.all(abs(draws.std(("chain", "draw")) / sd - 1.0) < 4 / np.sqrt(2 * size))


def test_outputs_and_log_likelihoods_come_with_the_draws(straight):
    line = straight["posterior"]["line"].values
    y = line[..., :1] + line[..., 1:] * TIMES
    assert straight["outputs"]["y"].dims == ("chain", "draw", "time")
    np.testing.assert_allclose(straight["outputs"]["y"], y)
    np.testing.assert_allclose(straight["log_likelihood"]["y"], stats.norm(y, 0.1).logpdf(DATA))
