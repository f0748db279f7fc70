"""Priors as parameters, compared with scipy's densities, moments of draws, and models written by
hand.
"""

import pickle
import warnings

import numpy as np
import pytest
from scipy import stats

import kmc
from kmc.convergence import bulk_ess
from kmc.model import transforms
from kmc.model.angles import Direction
from kmc.model.evaluate import Evaluator, evaluate_point, evaluate_rows
from tests.oracles import transforms as oracles


def flat(parameters):
    return 0.0


DECLARED = {
    kmc.Normal(1.0, 2.0): stats.norm(1, 2),
    kmc.HalfNormal(2.0): stats.halfnorm(scale=2),
    kmc.LogNormal(0.5, 0.7): stats.lognorm(0.7, scale=np.exp(0.5)),
    kmc.Uniform(-1.0, 3.0): stats.uniform(-1, 4),
    kmc.Exponential(4.0): stats.expon(scale=0.25),
    kmc.Gamma(3.0, 2.0): stats.gamma(3, scale=0.5),
    kmc.Beta(2.0, 5.0): stats.beta(2, 5),
    kmc.StudentT(6.0, 1.0, 0.5): stats.t(6, 1, 0.5),
    kmc.InverseGamma(3.0, 2.0): stats.invgamma(3, scale=2),
    kmc.Cauchy(1.0, 0.5): stats.cauchy(1, 0.5),
    kmc.TruncatedNormal(1.0, 2.0, low=0.0): stats.truncnorm(-0.5, np.inf, 1, 2),
}
FROZEN = [
    stats.norm(0, 3),
    stats.gamma(2),
    stats.gamma(a=2, scale=3),
    stats.beta(2, 2, loc=1, scale=4),
    stats.truncnorm(-1, 2),
    stats.weibull_max(2.0),
    stats.invgamma(3),
    stats.laplace(),
    stats.pareto(3),
]
TRANSFORMS = [
    (stats.norm(0, 3), transforms.Identity()),
    (stats.gamma(2, loc=1), transforms.Above(1.0)),
    (stats.pareto(3), transforms.Above(1.0)),
    (stats.weibull_max(2.0), transforms.Below(0.0)),
    (stats.beta(2, 2, loc=1, scale=4), transforms.Between(1.0, 5.0)),
    (stats.dirichlet([1, 2, 3]), transforms.IsometricLogRatio(3)),
    (stats.vonmises(2, 0.3), Direction(-np.pi, np.pi)),
    (stats.vonmises(2, 0.3, 12 / np.pi), Direction(-12.0, 12.0)),
]


def values_of(model, x):
    return {name: value[0] for name, value in model.constrain(x[None]).items()}


@pytest.mark.parametrize("law", [*DECLARED.values(), *FROZEN], ids=lambda law: f"{law.dist.name}")
def test_the_density_of_the_vector_is_that_of_the_prior(law):
    """Its log-density and the log-Jacobian: integrated over the vector, it is one."""
    model = kmc.Model(flat, parameters={"a": law})
    x = np.linspace(-60, 60, 24_001)
    logs = np.array(
        kmc.Model(flat_rows, parameters={"a": law}, vectorized=True).log_added(x[:, None])
    )
    beyond = law.dist.sf(60, 1.0, 0.5) * 2 if law.dist.name == "cauchy" else 0.0
    np.testing.assert_allclose(np.trapezoid(np.exp(logs), x), 1.0 - beyond, atol=2e-3)
    at = np.array([0.7])
    value = float(values_of(model, at)["a"])
    assert evaluate_point(model, at).value == pytest.approx(
        law.logpdf(value) + model.log_jacobian(at)
    )


def flat_rows(parameters):
    return np.zeros(len(next(iter(parameters.values()))))


