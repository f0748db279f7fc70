"""Models of PINTS: the density is PINTS's, and the problem is the simulator."""

import pickle
import warnings

import numpy as np
import pytest

import kmc
from kmc.run.structure import structured

pints = pytest.importorskip("pints")

pytestmark = pytest.mark.arviz

import pints.toy  # noqa: E402, F811

TIMES = np.linspace(0.0, 40.0, 15)
RNG = np.random.default_rng(0)


class Growth(pints.ForwardModel):
    """Logistic growth, and its slope as a second output."""

    def __init__(self, n_outputs=1):
        super().__init__()
        self._n = n_outputs

    def n_parameters(self):
        return 2

    def n_outputs(self):
        return self._n

    def simulate(self, parameters, times):
        rate, capacity = parameters
        size = capacity / (1.0 + (capacity / 2.0 - 1.0) * np.exp(-rate * times))
        return (
            size
            if self._n == 1
            else np.stack([size, rate * size * (1.0 - size / capacity)], axis=1)
        )


def problem(n_outputs=1):
    clean = np.asarray(Growth(n_outputs).simulate([0.2, 50.0], TIMES))
    data = np.abs(clean + 0.05 * np.random.default_rng(1).standard_normal(clean.shape))
    make = pints.SingleOutputProblem if n_outputs == 1 else pints.MultiOutputProblem
    return make(Growth(n_outputs), TIMES, data)


def composed(n_noise):
    """A prior of the two parameters of the model and those of the errors."""
    noise = [pints.UniformLogPrior([0.01], [3.0]), pints.LogNormalLogPrior(0.0, 0.5)] * 2
    return pints.ComposedLogPrior(
        pints.LogNormalLogPrior(-1.5, 0.5), pints.GaussianLogPrior(50, 5), *noise[:n_noise]
    )


