"""Parameters on a circle, compared with an oracle, scipy's von Mises distribution and integrals
over the plane.
"""

import json

import numpy as np
import pytest
from scipy import stats

import kmc
from kmc.diagnostics.summary import Circle
from kmc.model.angles import SPREAD, Direction
from tests.oracles import transforms as oracles

BORDERS = pytest.mark.parametrize(
    ("low", "high"), [(-np.pi, np.pi), (0.0, 2 * np.pi), (0.0, 24.0), (-180.0, 180.0)]
)


@pytest.fixture
def x():
    return np.random.default_rng(2).standard_normal((40, 2))


@BORDERS
def test_the_definition(low, high, x):
    transform = Direction(low, high)
    np.testing.assert_allclose(
        transform.constrain(x), [oracles.direction(each, low, high) for each in x], rtol=1e-12
    )
    expected = [oracles.log_plane_density(each, low, high, SPREAD) for each in x]
    np.testing.assert_allclose(transform.log_jacobian(x), expected)


@BORDERS
def test_the_marginal_is_the_users_density(low, high):
    """Over the plane, what the sampler gets integrates to the density of the angle, whatever the
    border.
    """
    law = stats.vonmises(2.0, loc=high - 0.05 * (high - low), scale=(high - low) / (2 * np.pi))
    edges = np.linspace(low, high, 9)
    r, dr = np.linspace(0.2, 5.0, 401, retstep=True)
    turns = (np.arange(800) + 0.5) / 800
    points = np.multiply.outer(
        r, np.stack([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)], axis=-1)
    )
    transform = Direction(low, high)
    y = transform.constrain(points)
    mass = (
        np.exp(law.logpdf(y) + transform.log_jacobian(points)) * r[:, None] * dr * 2 * np.pi / 800
    )
    assert mass.sum() == pytest.approx(1.0, abs=1e-4)
    share = np.histogram(y, edges, weights=mass)[0]
    circle = Circle(low, high - low)
    exact = (
        np.random.default_rng(0).vonmises(0.0, 2.0, 400_000) * (high - low) / (2 * np.pi)
        + law.kwds["loc"]
    )
    drawn = np.histogram(circle.wrapped(exact), edges)[0] / exact.size
    assert np.abs(share - drawn).max() < 4 * np.sqrt(0.25 / exact.size) + 1e-4


@BORDERS
def test_every_value_comes_back(low, high):
    transform = Direction(low, high)
    y = np.append(np.linspace(low, high, 200, endpoint=False), np.nextafter(high, low)).reshape(
        3, 67
    )
    again = transform.constrain(transform.unconstrain(y))
    turns = (again - y) / (high - low)
    np.testing.assert_allclose(turns - np.round(turns), 0, atol=1e-14)
    assert transform.contains(again).all()


@pytest.mark.parametrize("value", [0.0, -700.0, -1e-300, 5e-324, 1e-9, 700.0, 1e300])
def test_everywhere_finite_and_inside(value):
    transform = Direction(-1.0, 2.0)
    at = np.array([[value, value], [value, -value], [-abs(value), -0.0], [-abs(value), 0.0]])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        y, jacobian = transform.constrain(at), transform.log_jacobian(at)
    assert transform.contains(y).all() and np.isfinite(jacobian).all()


def test_every_number_is_a_direction():
    """An angle of 3.18 is one of 3.18 - 2 pi."""
    assert Direction(0.0, 1.0).contains(np.array([0.0, 1.0, -1e-9, 2.0])).all()
    assert not Direction(0.0, 1.0).contains(np.array([np.nan, np.inf])).any()
    model = kmc.Model(
        lambda p: np.cos(p["a"]), parameters={"a": kmc.Angle()}, initial={"a": [3.18]}
    )
    np.testing.assert_allclose(model.constrain(model.initial)["a"], [3.18 - 2 * np.pi])


@pytest.mark.parametrize("bounds", [(1, 0), (1, 1), (0, 5e-324)])
def test_bounds_have_numbers_between_them(bounds):
    with pytest.raises(
        ValueError, match=r"^low=.* and high=.*: expected low < high, with numbers in between"
    ):
        kmc.Circular(*bounds)


# Runs

RNG = np.random.default_rng(3)
TIMES = np.sort(RNG.uniform(0, 30, 25))
VELOCITY = 20 * np.cos(2 * np.pi * TIMES / 7.3) + RNG.normal(0, 10, 25)