@pytest.mark.parametrize(("prior", "law"), DECLARED.items(), ids=lambda thing: type(thing).__name__)
def test_declarations_are_scipys(prior, law):
    y = law.ppf(np.linspace(0.01, 0.99, 9))
    np.testing.assert_allclose(prior.distribution.logpdf(y), law.logpdf(y))
    again = pickle.loads(pickle.dumps(prior))
    assert again == prior and hash(again) == hash(prior) and again.transform == prior.transform
    low, high = law.support()
    bounded = {
        (False, False): transforms.Identity,
        (True, False): transforms.Above,
        (True, True): transforms.Between,
    }
    assert isinstance(prior.transform, bounded[bool(np.isfinite(low)), bool(np.isfinite(high))])


@pytest.mark.parametrize(("law", "transform"), TRANSFORMS, ids=lambda thing: "")
def test_the_support_decides_the_transform(law, transform):
    assert kmc.Prior(law).transform == transform


def test_a_joint_prior_is_added_once():
    """Of several parameters, arrays among them, with and without priors; one point and many."""
    parameters = {
        "mu": kmc.Normal(0, 10, shape=3),
        "sd": stats.gamma(2),
        "s": kmc.HalfNormal(2.0, shape=2),
        "w": kmc.Dirichlet([1.0, 2.0, 3.0], shape=2),
        "free": kmc.Positive(),
        "phi": stats.vonmises(4, 1.0),
    }

    def likelihood(p):
        return -float(np.sum(p["mu"] ** 2)) - p["sd"] - p["free"] + np.cos(p["phi"])

    model = kmc.Model(likelihood, parameters=parameters)
    x = np.random.default_rng(0).standard_normal((6, model.dim))
    for row in x:
        p = values_of(model, row)
        prior = stats.norm(0, 10).logpdf(p["mu"]).sum() + stats.gamma(2).logpdf(p["sd"])
        prior += sum(stats.dirichlet([1.0, 2.0, 3.0]).logpdf(each / each.sum()) for each in p["w"])
        prior += (
            stats.vonmises(4, 1.0).logpdf(p["phi"]) + stats.halfnorm(scale=2).logpdf(p["s"]).sum()
        )
        np.testing.assert_allclose(
            evaluate_point(model, row).value,
            likelihood(p) + prior + model.log_jacobian(row),
            rtol=1e-10,
        )

    def rows(p):
        return -np.sum(p["mu"] ** 2, axis=1) - p["sd"] - p["free"] + np.cos(p["phi"])

    many = kmc.Model(rows, parameters=parameters, vectorized=True)
    found = [each.value for each in evaluate_rows(many, x)]
    np.testing.assert_allclose(found, [evaluate_point(model, row).value for row in x], rtol=1e-12)
    assert model.prior.names == ("mu", "sd", "s", "w", "phi")
    assert kmc.Model(likelihood, parameters={"free": kmc.Positive()}).prior is None


def test_a_dirichlet_prior_is_scipys_on_the_simplex():
    """And its density over the vector agrees with the Jacobian by differences."""
    alpha = np.array([0.5, 2.0, 3.0])
    model = kmc.Model(flat, parameters={"w": stats.dirichlet(alpha)})
    for x in np.random.default_rng(1).standard_normal((5, 2)):
        w = oracles.simplex(x)
        expected = stats.dirichlet(alpha).logpdf(w / w.sum())
        expected += oracles.log_jacobian(lambda at: oracles.simplex(at)[:-1], x)
        np.testing.assert_allclose(evaluate_point(model, x).value, expected, atol=1e-7)


# Draws and starts

STARTS = {
    "a": kmc.Normal(5.0, 0.1),
    "b": kmc.Gamma(50.0, 5.0, shape=2),
    "c": stats.vonmises(400.0, np.pi),
    "w": kmc.Dirichlet([100.0, 300.0]),
    "free": kmc.Real(),
}