def assert_equal(model, pdf, points=None):
    """The log-densities agree at unconstrained points, by default draws from the prior, and most
    are finite.
    """
    points = model.prior_points(np.random.default_rng(2), 20) if points is None else points
    names = list(model.parameters)
    finite = 0
    for x in points:
        parameters = model.parameters_at(x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = float(np.sum(pdf([parameters[name] for name in names])))
        value = model.call(x)
        ours = (
            (value[0] if isinstance(value, tuple) else value)
            + model.log_added(x)
            - model.log_jacobian(x)
        )
        assert ours == pytest.approx(theirs, rel=1e-11, abs=1e-9), parameters
        finite += np.isfinite(theirs)
    assert finite >= 15


LIKELIHOODS = {
    "gaussian": (lambda p: pints.GaussianLogLikelihood(p), 1),
    "known": (
        lambda p: pints.GaussianKnownSigmaLogLikelihood(
            p, 0.7 if p.n_outputs() == 1 else [0.7, 0.3]
        ),
        0,
    ),
    "student": (lambda p: pints.StudentTLogLikelihood(p), 2),
    "cauchy": (lambda p: pints.CauchyLogLikelihood(p), 1),
    "log-normal": (lambda p: pints.LogNormalLogLikelihood(p), 1),
    "log-normal of means": (lambda p: pints.LogNormalLogLikelihood(p, mean_adjust=True), 1),
}


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_known_likelihoods(name, n_outputs):
    make, n_noise = LIKELIHOODS[name]
    posterior = pints.LogPosterior(make(problem(n_outputs)), composed(n_noise * n_outputs))
    model = kmc.from_pints(posterior)
    assert_equal(model, posterior)
    assert model.simulation.inputs == ("p0", "p1")
    assert (structured(model) is None) == (name == "log-normal of means")  # the outputs are learned


def test_censored_data():
    if not hasattr(pints, "CensoredGaussianLogLikelihood"):
        pytest.skip("this version of PINTS has no censored data")
    posterior = pints.LogPosterior(
        pints.CensoredGaussianLogLikelihood(problem(), 3.0, 45.0), composed(1)
    )
    model = kmc.from_pints(posterior)
    assert model.simulation.likelihoods["y"].is_censored
    # PINTS's own log(1 - F) has lost its digits where it is small, so compare where the errors are
    # large.
    for sigma in (30.0, 60.0):
        x = model.start_points({"p0": [0.2], "p1": [50.0], "sigma": [2.0]}, 1)[0]
        parameters = {**model.parameters_at(x), "sigma": sigma}
        found = sum(each.sum() for each in model.simulation(parameters)[0].values())
        assert found == pytest.approx(posterior.log_likelihood()([*parameters.values()]), rel=1e-9)


def test_multiplicative_errors_of_the_power_one():
    log_likelihood = pints.MultiplicativeGaussianLogLikelihood(problem())
    priors = {
        "rate": kmc.LogNormal(-1.5, 0.5),
        "capacity": kmc.Normal(50, 5),
        "eta": 1,
        "sigma": kmc.HalfNormal(1),
    }
    model = kmc.from_pints(log_likelihood, priors)
    assert structured(model) is not None
    assert_equal(model, lambda x: log_likelihood(x) + model.prior.log_density(named(model, x))[0])


def named(model, x):
    """Arrays of one point by name, without what is fixed."""
    return {
        name: np.array([value]) for name, value in zip(model.parameters, x) if name in model.dims
    }


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize(
    ("make", "n_noise"),
    [
        (lambda p: pints.MultiplicativeGaussianLogLikelihood(p), 2),
        (lambda p: pints.ScaledLogLikelihood(pints.GaussianKnownSigmaLogLikelihood(p, 0.7)), 0),
    ],
)
def test_another_likelihood_stays_a_function(make, n_noise, n_outputs):
    posterior = pints.LogPosterior(make(problem(n_outputs)), composed(n_noise * n_outputs))
    model = kmc.from_pints(posterior)
    assert model.simulation is None and not model.without_prior
    assert_equal(model, posterior)


def test_a_class_that_inherits_from_one_of_pints_stays_a_function():
    class Doubled(pints.GaussianKnownSigmaLogLikelihood):
        def __call__(self, x):
            return 2.0 * super().__call__(x)

    class Shifted(pints.GaussianLogPrior):
        def __call__(self, x):
            return super().__call__(np.asarray(x) - 1.0)

    prior = pints.ComposedLogPrior(pints.LogNormalLogPrior(-1.5, 0.5), Shifted(50, 5))
    posterior = pints.LogPosterior(Doubled(problem(), 0.7), prior)
    model = kmc.from_pints(posterior)
    assert model.simulation is None and model.log_prior is not None
    assert_equal(model, posterior)


def one_number():
    yield pints.UniformLogPrior([0.3], [2.5])
    if hasattr(pints, "LogUniformLogPrior"):
        yield pints.LogUniformLogPrior(0.3, 2.5)
    yield pints.GaussianLogPrior(0.4, 2.0)
    yield pints.TruncatedGaussianLogPrior(0.4, 2.0, -1.0, 3.0)
    yield pints.TruncatedGaussianLogPrior(0.4, 2.0, 0.0, np.inf)
    yield pints.LogNormalLogPrior(0.4, 2.0)
    yield pints.StudentTLogPrior(0.4, 3, 2.0)
    yield pints.CauchyLogPrior(0.4, 2.0)
    yield pints.HalfCauchyLogPrior(0.0, 2.0)
    yield pints.HalfCauchyLogPrior(-1.5, 2.0)
    yield pints.ExponentialLogPrior(0.4)
    yield pints.GammaLogPrior(0.4, 2.0)
    yield pints.InverseGammaLogPrior(1.4, 2.0)
    yield pints.BetaLogPrior(1.4, 2.0)


class Flat(pints.ForwardModel):
    """A model whose parameters do nothing."""

    def __init__(self, n):
        super().__init__()
        self._n = n

    def n_parameters(self):
        return self._n

    def simulate(self, parameters, times):
        return np.zeros(len(times))


def flat(prior):
    """The posterior that is the prior."""
    problem = pints.SingleOutputProblem(Flat(prior.n_parameters()), TIMES, np.zeros(15))
    return pints.LogPosterior(pints.GaussianKnownSigmaLogLikelihood(problem, 1.0), prior)


@pytest.mark.parametrize("prior", list(one_number()), ids=lambda prior: type(prior).__name__)
def test_priors_of_one_number(prior):
    model = kmc.from_pints(flat(prior), ["a"])
    assert model.log_prior is None
    assert_equal(model, flat(prior))
    ours = model.prior_draws(np.random.default_rng(3), 4000)["a"]
    np.random.seed(4)  # noqa: NPY002, PINTS's generator
    theirs = np.ravel(prior.sample(4000))
    for level in (0.2, 0.5, 0.8):
        share = np.mean(ours < np.quantile(theirs, level))
        assert abs(share - level) < 4.0 * np.sqrt(2.0 * level * (1.0 - level) / 4000)


def test_another_prior_stays_a_function_beside_those_that_kmc_has():
    normal = pints.MultivariateGaussianLogPrior([10.0, 20.0], [[1.0, 0.5], [0.5, 1.0]])
    prior = pints.ComposedLogPrior(
        pints.UniformLogPrior([0, 5], [1, 6]), normal, pints.GammaLogPrior(2, 1)
    )
    model = kmc.from_pints(flat(prior))
    assert model.parameters["p1"] == kmc.Uniform(5, 6) and model.parameters["p4"] == kmc.Gamma(2, 1)
    assert model.parameters["p2"] == model.parameters["p3"] == kmc.Real()
    assert_equal(model, flat(prior))
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again = (model.prior_draws(np.random.default_rng(5), 500) for _ in range(2))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    np.testing.assert_array_equal(first["p2"], again["p2"])
    assert abs(first["p3"].mean() - 20.0) < 4.0 / np.sqrt(500)


def test_a_prior_that_cannot_be_drawn_from():
    class Own(pints.LogPrior):
        def n_parameters(self):
            return 1

        def __call__(self, x):
            return -abs(x[0])

    prior = pints.ComposedLogPrior(Own(), pints.GaussianLogPrior(0, 1))
    model = kmc.from_pints(flat(prior))
    assert model.prior.names == ("p1",)
    assert_equal(model, flat(prior), np.random.default_rng(2).standard_normal((20, 2)))


def test_names():
    two = pints.LogPosterior(pints.StudentTLogLikelihood(problem(2)), composed(4))
    assert list(kmc.from_pints(two).parameters) == [
        "p0",
        "p1",
        "nu_y0",
        "sigma_y0",
        "nu_y1",
        "sigma_y1",
    ]
    assert list(kmc.from_pints(two, outputs=["size", "slope"]).parameters)[2:4] == [
        "nu_size",
        "sigma_size",
    ]
    names = ["rate", "capacity", "a", "b", "c", "d"]
    model = kmc.from_pints(two, names, outputs=["size", "slope"], on_error="reject")
    assert list(model.parameters) == names and model.on_error == "reject"
    assert {name: dims for name, (dims, _) in model.data["observed_data"].items()} == {
        "size": ("time",),
        "slope": ("time",),
    }
    np.testing.assert_array_equal(model.coords["time"], TIMES)
    assert list(
        kmc.from_pints(
            pints.LogPosterior(pints.AR1LogLikelihood(problem()), composed(2))
        ).parameters
    ) == [
        "p0",
        "p1",
        "p2",
        "p3",
    ]


def test_priors_of_kmc():
    priors = {
        "rate": kmc.LogNormal(-1.5, 0.5),
        "capacity": kmc.Normal(50, 5),
        "sigma": kmc.HalfNormal(1),
    }
    log_likelihood = pints.GaussianLogLikelihood(problem())
    model = kmc.from_pints(log_likelihood, priors)
    assert model.parameters == priors
    assert_equal(model, lambda x: log_likelihood(x) + model.prior.log_density(named(model, x))[0])


def test_a_likelihood_of_kmc():
    two = problem(2)
    priors = {
        "spread": kmc.HalfNormal(1),
        "rate": kmc.LogNormal(-1.5, 0.5),
        "capacity": kmc.Normal(50, 5),
    }
    of = {"slope": kmc.likelihoods.Normal(two.values()[:, 1], 0.1)}
    of["size"] = kmc.likelihoods.LogNormal(two.values()[:, 0], sd="spread")
    model = kmc.from_pints(two, priors, likelihood=of, outputs=["size", "slope"])
    assert model.simulation.inputs == ("rate", "capacity")
    found, blobs = model.simulation({"rate": 0.2, "capacity": 50.0, "spread": 0.5})
    clean = Growth(2).simulate([0.2, 50.0], TIMES)
    np.testing.assert_allclose(
        np.stack([blobs["outputs.size"], blobs["outputs.slope"]], axis=1), clean
    )
    np.testing.assert_allclose(found["slope"], of["slope"].log_likelihoods(clean[:, 1], {}))


def test_a_run_learns_the_outputs():
    posterior = pints.LogPosterior(pints.GaussianLogLikelihood(problem()), composed(1))
    model = kmc.from_pints(posterior, ["rate", "capacity", "sigma"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)
        idata = kmc.sample(model, draws=None, max_evaluations=200, seed=1, progress=False)
    assert "surrogate_components" in idata.attrs
    assert idata["posterior_predictive"]["y"].dims == ("chain", "draw", "time")
    assert abs(float(idata["posterior"]["rate"].mean()) - 0.2) < 0.01


def test_a_model_can_be_sent_to_other_processes():
    model = kmc.from_pints(pints.LogPosterior(pints.GaussianLogLikelihood(toy()), composed(1)))
    x = np.array([-1.5, 50.0, 0.5])
    assert pickle.loads(pickle.dumps(model)).call(x)[0] == model.call(x)[0]


def toy():
    return pints.SingleOutputProblem(pints.toy.LogisticModel(), TIMES, 2.0 + TIMES)


POSTERIOR = pints.LogPosterior(pints.GaussianLogLikelihood(problem()), composed(1))
RATES = {"a": kmc.Normal(0, 1), "b": kmc.Normal(0, 1)}


@pytest.mark.parametrize(
    ("target", "options", "error", "message"),
    [
        (lambda x: 0.0, {}, TypeError, "target=.*expected a pints.LogPosterior"),
        (composed(0), {}, TypeError, "target=.*expected a pints.LogPosterior"),
        (
            POSTERIOR,
            {"parameters": ["a", "b"]},
            ValueError,
            "parameters=.*expected 3 different names",
        ),
        (
            POSTERIOR,
            {"parameters": ["a", "b", "b"]},
            ValueError,
            "parameters=.*expected 3 different names",
        ),
        (
            POSTERIOR,
            {"parameters": "abc"},
            TypeError,
            "parameters='abc': expected a list of 3 names",
        ),
        (POSTERIOR, {"outputs": ["a", "b"]}, ValueError, "outputs=.*expected 1 different names"),
        (
            POSTERIOR,
            {"likelihood": kmc.likelihoods.Normal([1.0], 1.0)},
            TypeError,
            "likelihood=.* with a LogPosterior",
        ),
        (POSTERIOR.log_likelihood(), {}, TypeError, "parameters=None: expected a mapping"),
        (
            POSTERIOR.log_likelihood(),
            {"parameters": RATES},
            ValueError,
            "parameters has 2 of them: expected 3",
        ),
        (problem(), {"parameters": RATES}, TypeError, "likelihood=None with a SingleOutputProblem"),
        (
            problem(),
            {
                "parameters": {"a": kmc.Real()},
                "likelihood": kmc.likelihoods.Normal(problem().values(), 1.0),
            },
            ValueError,
            "parameters has a besides those that likelihood names: expected 2",
        ),
        (
            problem(2),
            {"parameters": RATES, "likelihood": kmc.likelihoods.Normal(problem().values(), 1.0)},
            ValueError,
            "expected one for each output, by name: y0, y1",
        ),
    ],
)
def test_invalid_arguments(target, options, error, message):
    with pytest.raises(error, match=message):
        kmc.from_pints(target, **options)