def orbit(p):
    """Radial velocities on a circular orbit of known period, at an angle near 0."""
    misfit = VELOCITY - p["K"] * np.cos(2 * np.pi * TIMES / 7.3 + p["w"])
    return -0.5 * np.sum(misfit**2) / 100 - p["K"] / 100


def reference():
    """Circular mean and sd of w, by quadrature."""
    K, w = np.meshgrid(np.linspace(0.01, 50, 300), np.linspace(-np.pi, np.pi, 600, endpoint=False))
    curves = K[..., None] * np.cos(2 * np.pi * TIMES / 7.3 + w[..., None])
    logs = -0.5 * np.sum((VELOCITY - curves) ** 2, axis=-1) / 100 - K / 100
    weights = np.exp(logs - logs.max())
    resultant = np.sum(weights * np.exp(1j * w)) / weights.sum()
    return np.angle(resultant), np.sqrt(-2 * np.log(np.abs(resultant)))


def run(parameter, seed=1, **options):
    model = kmc.Model(orbit, parameters={"K": kmc.Positive(), "w": parameter})
    return kmc.sample(
        model, **{"draws": 400, "max_evaluations": 3000, "seed": seed, "progress": False} | options
    )


@pytest.fixture(scope="module")
def orbits():
    return run(kmc.Circular(0, 2 * np.pi), draws=150, max_evaluations=1500)


def test_an_orbit_with_an_angle_at_the_border(orbits):
    mean, sd = reference()
    row = kmc.summary(orbits).loc["w"]
    assert abs((row["mean"] - mean + np.pi) % (2 * np.pi) - np.pi) < 4 * row["mcse_mean"]
    assert abs(row["sd"] - sd) < 4 * row["mcse_sd"] + 0.002
    assert row["ess_bulk"] > 150 and row["r_hat"] < 1.05
    assert json.loads(orbits.attrs["warnings"]) == []
    w = orbits["posterior"]["w"]
    assert w.shape == (4, 150) and float(w.min()) >= 0 and float(w.max()) < 2 * np.pi
    assert w.attrs["circular"] == 1 and w.attrs["low"] == 0 and w.attrs["period"] == 2 * np.pi
    np.testing.assert_allclose(
        orbits["sample_stats"]["lp"][0, 3],
        orbit({"K": float(orbits["posterior"]["K"][0, 3]), "w": float(w[0, 3])})
        + float(np.log(orbits["posterior"]["K"][0, 3]))
        + Direction(0.0, 2 * np.pi).log_jacobian(
            orbits["unconstrained_posterior"]["x"].values[0, 3, 1:]
        ),
    )


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_an_interval_that_cuts_the_angle_is_warned_of():
    model = kmc.Model(lambda p: 30 * np.cos(p["w"]), parameters={"w": kmc.Interval(0, 2 * np.pi)})
    start = {"w": [0.1, 6.2, 0.05, 6.1]}
    idata = kmc.sample(
        model, initial=start, sampler="random-walk", draws=400, warmup=100, seed=1, progress=False
    )
    said = json.loads(idata.attrs["warnings"])
    (sentence,) = [s for s in said if "both ends" in s]
    assert "w lie" in sentence and "kmc.Circular(0, 6.28319)" in sentence


def test_arrays_of_angles_with_labels():
    model = kmc.Model(
        lambda p: float(np.sum(np.cos(p["phi"]))),
        parameters={"phi": kmc.Angle(), "psi": kmc.Circular(0, 1, shape=(2, 3))},
        dims={"phi": ["mode"]},
        coords={"mode": ["S1", "S2"]},
    )
    assert model.dim == 16
    values = model.constrain(np.random.default_rng(0).standard_normal((5, 16)))
    assert values["phi"].shape == (5, 2) and values["psi"].shape == (5, 2, 3)
    again = model.constrain(model.start_points(values, 5))
    np.testing.assert_allclose(again["phi"], values["phi"], atol=1e-12)
    np.testing.assert_allclose(again["psi"], values["psi"], atol=1e-12)


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_attributes_survive_a_store(tmp_path):
    path = tmp_path / "run.zarr"
    idata = run(kmc.Angle(), sampler="random-walk", draws=20, warmup=10, store=path)
    found = kmc.load(path)["posterior"]["w"].attrs
    assert dict(found) == dict(idata["posterior"]["w"].attrs)
    assert found["low"] == -np.pi