def test_start_points_are_drawn_from_the_prior():
    seen = []

    def likelihood(p):
        seen.append(p)
        return 0.0 - p["free"] ** 2

    kmc.sample(
        kmc.Model(likelihood, parameters=STARTS),
        chains=8,
        sampler="random-walk",
        draws=1,
        warmup=0,
        seed=2,
        progress=False,
    )
    first = seen[:8]
    assert all(
        abs(p["a"] - 5) < 0.5 and np.all(np.abs(p["b"] - 10) < 7) and abs(p["w"][0] - 0.25) < 0.1
        for p in first
    )
    assert all(abs(abs(p["c"]) - np.pi) < 0.3 and abs(p["free"]) <= 2 for p in first)
    assert len({p["a"] for p in first}) == 8


@pytest.fixture(scope="module")
def idata():
    model = kmc.Model(
        flat, parameters=STARTS | {"free": kmc.Uniform(0, 1)}, dims={"b": ["site"]}, coords=SITES
    )
    return kmc.sample(model, sampler="random-walk", draws=5, warmup=5, seed=3, progress=False)


SITES = {"site": ["A", "B"]}
pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")


def test_draws_of_the_prior_go_with_the_results(idata):
    prior = idata["prior"]
    assert prior["a"].shape == (1, 500) and prior["b"].dims == ("chain", "draw", "site")
    assert list(prior["site"].values) == ["A", "B"] and prior["c"].attrs["circular"] == 1
    laws = {"a": stats.norm(5, 0.1), "b": stats.gamma(50, scale=0.2), "free": stats.uniform()}
    for name, law in laws.items():
        values = prior[name].values
        assert abs(values.mean() - law.mean()) < 4 * law.std() / np.sqrt(values.size)
        assert abs(values.std() / law.std() - 1) < 4 / np.sqrt(values.size)
    w = prior["w"].values
    assert np.abs(w.sum(axis=-1) - 1).max() < 1e-12
    assert abs(w[..., 0].mean() - 0.25) < 4 * w[..., 0].std() / np.sqrt(500)


def test_draws_of_the_prior_are_the_seeds(idata):
    again = kmc.sample(
        kmc.Model(flat, parameters={"a": kmc.Normal(5.0, 0.1)}),
        sampler="random-walk",
        draws=5,
        warmup=0,
        seed=3,
        progress=False,
    )
    np.testing.assert_array_equal(again["prior"]["a"], idata["prior"]["a"])


def test_a_store_holds_them(tmp_path):
    model = kmc.Model(flat, parameters={"a": kmc.Normal(0, 1), "b": stats.gamma(2)})
    run = {"sampler": "random-walk", "draws": 20, "warmup": 0, "seed": 4, "progress": False}
    idata = kmc.sample(model, store=tmp_path / "s.zarr", **run)
    np.testing.assert_array_equal(kmc.load(tmp_path / "s.zarr")["prior"]["b"], idata["prior"]["b"])
    kmc.extend(tmp_path / "s.zarr", draws=10, progress=False, trust=True)


def test_draws_stay_inside_the_support():
    """Also where rounding takes them to an end, and beyond all floats."""
    rng = np.random.default_rng(0)
    extreme = [
        stats.beta(0.001, 0.001),
        stats.gamma(1e-4),
        stats.lognorm(400.0),
        stats.cauchy(0, 1e300),
    ]
    for law in extreme:
        model = kmc.Model(flat, parameters={"a": law})
        values = model.prior.draw(rng, 500)
        assert kmc.Prior(law).transform.contains(values["a"]).all()
        assert np.isfinite(model.initial_points(rng, 100)).all()


@pytest.mark.slow
def test_the_posterior_is_right():
    """A normal mean with a normal prior, and a variance with an inverse gamma one: conjugate, known
    exactly.
    """
    data = np.random.default_rng(5).normal(2.0, 1.5, 30)

    def likelihood(p):
        return -0.5 * np.sum((data - 2.0) ** 2) / p["v"] - 15 * np.log(p["v"])

    model = kmc.Model(likelihood, parameters={"v": stats.invgamma(3, scale=4)})
    exact = stats.invgamma(3 + 15, scale=4 + 0.5 * np.sum((data - 2.0) ** 2))
    idata = kmc.sample(
        model, sampler="adaptive-metropolis", draws=1000, warmup=300, seed=6, progress=False
    )
    row = kmc.summary(idata).loc["v"]
    assert abs(row["mean"] - exact.mean()) < 4.5 * row["mcse_mean"]
    assert abs(row["sd"] - exact.std()) < 4.5 * row["mcse_sd"]


