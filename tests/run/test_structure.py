"""What is known of a model with a simulator, and what its surrogate makes of it, held to the model
itself.
"""

import concurrent.futures
import warnings
from functools import partial

import numpy as np
import pytest
from scipy import stats

import kmc
from kmc import likelihoods as of
from kmc.model.evaluate import evaluate_point
from kmc.run.history import as_given
from kmc.run.structure import structured
from kmc.surrogate.emulator.emulated import Emulator
from kmc.surrogate.emulator.jit_state import check_structure, log_densities
from kmc.surrogate.jit_state import values_and_gradients
from kmc.surrogate.process import Seen
from tests.grids import slow_except

TIMES = np.linspace(0.1, 2.0, 7)
MISSING = np.array([1.0, 0.8, np.nan, 0.4, 0.3, 0.3, 0.2])
COUNTS = np.array([3, 1, 2, 0, 1, 0, 0])


def decay(p):
    return p["start"] * np.exp(-p["rate"] * TIMES)


def share(p):
    return 1.0 / (1.0 + decay(p))


PRIORS = {"start": kmc.HalfNormal(2), "rate": kmc.Gamma(2, 1), "scale": kmc.LogNormal(-1, 0.5)}
LIKELIHOODS = {
    "normal": (decay, of.Normal(MISSING, sd="scale")),
    "two terms": (decay, of.Normal(MISSING, sd=[np.linspace(0.1, 0.2, 7), "scale"], relative=0.1)),
    "relative": (decay, of.Normal(MISSING, sd=0.1, relative="scale")),
    "log-normal": (decay, of.LogNormal(MISSING, sd="scale")),
    "student": (decay, of.StudentT(MISSING, df="scale", scale=0.2)),
    "poisson": (decay, of.Poisson(COUNTS)),
    "negative binomial": (decay, of.NegativeBinomial(COUNTS, dispersion="scale")),
    "binomial": (share, of.Binomial(COUNTS, n=np.arange(4, 11))),
    "bernoulli": (share, of.Bernoulli(COUNTS > 0)),
}


def model_of(name, **parameters):
    simulator, likelihood = LIKELIHOODS[name]
    return kmc.Model(
        simulator=simulator,
        inputs=["start", "rate"],
        likelihood=likelihood,
        parameters={**PRIORS, **parameters},
    )


def evaluated(model, points):
    """Log-densities and outputs as the surrogate gets them."""
    found = [evaluate_point(model, x) for x in points]
    return np.array([one.log_density for one in found]), structured(model).outputs(
        [one.blobs for one in found]
    )


def points_of(model, n, seed=1):
    return model.initial_points(np.random.default_rng(seed), n)


def differences(function, x, step=1e-5):
    shifts = step * np.eye(len(x))
    return np.array([(function(x + s) - function(x - s)) / (2 * step) for s in shifts])


@pytest.mark.parametrize(
    ("likelihood", "parameters"),
    [
        (of.Normal([1.0, 2.0], sd=1.0, upper=2.0), {}),
        (of.Normal([1.0, 2.0], sd=1.0, observe=lambda y, p: 2 * y), {}),
        (of.MultivariateNormal([1.0, 2.0], cov=np.eye(2)), {}),
        (of.Custom(lambda y, v: -y, parameters=[]), {}),
        (of.Normal([1.0, 2.0], sd=1.0), {"b": kmc.Dirichlet([1.0, 2.0, 3.0])}),
    ],
    ids=["censored", "observe", "covariance", "custom", "simplex"],
)
def test_other_models_are_learned_by_their_log_density(likelihood, parameters):
    model = kmc.Model(
        simulator=lambda p: np.array([p["a"], p["a"]]),
        inputs=["a"],
        likelihood=likelihood,
        parameters={"a": kmc.Normal(0, 1), **parameters},
    )
    assert structured(model) is None


def fitted_to(model, n, seed):
    rng = np.random.default_rng(seed)
    points = points_of(model, n, seed)
    values, outputs = evaluated(model, points)
    seen = Seen(points, values, points, np.full(points.shape, np.nan), outputs=outputs)
    emulator = Emulator(structured(model).structure)
    process = emulator.first(seen, rng)
    return model, emulator.again(seen, process, process.regression.hyperparameters, rng)


