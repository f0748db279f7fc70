"""Likelihoods are those of scipy.stats, their gradients those of finite differences, their draws of
these moments.
"""

import numpy as np
import pytest
import scipy.stats
from scipy.optimize import approx_fprime

import kmc
from kmc.likelihoods import (
    Bernoulli,
    Binomial,
    Custom,
    Likelihood,
    LogNormal,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    Poisson,
    StudentT,
)

RNG = np.random.default_rng(0)
N = 7
OUT = RNG.uniform(0.5, 4.0, N)
SHARE = RNG.uniform(0.1, 0.9, N)
REAL = OUT + RNG.normal(size=N)
POSITIVE = OUT * np.exp(0.4 * RNG.normal(size=N))
COUNTS = RNG.poisson(OUT)
ERRORS = RNG.uniform(0.2, 0.6, N)
P = {
    "sigma": 0.7,
    "jitter": 0.3,
    "rel": 0.2,
    "df": 3.5,
    "phi": 2.5,
    "each": RNG.uniform(0.5, 1.0, N),
}
COV = 0.5 * np.exp(-np.abs(np.subtract.outer(np.arange(N), np.arange(N))))

MIXED = np.sqrt(ERRORS**2 + 0.3**2 + (0.2 * OUT) ** 2)
REFERENCES = {
    "normal": (Normal(REAL, 0.7), OUT, scipy.stats.norm(OUT, 0.7), REAL),
    "normal, a scale for each": (Normal(REAL, "each"), OUT, scipy.stats.norm(OUT, P["each"]), REAL),
    "normal, sum of variances": (
        Normal(REAL, [ERRORS, "jitter"], relative="rel"),
        OUT,
        scipy.stats.norm(OUT, MIXED),
        REAL,
    ),
    "normal, relative alone": (
        Normal(REAL, relative=0.2),
        OUT,
        scipy.stats.norm(OUT, 0.2 * OUT),
        REAL,
    ),
    "log-normal": (
        LogNormal(POSITIVE, "sigma"),
        OUT,
        scipy.stats.lognorm(0.7, scale=OUT),
        POSITIVE,
    ),
    "student": (StudentT(REAL, "df", "sigma"), OUT, scipy.stats.t(3.5, OUT, 0.7), REAL),
    "student, sum": (
        StudentT(REAL, 4, [ERRORS, "jitter"], relative="rel"),
        OUT,
        scipy.stats.t(4, OUT, MIXED),
        REAL,
    ),
    "poisson": (Poisson(COUNTS), OUT, scipy.stats.poisson(OUT), COUNTS),
    "negative binomial": (
        NegativeBinomial(COUNTS, "phi"),
        OUT,
        scipy.stats.nbinom(2.5, 2.5 / (2.5 + OUT)),
        COUNTS,
    ),
    "binomial": (Binomial(COUNTS, 12), SHARE, scipy.stats.binom(12, SHARE), COUNTS),
    "bernoulli": (Bernoulli(COUNTS > 1), SHARE, scipy.stats.bernoulli(SHARE), COUNTS > 1),
}
CENSORED = {
    "normal": (Normal, scipy.stats.norm(OUT, 0.7), ("sigma",)),
    "log-normal": (LogNormal, scipy.stats.lognorm(0.7, scale=OUT), ("sigma",)),
    "student": (StudentT, scipy.stats.t(3.5, OUT, 0.7), ("df", "sigma")),
}
BOUNDED = np.clip(POSITIVE, 1.5, 2.5)


def with_gain(outputs, parameters):
    return parameters["gain"] * outputs + parameters["background"]


def covariance(parameters):
    return parameters["sigma"] ** 2 * (COV + 0.1 * np.eye(N))