@pytest.mark.parametrize("vectorized", [False, True])
def test_where_a_prior_is_zero_the_function_is_not_called(vectorized):
    """A log-normal density with a scale of 0.6 at e^20, e^285 and at the next to largest number."""
    called = []

    def likelihood(p):
        called.append(p["a"])
        return 0.0 * p["a"]

    law = stats.lognorm(0.6)
    model = kmc.Model(likelihood, parameters={"a": law}, vectorized=vectorized)
    x = np.array([[0.5], [20.0], [285.0], [23.5], [709.7]])
    found = Evaluator(model)(x)
    np.testing.assert_allclose(found[[0, 1]], law.logpdf(np.exp(x[:2, 0])) + x[:2, 0])
    assert np.all(found[2:] == -np.inf) and law.pdf(np.exp(23.5)) == 0.0
    np.testing.assert_allclose(np.hstack(called), np.exp(x[:2, 0]))
    assert np.all(Evaluator(model)(x[2:]) == -np.inf) and len(np.hstack(called)) == 2


@pytest.mark.parametrize("data", [3.0, 60.0])
def test_data_that_contradict_a_prior_are_told(data):
    """Without the warning the draws would end at 38 standard deviations of the prior, silently."""
    model = kmc.Model(
        lambda p: -0.5 * ((p["a"] - data) / 0.1) ** 2, parameters={"a": kmc.Normal(0, 1)}
    )
    options = {
        "sampler": "adaptive-metropolis",
        "draws": 200,
        "warmup": 300,
        "seed": 6,
        "progress": False,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = kmc.sample(model, **options)
    assert ("against-prior" in idata.attrs["warning_codes"]) == (data == 60.0)


# Priors that name other parameters

SCHOOLS = {
    "mu": kmc.Normal(0, 5),
    "tau": kmc.HalfNormal(5),
    "each": kmc.HalfNormal(2, shape=3),
    "theta": kmc.Normal("mu", "tau", shape=(2, 3)),
    "size": kmc.LogNormal("mu", 0.5),
    "spread": kmc.Normal(1, "each", shape=(2, 3)),
}


@pytest.mark.parametrize("fixed", [(), ("mu",), ("tau", "each")])
def test_a_hierarchical_prior_is_the_product_of_its_conditionals(fixed):
    values = {"mu": 1.5, "tau": 2.0, "each": [0.5, 1.0, 3.0]}
    model = kmc.Model(flat, parameters=SCHOOLS).fix(**{name: values[name] for name in fixed})
    for x in np.random.default_rng(1).standard_normal((5, model.dim)):
        p = values_of(model, x) | {name: np.array(values[name]) for name in fixed}
        expected = stats.norm(p["mu"], p["tau"]).logpdf(p["theta"]).sum()
        expected += stats.lognorm(0.5, scale=np.exp(p["mu"])).logpdf(p["size"])
        expected += stats.norm(1, p["each"]).logpdf(p["spread"]).sum()
        expected += 0.0 if "mu" in fixed else stats.norm(0, 5).logpdf(p["mu"])
        if "tau" not in fixed:
            expected += (
                stats.halfnorm(scale=5).logpdf(p["tau"])
                + stats.halfnorm(scale=2).logpdf(p["each"]).sum()
            )
        np.testing.assert_allclose(
            evaluate_point(model, x).value - model.log_jacobian(x), expected, rtol=1e-10
        )


def test_draws_of_a_hierarchical_prior():
    drawn = kmc.Model(flat, parameters=SCHOOLS).prior_draws(np.random.default_rng(2), 20_000)
    assert drawn["theta"].shape == (20_000, 2, 3) and drawn["size"].shape == (20_000,)
    z = (drawn["theta"] - drawn["mu"][:, None, None]) / drawn["tau"][:, None, None]
    w = (drawn["spread"] - 1.0) / drawn["each"][:, None, :]
    logs = (np.log(drawn["size"]) - drawn["mu"]) / 0.5
    for found in z[:, 1, 2], w[:, 0, 1], logs:
        assert stats.kstest(found, stats.norm.cdf).pvalue > 1e-3


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_a_hierarchical_model_is_sampled():
    """Two groups of known errors: given tau all is normal, and a grid integrates it."""
    y, errors = np.array([3.0, -1.0]), np.array([1.0, 2.0])
    tau = np.linspace(0.005, 25, 4000)
    variances = errors**2 + tau[:, None] ** 2
    log_weight = stats.norm(0, np.sqrt(variances)).logpdf(y).sum(axis=1) + stats.halfnorm(
        scale=5
    ).logpdf(tau)
    weight = np.exp(log_weight - log_weight.max())
    expected = weight @ (tau[:, None] ** 2 / variances * y) / weight.sum()
    model = kmc.Model(
        lambda p: -0.5 * float(np.sum(((y - p["theta"]) / errors) ** 2)),
        parameters={"tau": kmc.HalfNormal(5), "theta": kmc.Normal(0, "tau", shape=2)},
    )
    sampler = kmc.KernelHMC(learning_share=0.2)
    idata = kmc.sample(
        model, sampler=sampler, max_evaluations=900, draws=None, seed=1, progress=False
    )
    draws = idata.posterior["theta"]
    error = draws.std(("chain", "draw")) / np.sqrt(bulk_ess(draws.values))
    np.testing.assert_array_less(np.abs(draws.mean(("chain", "draw")) - expected), 4 * error)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"a": kmc.Normal("b", 1), "b": kmc.Normal(0, 1)},
            r"parameters\['a'\] names 'b': expected one of none",
        ),
        (
            {"b": kmc.Positive(), "a": kmc.Normal(0, "b")},
            r"parameters\['a'\] names 'b': expected one of none",
        ),
        (
            {"b": kmc.Dirichlet([1.0, 1.0]), "a": kmc.Normal("b", 1, shape=2)},
            r"parameters\['a'\] names 'b': expected one of 'b', parameters with priors of single "
            r"numbers",
        ),
        (
            {"b": kmc.Normal(0, 1, shape=3), "a": kmc.Normal("b", 1, shape=2)},
            r"parameters\['a'\] of shape \(2,\) names 'b' of shape \(3,\): expected a shape that "
            r"broadcasts to it",
        ),
    ],
)
def test_names_in_priors_are_checked(parameters, message):
    with pytest.raises(ValueError, match=message):
        kmc.Model(flat, parameters=parameters)