def literal(model, process, x):
    """The log-density by the likelihood's own code, at outputs that are predicted component by
    component.
    """
    (likelihood,) = model.simulation.likelihoods.values()
    eta = np.full(np.sum(~likelihood.missing), np.nan)
    for own in process.regressions:
        components = own.regression.values(x[None, own.group.inputs])[0]
        eta[own.group.rows] = own.components.offset + own.components.basis @ components
    link = {"LogNormal": np.exp, "Poisson": np.exp, "NegativeBinomial": np.exp}.get(
        type(likelihood).__name__
    )
    link = link or (
        (lambda e: 1 / (1 + np.exp(-e)))
        if type(likelihood).__name__ in ("Binomial", "Bernoulli")
        else None
    )
    outputs = np.full(likelihood.observed.shape, np.nan)
    outputs[~likelihood.missing] = eta if link is None else link(eta)
    total = likelihood.log_likelihoods(outputs, model.parameters_at(x))[~likelihood.missing].sum()
    return total / process.temperature + model.log_added(x)


def two_groups():
    """Many data, of which half have one unknown scale and the others another one or known ones."""
    times = np.linspace(0.1, 2.0, 40)
    data = np.exp(-times) + 0.05 * np.cos(9 * times)
    data[3] = np.nan
    return kmc.Model(
        simulator=lambda p: np.stack(
            [p["start"] * np.exp(-p["rate"] * times), p["start"] / (1 + times)]
        ),
        likelihood=of.Normal(np.stack([data, 1.1 * data]), sd=["scale", np.array([[0.1], [0.2]])]),
        parameters={**PRIORS, "scale": kmc.LogNormal(-1, 0.5, shape=(2, 1))},
    )


def known_errors():
    times = np.linspace(0.1, 2.0, 40)
    return kmc.Model(
        simulator=lambda p: p["start"] * np.exp(-p["rate"] * times),
        likelihood=of.LogNormal(np.exp(-times), sd=np.linspace(0.1, 0.3, 40)),
        parameters={"start": PRIORS["start"], "rate": PRIORS["rate"]},
    )


def subjects():
    """Three subjects with rates of a hierarchical prior, whose mean has one itself, of known sd."""
    times = np.linspace(0.1, 2.0, 7)
    return kmc.Model(
        simulator=lambda p: p["start"] * np.exp(-p["rates"][:, None] * times),
        likelihood=of.Normal(np.exp(-np.array([[0.5], [1.0], [2.0]]) * times), sd="scale"),
        parameters={
            "start": kmc.Normal(1, 0.1),
            "center": kmc.Normal(0, 0.3),
            "rate": kmc.Normal("center", 0.2),
            "spread": kmc.HalfNormal(0.5),
            "rates": kmc.LogNormal("rate", "spread", shape=3),
            "scale": kmc.LogNormal(-1, 0.5),
        },
    )


MAKE = {name: partial(model_of, name) for name in LIKELIHOODS}
MAKE |= {"groups": two_groups, "errors": known_errors, "subjects": subjects}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_the_structure_is_the_log_density(make):
    model = make()
    points = points_of(model, 200)
    values, outputs = evaluated(model, points)
    found = structured(model)
    np.testing.assert_allclose(
        log_densities(found.structure, points, outputs), values, rtol=2e-3, atol=2e-3
    )
    assert found.holds(points, values, outputs) and not found.holds(points, values + 1.0, outputs)
    check_structure(found.structure, model.dim)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_an_emulator_implies_the_log_density_of_its_outputs(make):
    model, process = fitted_to(make(), 40, 1)
    for x in points_of(model, 20, seed=3):
        if process.beyond(x[None])[0]:
            continue
        z = process.coordinates(x[None])
        value, gradient = values_and_gradients(process.jit_state, z)
        value += process.transport.log_jacobian(x[None])  # of x, not of u
        np.testing.assert_allclose(value[0], literal(model, process, x), rtol=2e-3, atol=2e-3)
        (own,) = process.regressions
        n = len(process.jit_state.offset)
        assert n == len(own.components.offset) or n <= 2 * (own.components.basis.shape[1] + 1)
        along = differences(lambda z: values_and_gradients(process.jit_state, z[None])[0][0], z[0])
        np.testing.assert_allclose(
            gradient[0], along, rtol=1e-4, atol=1e-4 * (1 + np.abs(along).max())
        )


def test_it_is_right_where_it_has_learned_and_knows_where_it_is_not():
    model, process = fitted_to(model_of("normal"), 60, 1)
    points = points_of(model, 300, seed=5)
    values, _ = evaluated(model, points)
    typical = values > values.max() - 10.0
    errors = process.temperature * process.log_density(points) - values
    sds = process.temperature * process.standard_deviations(points)
    assert np.median(np.abs(errors[typical])) < 0.1
    assert np.mean(np.abs(errors[typical]) < 3.0 * sds[typical] + 0.05) > 0.9
    covariances = process.covariances(points[typical][:30])
    variances = process.standard_deviations(points[typical][:30]) ** 2
    np.testing.assert_allclose(np.diag(covariances), variances, rtol=1e-5)
    assert np.linalg.eigvalsh(covariances).min() > -1e-8 * covariances.max()


