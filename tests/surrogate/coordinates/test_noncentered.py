"""Coordinates of a declared hierarchy: those in which its prior is one of independent numbers."""

import dataclasses

import arviz as az
import numpy as np
import pytest

import kmc
from kmc.run.structure import added
from kmc.surrogate.coordinates.noncentered import NonCentered, closer_to_normal
from kmc.surrogate.process import Seen, first_fit, fit_again
from kmc.surrogate.regression import STARTS
from tests.oracles.differences import gradient

EFFECTS = {
    "mu": kmc.Normal(0, 5),
    "tau": kmc.HalfNormal(10),
    "theta": kmc.Normal("mu", "tau", shape=8),
}
HIERARCHIES = {
    "effects": EFFECTS,
    "rates": {
        "m": kmc.Normal(1, 2),
        "s": kmc.Uniform(0.1, 2),
        "rate": kmc.LogNormal("m", "s", shape=3),
    },
    "numbers": {
        "s": kmc.LogNormal(0, 1),
        "x": kmc.Normal(3, "s"),
        "y": kmc.Normal("x", 2.0),
        "z": kmc.Normal("k", "s"),
    }
    | {"k": 4},
    "nested": {
        "top": kmc.Normal(0, 1),
        "s": kmc.Gamma(3, 2, shape=2),
        "region": kmc.Normal("top", "s", shape=2),
        "t": kmc.HalfNormal(1),
        "site": kmc.Normal("region", "t", shape=(3, 2)),
    },
}  # fmt: skip
EACH = pytest.mark.parametrize("name", HIERARCHIES)


def known_of(name):
    model = kmc.Model(log_likelihood=lambda p: 0.0, parameters=HIERARCHIES[name])
    return model, added(model)


@EACH
def test_there_and_back(name):
    model, known = known_of(name)
    x = model.initial_points(np.random.default_rng(1), 50)
    u = known.transport(x)
    assert isinstance(known.transport, NonCentered) and known.transport.size > 0
    np.testing.assert_allclose(known.transport.back(u), x, rtol=1e-9, atol=1e-9)
    columns = [
        gradient(lambda row, i=i: known.transport(row[None])[0, i], x[0]) for i in range(model.dim)
    ]
    assert known.transport.log_jacobian(x[:1])[0] == pytest.approx(
        np.linalg.slogdet(np.array(columns))[1], rel=1e-6
    )


@EACH
def test_the_prior_is_a_sum_there(name):
    model, known = known_of(name)
    x = model.initial_points(np.random.default_rng(2), 200)
    values, _ = known.splines.values_and_gradients(known.transport(x))
    np.testing.assert_allclose(
        values + known.transport.log_jacobian(x), model.log_added(x), atol=0.05
    )


def test_deviations_are_standard_normal_there():
    model, known = known_of("effects")
    u = known.transport(model.initial_points(np.random.default_rng(3), 4000))[:, 2:]
    assert np.all(np.abs(u.mean(axis=0)) < 4.5 / np.sqrt(4000))
    assert np.all(np.abs(u.var(axis=0) - 1.0) < 4.5 * np.sqrt(2 / 4000))


def test_a_parent_that_is_no_known_function_has_no_coordinates():
    """A parameter with a prior on a circle is two coordinates."""
    parents = {"a": kmc.Normal(0, 1), "s": kmc.HalfNormal(1)}
    model = kmc.Model(
        log_likelihood=lambda p: 0.0,
        parameters={**parents, "x": kmc.Normal("a", "s"), "w": kmc.Simplex(3)},
    )
    assert added(model) is None  # the logarithm of the simplex's Jacobian is no sum


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("means", np.arange(10)),
        ("sds", np.full(10, -2)),
        ("means", np.full(10, -1.0)),
        ("numbers", np.zeros((10, 3))),
        ("transforms", None),
    ],
)
def test_fields_of_a_file_are_checked(field, wrong):
    transport = known_of("effects")[1].transport
    transport.check(10)
    with pytest.raises(ValueError, match=r"before|between|array|type"):
        dataclasses.replace(transport, **{field: wrong}).check(10)