# What cannot be a prior

WRONG = [
    (stats.poisson(3), TypeError, "scipy.stats.poisson\\(3\\) is discrete: .* sum it out"),
    (stats.gamma, TypeError, "has no parameters: freeze it by calling it"),
    (
        stats.norm([0, 1], 1),
        ValueError,
        "has arrays as its parameters: .*kmc.Prior\\(..., shape=...\\)",
    ),
    (stats.norm(0, -1), ValueError, "scipy.stats.norm\\(0, -1\\) has no support"),
    (
        stats.wishart(3, np.eye(2)),
        TypeError,
        "expected a frozen continuous distribution of one number",
    ),
    (
        stats.gaussian_kde(np.arange(5.0)),
        TypeError,
        "expected a frozen continuous distribution of one number",
    ),
]


@pytest.mark.parametrize(("given", "error", "message"), WRONG, ids=lambda thing: "")
def test_invalid_priors_are_named(given, error, message):
    with pytest.raises(error, match=rf"^parameters\['a'\]: distribution=.*{message}"):
        kmc.Model(flat, parameters={"a": given})
    with pytest.raises(error, match=rf"^distribution=.*{message}"):
        kmc.Prior(given)


@pytest.mark.parametrize("bounds", [(0, 10), [0.5, 2]])
def test_two_bounds_are_an_interval(bounds):
    with pytest.raises(
        TypeError, match=rf"for numbers between two bounds kmc.Interval\({bounds[0]}, {bounds[1]}\)"
    ):
        kmc.Model(flat, parameters={"a": bounds})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kmc.Normal(np.nan, 1), "^mean=nan: expected a number"),
        (lambda: kmc.Normal(0, 0), "^sd=0: expected a number"),
        (lambda: kmc.Uniform(1, 1), "^low=1.0 and high=1.0: expected low < high"),
        (lambda: kmc.Gamma(-1, 1), "^alpha=-1: expected"),
        (lambda: kmc.StudentT(3, scale=-2), "^scale=-2: expected"),
        (lambda: kmc.LogNormal(1e4, 1), "^mean=10000.0: expected the log of a float64"),
        (lambda: kmc.Dirichlet([1.0]), r"^alpha=\[1.0\]: expected at least two positive numbers"),
        (lambda: kmc.Dirichlet([1.0, -1.0]), "^alpha=.*: expected at least two positive numbers"),
    ],
)
def test_parameters_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Distributions of vectors, and of other packages