def linear(n=10):
    """A regression with known noise: the posterior is normal, with a closed form."""
    rng = np.random.default_rng(3)
    design = rng.standard_normal((n, 3))
    data = design @ [0.5, -1.0, 2.0] + 0.3 * rng.standard_normal(n)
    model = kmc.Model(
        simulator=lambda p: design @ p["b"],
        likelihood=of.Normal(data, sd=0.3),
        parameters={"b": kmc.Normal(0, 5, shape=3)},
    )
    precision = design.T @ design / 0.09 + np.eye(3) / 25
    return model, np.linalg.solve(precision, design.T @ data / 0.09), np.linalg.inv(precision)


OPTIONS = {"seed": 1, "progress": False}


def test_draws_are_those_of_the_closed_form():
    model, mean, covariance = linear()
    idata = kmc.sample(model, max_evaluations=1500, draws=None, **OPTIONS)
    # of the outputs or of the log-density, which is quadratic
    assert idata.attrs["n_evaluations_warmup"] < 150
    draws = idata.posterior["b"].values.reshape(-1, 3)
    error = np.sqrt(np.diag(covariance) / len(draws) * 2.0)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - mean), 4 * error)
    np.testing.assert_allclose(draws.std(axis=0), np.sqrt(np.diag(covariance)), rtol=0.12)
    assert np.mean(idata.sample_stats["acceptance_rate"]) > 0.9