@EACH
def test_some_are_as_in_x(name):
    model, known = known_of(name)
    whole = known.transport
    some = whole.depends & (np.arange(model.dim) % 2 == 0)
    x = model.initial_points(np.random.default_rng(5), 20)
    u = whole.only(some)(x)
    np.testing.assert_array_equal(u[:, ~some], x[:, ~some])
    np.testing.assert_array_equal(u[:, some], whole(x)[:, some])
    np.testing.assert_allclose(whole.only(some).back(u), x, rtol=1e-9, atol=1e-9)


def test_parameters_are_non_centered_where_draws_are_closer_to_normal_so():
    """Draws of the prior are, and draws of which the data say all are not; a few say nothing."""
    model, known = known_of("effects")
    whole, rng = known.transport, np.random.default_rng(6)
    prior = model.initial_points(rng, 500)
    known_well = prior.copy()
    known_well[:, 2:] = rng.standard_normal((500, 8))
    none = np.zeros(10, bool)
    np.testing.assert_array_equal(closer_to_normal(whole, none, prior), whole.depends)
    np.testing.assert_array_equal(closer_to_normal(whole, whole.depends, known_well), none)
    np.testing.assert_array_equal(closer_to_normal(whole, none, prior[:20]), none)


def test_a_quadratic_log_likelihood_is_learned_from_twice_as_many_values_as_it_has_terms():
    """Ten parameters have 66; in non-centered coordinates it would have terms of degree four."""
    rng = np.random.default_rng(7)
    factor = rng.standard_normal((8, 8)) / 3.0
    model, known = known_of("effects")
    log_prior = model.log_added

    def log_likelihood(x):
        return -0.5 * np.sum((x[:, 2:] @ factor - 1.0) ** 2, axis=1)

    def log_density(x):
        return log_prior(x) + log_likelihood(x)

    points, new = rng.standard_normal((120, 10)), rng.standard_normal((400, 10))
    new = new[log_density(new) > np.median(log_density(points))]  # not deep
    none = np.full(points.shape, np.nan)
    seen = Seen(points, log_density(points), points, none, known=known)
    process = fit_again(seen, first_fit(seen, rng), STARTS[0], rng)
    assert process.is_hierarchical
    error = process.forecast(new) - log_density(new)
    assert np.sqrt(np.mean(error**2)) < 0.1


@pytest.mark.slow
def test_a_centred_hierarchy_is_sampled_from_few_evaluations(tmp_path):
    """Eight schools (Rubin 1981), with the posterior that its non-centered form has; the store has
    the coordinates.
    """
    y, sd = np.array([28, 8, -3, 7, -1, 1, 18, 12.0]), np.array([15, 10, 16, 11, 9, 11, 10, 18.0])
    model = kmc.Model(
        log_likelihood=lambda p: -0.5 * np.sum(((y - p["theta"]) / sd) ** 2), parameters=EFFECTS
    )
    idata = kmc.sample(
        model, draws=None, max_evaluations=1500, seed=3, progress=False, store=tmp_path / "run"
    )
    assert min(float(one.min()) for one in az.ess(idata).data_vars.values()) > 500

    # The truth by quadrature over tau: mu and theta are normal given it.
    grid = np.linspace(1e-3, 60.0, 4000)
    precision = 1.0 / (sd[:, None] ** 2 + grid**2)
    total = precision.sum(axis=0) + 1 / 25
    center = (precision * y[:, None]).sum(axis=0) / total
    log_weight = -0.5 * grid**2 / 100 + 0.5 * np.log(precision).sum(axis=0) - 0.5 * np.log(total)
    log_weight -= 0.5 * ((precision * y[:, None] ** 2).sum(axis=0) - center**2 * total)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mu, tau = (idata["posterior"][name].values.ravel() for name in ("mu", "tau"))
    assert abs(tau.mean() - weight @ grid) < 4 * tau.std() / np.sqrt(500)
    assert abs(mu.mean() - weight @ center) < 4 * mu.std() / np.sqrt(500)
    found = kmc.expectations(kmc.load(tmp_path / "run"), lambda p: p["tau"], seed=1)
    assert abs(float(found["mean"][0]) - weight @ grid) < 4 * float(found["mcse"][0])