COVARIANCE = np.array([[1.0, 0.9], [0.9, 1.0]])
VECTORS = [
    stats.multivariate_normal([1.0, -1.0], COVARIANCE),
    stats.multivariate_t([1.0, -1.0], COVARIANCE, df=5),
]


@pytest.mark.parametrize("law", VECTORS, ids=["normal", "t"])
@pytest.mark.parametrize("shape", [None, 3])
def test_correlated_priors(law, shape):
    model = kmc.Model(flat, parameters={"v": kmc.Prior(law, shape=shape)})
    n = 1 if shape is None else shape
    assert model.dim == 2 * n
    x = np.random.default_rng(0).standard_normal((1, 2 * n))
    expected = sum(law.logpdf(row) for row in x.reshape(n, 2))
    assert model.log_added(x[0]) == pytest.approx(expected, rel=1e-12)
    draws = model.prior.draw(np.random.default_rng(1), 4000)["v"].reshape(-1, 2)
    correlation = np.corrcoef(stats.rankdata(draws[:, 0]), stats.rankdata(draws[:, 1]))[0, 1]
    assert abs(correlation - 0.89) < 0.03


def test_a_singular_covariance_is_refused():
    with pytest.raises(
        ValueError, match="multivariate_normal.* has a covariance of rank 1: expected 2"
    ):
        kmc.Prior(stats.multivariate_normal([0, 0], np.ones((2, 2)), allow_singular=True))


class LikePreliZ:
    """The interface of PreliZ's distributions, of a half-normal one."""

    kind = "continuous"
    support = (0, np.inf)

    def logpdf(self, x):
        return stats.halfnorm(scale=2).logpdf(x)

    def rvs(self, size=None, random_state=None):
        return stats.halfnorm(scale=2).rvs(size, random_state=random_state)


NEW = hasattr(stats, "Normal")  # scipy 1.15
OTHERS = {"preliz": (LikePreliZ(), stats.halfnorm(scale=2), transforms.Above(0.0))}
if NEW:
    OTHERS["scipy"] = stats.Normal(mu=1.0, sigma=2.0), stats.norm(1, 2), transforms.Identity()
    OTHERS["truncated"] = (
        stats.truncate(stats.Normal(mu=0.0, sigma=1.0), lb=-1.0, ub=2.0),
        stats.truncnorm(-1, 2),
        transforms.Between(-1.0, 2.0),
    )