GRADIENTS = {
    **{name: (likelihood, out) for name, (likelihood, out, _, _) in REFERENCES.items()},
    **{
        f"censored {name}": (cls(BOUNDED, *names, lower=1.5, upper=2.5), OUT)
        for name, (cls, _, names) in CENSORED.items()
    },
    "censored, sum": (StudentT(BOUNDED, "df", ["sigma", "sigma"], relative="rel", lower=1.5), OUT),
    "multivariate": (MultivariateNormal(REAL, COV), OUT),
    "multivariate, function": (MultivariateNormal(REAL, covariance), OUT),
    "observed through a function": (Normal(REAL, "sigma", observe=with_gain), OUT),
    "custom": (Custom(lambda y, v: -abs(REAL - y) / v[0] - np.log(v[0]), ["sigma"]), OUT),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_log_likelihoods_are_those_of_scipy(name):
    likelihood, out, reference, data = REFERENCES[name]
    log_density = reference.logpmf if hasattr(reference.dist, "pmf") else reference.logpdf
    found = likelihood.log_likelihoods(out, P)
    assert found.shape == (N,)
    np.testing.assert_allclose(found, log_density(data), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CENSORED)
def test_a_value_equal_to_its_bound_is_censored(name):
    cls, reference, names = CENSORED[name]
    found = cls(BOUNDED, *names, lower=1.5, upper=2.5).log_likelihoods(OUT, P)
    low, high = BOUNDED == 1.5, BOUNDED == 2.5
    assert low.any() and high.any() and not (low | high).all()
    expected = np.where(
        low, reference.logcdf(1.5), np.where(high, reference.logsf(2.5), reference.logpdf(BOUNDED))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_bounds_may_differ_between_observations():
    upper = np.full(N, np.inf)
    upper[0] = REAL[0]
    found = Normal(REAL, 0.7, upper=upper).log_likelihoods(OUT, {})
    expected = scipy.stats.norm(OUT, 0.7).logpdf(REAL)
    expected[0] = scipy.stats.norm(OUT[0], 0.7).logsf(REAL[0])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_far_tails_of_censored_data_are_finite():
    likelihood = Normal([0.0, 1.0], 0.01, lower=0.0)
    values = likelihood.log_likelihoods([30.0, 1.0], {})
    along, _ = likelihood.gradients([30.0, 1.0], {})
    assert values[0] == pytest.approx(scipy.stats.norm.logcdf(-3000.0)) and np.isfinite(along).all()


def test_correlated_errors_have_the_joint_density_of_scipy():
    likelihood = MultivariateNormal(REAL, COV)
    each = likelihood.log_likelihoods(OUT, {})
    assert each.sum() == pytest.approx(
        scipy.stats.multivariate_normal(OUT, COV).logpdf(REAL), rel=1e-12
    )
    first = scipy.stats.multivariate_normal(OUT[:3], COV[:3, :3]).logpdf(REAL[:3])
    assert each[:3].sum() == pytest.approx(first, rel=1e-12)
    some = np.where(np.arange(N) == 2, np.nan, REAL)
    kept = np.arange(N) != 2
    reference = scipy.stats.multivariate_normal(OUT[kept], COV[np.ix_(kept, kept)])
    found = MultivariateNormal(some, COV).log_likelihoods(np.where(kept, OUT, np.nan), {})
    assert found[2] == 0.0 and found.sum() == pytest.approx(reference.logpdf(REAL[kept]), rel=1e-12)
    assert np.all(
        MultivariateNormal(REAL, lambda p: COV - np.eye(N)).log_likelihoods(OUT, {}) == -np.inf
    )


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_finite_differences(name):
    likelihood, out = GRADIENTS[name]
    needed = {*likelihood.names, *(("sigma", "gain", "background") if "function" in name else ())}
    parameters = {one: {**P, "gain": 1.3, "background": 0.2}[one] for one in needed}
    along, by_name = likelihood.gradients(out, parameters)

    def at(outputs):
        return likelihood.log_likelihoods(outputs, parameters).sum()

    np.testing.assert_allclose(along, approx_fprime(out, at, 1e-7), rtol=2e-5, atol=2e-5)
    assert set(by_name) == needed and set(likelihood.names) <= needed
    for one, found in by_name.items():
        value = np.asarray(parameters[one])

        def of(x, one=one, shape=value.shape):
            return likelihood.log_likelihoods(out, {**parameters, one: x.reshape(shape)}).sum()

        expected = approx_fprime(np.atleast_1d(value), of, 1e-7).reshape(value.shape)
        assert found.shape == value.shape
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", REFERENCES)
def test_draws_have_the_mean_and_variance_of_scipy(name):
    likelihood, out, reference, _ = REFERENCES[name]
    n, rng = 4000, np.random.default_rng(1)
    draws = np.array([likelihood.draw(out, P, rng) for _ in range(n)], float)
    mean, variance = reference.stats("mv")
    errors = np.sqrt(variance / n)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4.5 * errors)
    if np.all(np.isfinite(reference.stats("k"))):
        spread = np.sqrt((reference.stats("k") + 2.0) / n)  # relative standard error of a variance
        assert np.all(np.abs(draws.var(axis=0) / variance - 1.0) < 5.0 * spread)
    else:  # no fourth moment: compare the distribution function at the median of each
        below = (draws <= reference.median()).mean(axis=0)
        assert np.all(np.abs(below - 0.5) < 4.5 * 0.5 / np.sqrt(n))


def test_correlated_draws_have_this_covariance():
    n, rng, likelihood = 4000, np.random.default_rng(1), MultivariateNormal(REAL, COV)
    draws = np.array([likelihood.draw(OUT, {}, rng) for _ in range(n)])
    errors = np.sqrt((COV**2 + np.outer(np.diag(COV), np.diag(COV))) / n)
    assert np.all(np.abs(np.cov(draws.T) - COV) < 4.5 * errors)


@pytest.mark.parametrize("name", CENSORED)
def test_draws_are_censored_as_the_data_are(name):
    cls, reference, names = CENSORED[name]
    likelihood, n, rng = cls(BOUNDED, *names, lower=1.5, upper=2.5), 2000, np.random.default_rng(2)
    draws = np.array([likelihood.draw(OUT, P, rng) for _ in range(n)])
    assert draws.min() == 1.5 and draws.max() == 2.5
    share = reference.cdf(1.5)
    assert np.all(
        np.abs((draws == 1.5).mean(axis=0) - share) < 4.5 * np.sqrt(share * (1 - share) / n) + 1e-3
    )


def test_a_ufunc_observes_the_outputs_alone():
    likelihood, out = Poisson([3, 0, 2], observe=np.exp), np.array([0.9, -0.3, 0.4])
    plain = Poisson([3, 0, 2])
    np.testing.assert_array_equal(
        likelihood.log_likelihoods(out, {}), plain.log_likelihoods(np.exp(out), {})
    )
    along, _ = likelihood.gradients(out, {})
    np.testing.assert_allclose(along, [3, 0, 2] - np.exp(out), rtol=1e-6)


@pytest.mark.parametrize("name", REFERENCES)
def test_missing_data_add_nothing_whatever_the_output(name):
    likelihood, out, _, data = REFERENCES[name]
    gaps = np.where(np.arange(N) == 3, np.nan, data)
    made = {
        "Binomial": lambda: Binomial(gaps, 12),
        "Bernoulli": lambda: Bernoulli(gaps),
        "Poisson": lambda: Poisson(gaps),
    }
    made |= {
        "NegativeBinomial": lambda: NegativeBinomial(gaps, "phi"),
        "LogNormal": lambda: LogNormal(gaps, "sigma"),
    }
    made |= {
        "Normal": lambda: Normal(gaps, "sigma"),
        "StudentT": lambda: StudentT(gaps, "df", "sigma"),
    }
    some = made[type(likelihood).__name__]()
    assert some.can_draw and np.isnan(some.observed[3])
    unknown = np.where(np.arange(N) == 3, np.nan, out)
    found = some.log_likelihoods(unknown, P)
    along, by_name = some.gradients(unknown, P)
    assert (
        found[3] == 0.0
        and along[3] == 0.0
        and np.isfinite(found).all()
        and np.isfinite(along).all()
    )
    assert all(np.isfinite(each).all() for each in by_name.values())
    np.testing.assert_array_equal(found, some.log_likelihoods(out, P))
    drawn = some.draw(unknown, P, np.random.default_rng(0))
    assert np.isnan(drawn[3]) and np.isfinite(np.delete(drawn, 3)).all()
    assert np.isnan(some.log_likelihoods(np.where(np.arange(N) == 2, np.nan, out), P)[2])


def test_where_the_density_is_zero():
    assert LogNormal([1.0, 1.0], 0.5).log_likelihoods([0.0, -1.0], {}).tolist() == [
        -np.inf,
        -np.inf,
    ]
    assert Poisson([0, 1]).log_likelihoods([0.0, 0.0], {}).tolist() == [0.0, -np.inf]
    assert Poisson([0]).log_likelihoods([-1.0], {}) == -np.inf
    assert NegativeBinomial([0], 2.0).log_likelihoods([-1.0], {}) == -np.inf
    assert Binomial([0, 2], 2).log_likelihoods([0.0, 1.0], {}).tolist() == [0.0, 0.0]
    assert Binomial([1], 2).log_likelihoods([1.5], {}) == -np.inf
    assert Bernoulli([0, 1]).log_likelihoods([1.0, 1.1], {}).tolist() == [-np.inf, -np.inf]
    assert Normal([0.0], "sigma").log_likelihoods([0.0], {"sigma": -1.0}) == -np.inf
    assert StudentT([0.0], "df", 1.0).log_likelihoods([0.0], {"df": -1.0}) == -np.inf


def test_counts_are_drawn_at_any_mean():
    for likelihood in (Poisson([1, 2]), NegativeBinomial([1, 2], 3.0)):
        drawn = likelihood.draw([1e30, 0.0], {}, np.random.default_rng(0))
        assert drawn[0] > 1e18 and drawn[1] == 0 and drawn.dtype.kind == "i"


def test_data_may_have_any_shape():
    grid = Normal(REAL[:6].reshape(2, 3), sd=ERRORS[:3])
    found = grid.log_likelihoods(OUT[:6].reshape(2, 3), {})
    expected = scipy.stats.norm(OUT[:6].reshape(2, 3), ERRORS[:3]).logpdf(REAL[:6].reshape(2, 3))
    np.testing.assert_allclose(found, expected)
    assert Normal(1.0, "sigma").gradients(2.0, {"sigma": 1.0})[1]["sigma"] == 0.0
    column = {"column": np.array([0.5, 0.6, 0.7])}
    likelihood = Normal(REAL[:6].reshape(2, 3), "column")
    assert likelihood.gradients(OUT[:6].reshape(2, 3), column)[1]["column"].shape == (3,)


def test_a_custom_likelihood_may_have_its_gradient():
    def gradient(outputs, values):
        z = (REAL - outputs) / values[0]
        return z / values[0], np.array([np.sum(z**2 - 1.0) / values[0]])

    def f(outputs, values):
        return scipy.stats.norm(outputs, values[0]).logpdf(REAL)

    exact, differences = Custom(f, ["sigma"], gradient=gradient), Custom(f, ["sigma"])
    for found, expected in zip(exact.gradients(OUT, P), differences.gradients(OUT, P)):
        np.testing.assert_allclose(
            np.ravel(list(found.values()) if isinstance(found, dict) else found),
            np.ravel(list(expected.values()) if isinstance(expected, dict) else expected),
            rtol=1e-6,
        )
    assert exact.names == ("sigma",) and not exact.can_draw and isinstance(exact, Likelihood)
    with pytest.raises(
        TypeError, match=r"Custom gives no draws: simulate data with kmc\.predictive"
    ):
        exact.draw(OUT, P, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (
            lambda: Normal([1.0]),
            TypeError,
            r"sd=None and relative=None: expected a standard deviation in one",
        ),
        (
            lambda: Normal([1.0], 0.0),
            ValueError,
            r"sd=0\.: expected positive numbers, or the name of a parameter",
        ),
        (lambda: Normal([1.0], True), TypeError, r"sd=True: expected positive numbers"),
        (
            lambda: Normal([1.0, 2.0, 3.0], [1.0, 2.0]),
            ValueError,
            r"sd has the shape \(2,\): .* data, \(3,\)",
        ),
        (
            lambda: Normal([np.nan], 1.0),
            ValueError,
            r"observed=\[nan\]: expected at least one number",
        ),
        (
            lambda: Normal([np.inf], 1.0),
            ValueError,
            r"observed=\[inf\]: expected finite numbers, or NaN where",
        ),
        (
            lambda: Normal(["a"], 1.0),
            ValueError,
            r"observed does not convert to an array of numbers",
        ),
        (
            lambda: Normal([3.0], 1.0, upper=2.0),
            ValueError,
            r"observed has the value 3: expected at most upper=2\.0",
        ),
        (
            lambda: Normal([3.0], 1.0, lower=4.0),
            ValueError,
            r"observed has the value 3: expected at least lower=4",
        ),
        (
            lambda: Normal([3.0], 1.0, lower=4, upper=2),
            ValueError,
            r"lower=4 and upper=2: expected lower bounds",
        ),
        (
            lambda: Normal([3.0], 1.0, observe=2),
            TypeError,
            r"observe=2: expected a function of the outputs and",
        ),
        (
            lambda: LogNormal([0.0], 1.0),
            ValueError,
            r"observed has the value 0: expected positive numbers",
        ),
        (
            lambda: LogNormal([1.0], 1.0, lower=0.0),
            ValueError,
            r"lower has the value 0: expected positive numbers",
        ),
        (
            lambda: LogNormal([1.0], None),
            TypeError,
            r"sd=None: expected the standard deviation of the data's log",
        ),
        (
            lambda: StudentT([1.0], 3.0),
            TypeError,
            r"scale=None and relative=None: expected a scale",
        ),
        (lambda: StudentT([1.0], -3.0, 1.0), ValueError, r"df=-3\.: expected positive numbers"),
        (
            lambda: Poisson([0.5]),
            ValueError,
            r"observed has the value 0\.5: expected whole numbers from 0",
        ),
        (
            lambda: NegativeBinomial([-1], 1.0),
            ValueError,
            r"observed has the value -1: expected whole numbers",
        ),
        (
            lambda: Binomial([3], 2),
            ValueError,
            r"observed has the value 3: expected at most the number of trials, n=2",
        ),
        (
            lambda: Binomial([3], 3.5),
            ValueError,
            r"n has the value 3\.5: expected whole numbers of at least 1",
        ),
        (lambda: Bernoulli([2]), ValueError, r"observed has the value 2: expected 0 or 1"),
        (
            lambda: MultivariateNormal([[1.0]], [[1.0]]),
            ValueError,
            r"observed has the shape \(1, 1\): expected \(n,\)",
        ),
        (
            lambda: MultivariateNormal([1.0], np.eye(2)),
            ValueError,
            r"cov has the shape \(2, 2\): expected \(1, 1\)",
        ),
        (
            lambda: MultivariateNormal([1.0, 2.0], [[1, 2], [0, 1]]),
            ValueError,
            r"cov is not symmetric",
        ),
        (lambda: MultivariateNormal([1.0], [[-1.0]]), ValueError, r"cov is not positive-definite"),
        (lambda: Custom(3), TypeError, r"f=3: expected a function of the outputs"),
        (
            lambda: Custom(abs, "ab"),
            TypeError,
            r"parameters='ab': expected a list of parameters' names",
        ),
        (lambda: Custom(abs, gradient=3), TypeError, r"gradient=3: expected a function"),
    ],
)
def test_bad_arguments_are_named(make, error, said):
    with pytest.raises(error, match=said):
        make()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: Normal(REAL, 1.0).log_likelihoods(OUT[:3], {}),
            r"the outputs have the shape \(3,\): expected \(7,\)",
        ),
        (
            lambda: Normal(REAL, "s").log_likelihoods(OUT, {"t": 1.0}),
            r"sd='s' is not a parameter: expected some of t",
        ),
        (
            lambda: Normal(REAL, "s").log_likelihoods(OUT, {"s": ERRORS[:2]}),
            r"sd='s' has the shape \(2,\): expected a",
        ),
        (
            lambda: Normal(REAL, 1.0, observe=lambda y, p: y[:2]).log_likelihoods(OUT, {}),
            r"observe returned the shape \(2,\): expected \(7,\), as the data have",
        ),
        (
            lambda: Custom(f=abs, parameters=["a"]).log_likelihoods(OUT, {}),
            r"parameters has 'a': expected",
        ),
        (
            lambda: Custom(lambda y, v: y, gradient=lambda y, v: (y[:2], v)).gradients(OUT, {}),
            r"gradient returned the shapes \(2,\) and \(0,\): expected \(7,\)",
        ),
    ],
)
def test_what_does_not_fit_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_all_likelihoods_have_the_interface():
    made = [
        getattr(kmc.likelihoods, name) for name in kmc.likelihoods.__all__ if name != "Likelihood"
    ]
    assert {type(likelihood) for likelihood, _ in GRADIENTS.values()} == set(made)
    assert all(isinstance(likelihood, Likelihood) for likelihood, _ in GRADIENTS.values())