@pytest.mark.slow
def test_a_sharp_curved_posterior_needs_few_simulations():
    """Two decays with narrow errors from prior starts: learning the log-density takes twice as
    many.
    """

    def curve(p):
        return p["a"] * np.exp(-p["k"] * TIMES) + np.exp(-p["l"] * TIMES)

    data = curve({"a": 2.0, "k": 3.0, "l": 0.5}) * (1 + 0.02 * np.sin(7 * TIMES))
    priors = {
        "a": kmc.LogNormal(0, 1),
        "k": kmc.LogNormal(0, 1),
        "l": kmc.LogNormal(0, 1),
        "s": kmc.LogNormal(-3, 1),
    }
    model = kmc.Model(
        simulator=curve,
        inputs=["a", "k", "l"],
        likelihood=of.LogNormal(data, sd="s"),
        parameters=priors,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = kmc.sample(model, max_evaluations=600, draws=None, **OPTIONS)
    assert idata.attrs["n_evaluations_warmup"] < 190  # 276 by the log-density


@pytest.fixture(scope="module")
def whole():
    """The draws of a run without a store."""
    return kmc.sample(linear()[0], draws=20, **OPTIONS).posterior["b"].values


@pytest.mark.slow
def test_stores_and_other_processes_have_the_same_draws(whole, tmp_path):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        kmc.sample(linear()[0], draws=20, executor=pool, store=tmp_path / "run.zarr", **OPTIONS)
    np.testing.assert_array_equal(kmc.load(tmp_path / "run.zarr").posterior["b"].values, whole)


@pytest.mark.parametrize("stop", [20, pytest.param(110, marks=pytest.mark.slow)])
def test_a_resumed_run_has_the_same_draws(whole, tmp_path, stop):
    """It stopped within climbs, or when learning was nearly done."""
    model, _, _ = linear()
    calls = []

    def simulator(p):
        calls.append(1)
        if len(calls) == stop:
            raise KeyboardInterrupt
        return model.simulation.simulator(p)

    stopping = kmc.Model(
        simulator=simulator,
        likelihood=model.simulation.likelihoods["y"],
        parameters={"b": kmc.Normal(0, 5, shape=3)},
    )
    kmc.sample(stopping, draws=20, store=tmp_path / "run.zarr", **OPTIONS)
    resumed = kmc.sample(model, draws=20, store=tmp_path / "run.zarr", resume=True, **OPTIONS)
    np.testing.assert_array_equal(resumed.posterior["b"].values, whole)


@pytest.mark.slow
def test_a_simulator_that_fails_costs_its_points_alone():
    def failing(p):
        if p["b"][0] < 0.2:
            raise RuntimeError("no steady state")
        return model.simulation.simulator(p)

    model, _, _ = linear()
    broken = kmc.Model(
        simulator=failing,
        likelihood=model.simulation.likelihoods["y"],
        parameters={"b": kmc.Normal(0, 5, shape=3)},
        on_error="reject",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = kmc.sample(broken, max_evaluations=400, draws=None, **OPTIONS)
    assert idata.posterior["b"].values[..., 0].min() >= 0.2 and idata.posterior.sizes["draw"] > 25


def test_outputs_that_predict_worse_than_the_log_density_are_left():
    """They turn a thousand times where the density is that of a normal distribution."""

    def spinning(p):
        angle, radius = 1e3 * (p["a"] + 2 * p["b"]), np.hypot(p["a"] - 1.0, p["b"])
        return radius * np.array([np.cos(angle), np.sin(angle)])

    model = kmc.Model(
        simulator=spinning,
        likelihood=of.Normal([0.0, 0.0], sd=1.0),
        parameters={"a": kmc.Normal(0, 3), "b": kmc.Normal(0, 3)},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = kmc.sample(model, max_evaluations=600, draws=None, **OPTIONS)
    assert (
        "surrogate_components" not in idata.attrs
        and idata.sample_stats["acceptance_rate"].mean() > 0.7
    )


@pytest.fixture(scope="module")
def noisy_line():
    """A line with an unknown error, the density on a grid of its three parameters, and other data
    of the same kind.
    """

    def line(p):
        return p["a"] + p["b"] * TIMES

    def model(data):
        priors = {"a": kmc.Normal(0, 2), "b": kmc.Normal(0, 2), "sd": kmc.LogNormal(-1, 0.5)}
        return kmc.Model(simulator=line, likelihood=of.Normal(data, sd="sd"), parameters=priors)

    rng = np.random.default_rng(8)
    data = [a + b * TIMES + 0.3 * rng.standard_normal(7) for a, b in ((1.0, -1.0), (0.5, 0.2))]
    return line, model(data[0]), model(data[1])


def moments_of_line(data):
    """Means and sds of a and b: normal given the error, which a grid integrates."""
    design, levels = np.column_stack([np.ones(7), TIMES]), np.exp(np.linspace(-4, 3, 800))
    means, squares, logs = [], [], []
    for sd in levels:
        covariance = np.linalg.inv(design.T @ design / sd**2 + np.eye(2) / 4)
        means.append(covariance @ design.T @ data / sd**2)
        squares.append(np.diag(covariance) + means[-1] ** 2)
        whole = sd**2 * np.eye(7) + 4 * design @ design.T
        logs.append(
            stats.multivariate_normal(np.zeros(7), whole).logpdf(data)
            + stats.norm(-1, 0.5).logpdf(np.log(sd))
        )
    weights = np.exp(np.array(logs) - max(logs))
    mean, square = (weights @ np.array(each) / weights.sum() for each in (means, squares))
    return mean, np.sqrt(square - mean**2)


def history_of(kind, line, model, path):
    """Of simulations for other data: a result, a short one, a store, or recorded calls."""
    if kind == "calls":
        return recorded_calls(line)
    n = {"result": 400, "short": 60, "store": 90}[kind]
    found = kmc.sample(
        model, max_evaluations=n, draws=None, store=path if kind == "store" else None, **OPTIONS
    )
    return path if kind == "store" else found


def recorded_calls(line):
    recorded = kmc.record(line)
    for a, b in np.random.default_rng(2).normal(0.0, 1.0, (40, 2)):
        recorded({"a": a, "b": b})
    return recorded


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
@pytest.mark.parametrize("kind", slow_except(["result", "short", "store", "calls"], {"store"}))
def test_simulations_for_other_data_are_used_again(noisy_line, tmp_path, kind):
    line, model, other = noisy_line
    fresh = kmc.sample(other, max_evaluations=200, draws=None, **OPTIONS)
    mean, sd = moments_of_line(other.simulation.likelihoods["y"].observed)
    history = history_of(kind, line, model, tmp_path / "run.zarr")
    given = as_given(history, other)
    values, outputs = evaluated(other, given.x[:50])
    np.testing.assert_allclose(given.values[:50], values, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(given.outputs[:50], outputs, rtol=1e-9)
    idata = kmc.sample(other, history=history, max_evaluations=200, draws=None, **OPTIONS)
    assert idata.attrs["n_history"] == len(given.x)
    assert idata.attrs["n_evaluations_warmup"] < fresh.attrs["n_evaluations_warmup"]
    draws = np.stack([idata.posterior[name].values.ravel() for name in "ab"], axis=1)
    np.testing.assert_array_less(
        np.abs(draws.mean(axis=0) - mean), 4 * sd * np.sqrt(2.0 / len(draws))
    )


def test_a_record_of_a_simulator_has_its_inputs(noisy_line):
    line, model, _ = noisy_line
    recorded = kmc.record(line)
    recorded({"a": 1.0, "b": 2.0, "c": 3.0})
    recorded.points[0].pop("a")
    with pytest.raises(TypeError, match=r"expected the simulator's inputs, \['a', 'b'\]"):
        as_given(recorded, model)
    shorter = kmc.record(lambda p: line(p)[:3])
    shorter({"a": 1.0, "b": 2.0})
    with pytest.raises(TypeError, match=r"expected outputs of shapes \{'y': \(7,\)\}"):
        as_given(shorter, model)
    with pytest.raises(ValueError, match="history holds no evaluations"):
        as_given(kmc.record(line), model)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_a_resumed_run_knows_the_outputs_of_its_history(noisy_line, tmp_path):
    line, _, other = noisy_line
    history = recorded_calls(line)
    whole = kmc.sample(other, draws=30, history=history, **OPTIONS)
    kmc.sample(other, draws=10, history=history, store=tmp_path / "again.zarr", **OPTIONS)
    resumed = kmc.sample(other, draws=30, store=tmp_path / "again.zarr", resume=True, **OPTIONS)
    np.testing.assert_array_equal(
        resumed.posterior["a"].values[:, :10], whole.posterior["a"].values[:, :10]
    )


def test_a_store_without_draws_answers_from_its_outputs(tmp_path):
    model, mean, covariance = linear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kmc.sample(model, max_evaluations=40, store=tmp_path / "run.zarr", **OPTIONS)
        found = kmc.expectations(kmc.load(tmp_path / "run.zarr"), model=model)
    np.testing.assert_array_less(np.abs(found["mean"].values - mean), 4.0 * found["mcse"].values)
    np.testing.assert_allclose(found["sd"].values, np.sqrt(np.diag(covariance)), rtol=0.25)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_simulations_that_failed_have_no_outputs(noisy_line, tmp_path):
    """In a store they are rows of zeros, which are no outputs for other data either."""
    line, model, other = noisy_line
    failing = kmc.Model(
        simulator=lambda p: line(p) if p["a"] < 1.2 else np.full(7, np.nan),
        likelihood=model.simulation.likelihoods["y"],
        parameters=model.parameters,
    )
    kmc.sample(failing, max_evaluations=60, draws=None, store=tmp_path / "run.zarr", **OPTIONS)
    given = as_given(tmp_path / "run.zarr", other)
    values, _ = evaluated(other, given.x)
    assert 0 < len(given.x) < 60 and np.all(other.constrain(given.x)["a"] < 1.2)
    np.testing.assert_allclose(given.values, values, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("sd", "noncentered"), [(0.003, 0), (3.0, 3)])
def test_parameters_are_non_centered_unless_the_data_say_much_of_each(sd, noncentered):
    """Draws of an exact hierarchy, of three groups with one datum each."""
    rng = np.random.default_rng(2)
    model = kmc.Model(
        simulator=lambda p: p["rates"],
        likelihood=of.Normal([-1.0, 0.0, 1.0], sd=sd),
        parameters={"spread": kmc.LogNormal(0, 1), "rates": kmc.Normal(0, "spread", shape=3)},
    )
    _, process = fitted_to(model, 40, 1)
    log_spread = rng.normal(size=4000)
    prior = np.column_stack([log_spread, np.exp(log_spread)[:, None] * rng.normal(size=(4000, 3))])
    fit = -0.5 * np.sum(((prior[:, 1:] - [-1.0, 0.0, 1.0]) / sd) ** 2, axis=1)
    if sd < 1.0:  # rates are what was observed
        prior[:, 1:] = [-1.0, 0.0, 1.0] + sd * rng.normal(size=(4000, 3))
        prior[:, 0] = rng.normal(0.0, 0.4, 4000)
        fit[:] = 0.0
    draws = prior[rng.choice(4000, 400, p=np.exp(fit) / np.exp(fit).sum())]
    values, outputs = evaluated(model, draws)
    seen = Seen(draws, values, draws, np.full(draws.shape, np.nan), outputs=outputs)
    emulator = Emulator(structured(model).structure)
    found = emulator.again(seen, process, process.regression.hyperparameters, rng)
    assert process.transport.size == 3 and found.transport.size == noncentered