@pytest.mark.parametrize(("law", "expected", "transform"), OTHERS.values(), ids=OTHERS)
def test_distributions_of_other_packages(law, expected, transform):
    model = kmc.Model(flat, parameters={"a": law, "b": kmc.Prior(law, shape=3)})
    assert model.parameters["a"].transform == transform
    values = model.prior.draw(np.random.default_rng(0), 1000)
    assert values["b"].shape == (1000, 3)
    assert stats.kstest(values["a"], expected.cdf).pvalue > 1e-4
    total = expected.logpdf(values["a"]) + expected.logpdf(values["b"]).sum(axis=1)
    np.testing.assert_allclose(model.prior.log_density(values), total, rtol=1e-10)


def test_discrete_distributions_of_other_packages_are_refused():
    discrete = type("Poisson", (LikePreliZ,), {"kind": "discrete"})()
    laws = [discrete, stats.Binomial(n=3, p=0.5)] if NEW else [discrete]
    for law in laws:
        with pytest.raises(TypeError, match="is discrete: kmc samples continuous parameters only"):
            kmc.Model(flat, parameters={"a": law})


@pytest.mark.parametrize("concentration", [0.7, 2.0])
def test_the_density_of_lkj_factors_is_one_in_all(concentration):
    """Integrated over the unconstrained vector, for two and three rows."""
    for size, n in ((2, 4001), (3, 61)):
        model = kmc.Model(flat, parameters={"factor": kmc.LKJ(size, concentration)})
        axis, step = np.linspace(-8, 8, n, retstep=True)
        points = np.stack(np.meshgrid(*[axis] * model.dim), axis=-1).reshape(-1, model.dim)
        total = np.exp(model.log_added(points)).sum() * step**model.dim
        assert total == pytest.approx(1.0, abs=2e-3)


def test_draws_of_lkj_factors_have_the_known_marginal():
    size, concentration = 4, 1.5
    prior = kmc.LKJ(size, concentration).distribution
    factors = prior.draw(np.random.default_rng(2), (2000,))
    matrices = factors @ np.swapaxes(factors, 1, 2)
    half = concentration + size / 2 - 1
    for i, j in ((1, 0), (3, 2), (3, 0)):
        assert stats.kstest(0.5 * (matrices[:, i, j] + 1), stats.beta(half, half).cdf).pvalue > 1e-4


def test_a_uniform_angle_and_a_von_mises_angle():
    model = kmc.Model(
        flat, parameters={"hour": kmc.CircularUniform(0, 24), "phase": kmc.VonMises(0.5, 2.0)}
    )
    assert model.dim == 4 and model.variable_attrs["hour"]["period"] == 24
    values = model.prior.draw(np.random.default_rng(3), 1000)
    assert stats.kstest(values["hour"] / 24, "uniform").pvalue > 1e-4
    expected = stats.vonmises(2.0, 0.5).logpdf(values["phase"]) - np.log(24)
    np.testing.assert_allclose(model.prior.log_density(values), expected)


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (
            kmc.TruncatedNormal,
            {"mean": 0.0, "sd": 1.0, "low": 2.0, "high": 1.0},
            "low=2.0 and high=1.0: expected low <",
        ),
        (kmc.TruncatedNormal, {"mean": 0.0, "sd": 1.0, "low": "a"}, "low='a'"),
        (kmc.InverseGamma, {"alpha": 0.0, "scale": 1.0}, "alpha=0.0"),
        (kmc.LKJ, {"size": 1}, "size=1"),
        (kmc.LKJ, {"size": 2, "concentration": -1.0}, "concentration=-1.0"),
        (kmc.PositiveDefinite, {"size": 0}, "size=0"),
        (kmc.CircularUniform, {"low": 1.0, "high": 1.0}, "low=1.0 and high=1.0"),
        (kmc.VonMises, {"center": 0.0, "concentration": 0.0}, "concentration=0.0"),
    ],
)
def test_parameters_of_priors_are_checked(kind, given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        kind(**given)


def test_far_tails_of_a_truncated_normal_keep_their_bounds():
    prior = kmc.TruncatedNormal(0.1, 0.3, 0.2, 0.7, shape=2)
    assert prior.transform == transforms.Between(0.2, 0.7) and kmc.PositiveDefinite(
        2, shape=3
    ).shape == (3,)
