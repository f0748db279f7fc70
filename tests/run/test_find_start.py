"""Start points from an optimizer."""

import numpy as np
import pytest
from scipy import stats

import kmc
from kmc.model import lotka_volterra
from tests.counted import Counted
from tests.grids import slow_except


def growth(x):
    rate, capacity = x
    if not (0 < rate < 1 and 100 < capacity < 1000):
        return -np.inf
    return -0.5 * ((rate - 0.1) / 0.01) ** 2 - 0.5 * ((capacity - 500) / 20) ** 2


def far(x):
    return -0.5 * float(np.sum(((x - 30.0) / np.arange(1, len(x) + 1)) ** 2))


@pytest.mark.parametrize(
    "bounds", [[(0, 1), (100, 1000)], np.array([[0.0, 1.0], [0.0, 3000.0]]), None]
)
def test_points_near_the_top_of_a_box(bounds):
    target = Counted(growth)
    start = kmc.find_start(target, dim=2, bounds=bounds, n_points=6, seed=1)
    assert start.initial.shape == (6, 2) and start.log_density.shape == (6,)
    assert target.n == start.n_evaluations == len(start.x) == len(start.values) <= 400
    np.testing.assert_allclose(start.initial[0], [0.1, 500], rtol=0.01)
    np.testing.assert_array_equal(start.log_density, [growth(x) for x in start.initial])
    np.testing.assert_array_equal(start.values, [growth(x) for x in start.x])
    assert np.all(np.diff(start.log_density) <= 0) and start.log_density[-1] > -25
    spread = start.initial.std(axis=0) / [0.01, 20]
    # of the size of the posterior, not all in one place
    assert np.all((spread > 0.3) & (spread < 3))
    assert "n_evaluations=" in repr(start)


@pytest.mark.parametrize("dim", [1, 5, 10])
def test_a_top_in_several_dimensions(dim):
    start = kmc.find_start(far, dim=dim, seed=2)
    assert start.log_density[0] > -0.1 and start.log_density[-1] > -25
    assert start.n_evaluations <= 200 + 100 * dim


def test_the_seed_decides():
    one, two, other = (
        kmc.find_start(growth, dim=2, bounds=[(0, 1), (100, 1000)], seed=s) for s in (3, 3, 4)
    )
    np.testing.assert_array_equal(one.initial, two.initial)
    assert not np.array_equal(one.initial, other.initial)


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_a_run_takes_it_as_it_is():
    start = kmc.find_start(growth, dim=2, bounds=[(0, 1), (100, 1000)], seed=1)
    seen = []

    def watched(x):
        seen.append(x)
        return growth(x)

    idata = kmc.sample(
        watched,
        dim=2,
        initial=start,
        sampler="random-walk",
        draws=3,
        warmup=0,
        seed=1,
        progress=False,
    )
    np.testing.assert_array_equal(seen[:4], start.initial)
    assert idata.attrs["n_evaluations"] == len(seen)


def test_bounds_by_name():
    def log_density(p):
        return -0.5 * ((p["a"] - 300) / 3) ** 2 - 0.5 * float(
            np.sum(((p["b"] - [0.01, 2.0]) / 0.001) ** 2)
        )

    model = kmc.Model(
        log_density,
        parameters={"a": kmc.Interval(0, 1000), "b": kmc.Positive(2), "c": kmc.Interval(0, 1)},
    )
    start = kmc.find_start(model, bounds={"a": (100, 900), "b": ([1e-3, 1.0], [0.1, 3.0])}, seed=2)
    values = model.constrain(start.initial)
    np.testing.assert_allclose(values["a"], 300, atol=15)
    np.testing.assert_allclose(values["b"], np.broadcast_to([0.01, 2.0], (4, 2)), atol=0.006)


def test_a_function_that_fails_in_places():
    def fails(x):
        return growth(x) if np.log(x[0]) < 0 else 1 / 0

    with np.errstate(invalid="ignore"):
        start = kmc.find_start(fails, dim=2, bounds=[(-1, 1), (100, 1000)], seed=1)
    np.testing.assert_allclose(start.initial[0], [0.1, 500], rtol=0.01)


def test_nothing_is_found():
    with pytest.raises(
        ValueError,
        match=r"^the log-density is -inf at each of 60 points at the usual .*give bounds",
    ):
        kmc.find_start(lambda x: -np.inf, dim=2, max_evaluations=60)
    with pytest.raises(
        ValueError,
        match=r"between bounds=\[\(0, 1\)\]; some failed \(log_density raised ZeroDivision",
    ):
        kmc.find_start(lambda x: 1 / 0, dim=1, bounds=[(0, 1)])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"bounds": [(0, 1)]}, TypeError, r"^bounds=\[\(0, 1\)\]: expected 2 pairs \(low, high\)"),
        ({"bounds": [(0, 1), (2, 1)]}, ValueError, "expected 2 pairs .*finite and low < high"),
        ({"bounds": [(0, 1), (2, np.inf)]}, ValueError, "expected 2 pairs .*finite"),
        ({"bounds": 3}, TypeError, "^bounds=3: expected 2 pairs"),
        ({"bounds": {"y": (0, 1)}}, ValueError, "^bounds has 'y', which is not a parameter"),
        ({"bounds": {"x": (0, [1, 2, 3])}}, ValueError, r"^bounds\['x'\] has a different shape"),
        ({"n_points": 0}, ValueError, "^n_points=0: expected a whole number of at least 1"),
        (
            {"max_evaluations": 3},
            ValueError,
            "^max_evaluations=3: expected a whole number of at least 10",
        ),
        ({"dim": None}, ValueError, "^dim=None"),
        ({"seed": "one"}, TypeError, "^seed='one'"),
    ],
)
def test_bad_arguments_are_named(options, error, message):
    with pytest.raises(error, match=message):
        kmc.find_start(far, **{"dim": 2, "seed": 1} | options)


def test_a_simulator_needs_few_simulations():
    """The top of a linear regression, and start points as wide as its posterior."""
    rng = np.random.default_rng(2)
    design = rng.standard_normal((30, 4))
    data = design @ [3.0, -20.0, 0.5, 40.0] + 0.1 * rng.standard_normal(30)
    calls = []

    def simulator(p):
        calls.append(1)
        return design @ p["b"]

    model = kmc.Model(
        simulator=simulator,
        likelihood=kmc.likelihoods.Normal(data, sd=0.1),
        parameters={"b": kmc.Normal(0, 30, shape=4)},
    )
    start = kmc.find_start(model, n_points=12, seed=3)
    precision = design.T @ design / 0.01 + np.eye(4) / 900
    top = np.linalg.solve(precision, design.T @ data / 0.01)
    assert start.n_evaluations == len(calls) < 90
    np.testing.assert_allclose(start.initial[0], top, rtol=1e-3)
    depths = start.log_density[0] - start.log_density[1:]
    assert stats.kstest(2.0 * depths, stats.chi2(4).cdf).pvalue > 1e-3


@pytest.mark.slow
def test_climbs_do_not_end_on_a_ridge():
    """With derivatives that steps have corrected alone, about half of these end nats below the
    maximum.
    """
    found = [kmc.find_start(lotka_volterra.model(), n_points=1, seed=seed) for seed in range(1, 7)]
    heights = np.array([start.log_density[0] for start in found])
    assert heights.max() > -133.0  # at Carpenter's means -134.0
    assert np.sum(heights > heights.max() - 1.5) >= 5
    assert all(start.n_evaluations < 250 for start in found)


TIMES = np.linspace(0, 1, 200)
TRUE = {"amplitude": 3.0, "frequency": 8.0, "center": 0.45, "width": 0.1, "phase": 1.0}


def wave_packet(amplitude, frequency, center, width, phase):
    away = TIMES - center
    return (
        amplitude
        * np.exp(-0.5 * (away / width) ** 2)
        * np.sin(2 * np.pi * frequency * away + phase)
    )


DATA = wave_packet(**TRUE) + np.random.default_rng(7).standard_normal(len(TIMES))


def misfit(parameters):
    return 0.5 * float(np.sum((DATA - wave_packet(**parameters)) ** 2))


@pytest.fixture(scope="module")
def packet():
    """A model of a signal, whose posterior is a needle on a plateau: hardly any draw of the prior
    sees the signal.
    """
    priors = {
        "amplitude": kmc.HalfNormal(5),
        "frequency": kmc.Uniform(1, 20),
        "center": kmc.Uniform(0, 1),
        "width": kmc.Uniform(0.02, 0.3),
        "phase": kmc.CircularUniform(),
    }
    return kmc.Model(log_likelihood=lambda p: -misfit(p), parameters=priors)


@pytest.mark.parametrize("seed", slow_except([1, 2, 3], {2}))
def test_a_needle_on_a_plateau(packet, seed):
    start = kmc.find_start(packet, seed=seed)
    found = packet.constrain(start.initial[:1])
    plateau = misfit(TRUE | {"amplitude": 0.0})
    assert misfit(found) < misfit(TRUE) + 20 < plateau - 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_needle_is_sampled_from_there(packet, seed):
    """Means and sds of another sampler: 40 walkers of emcee, 6,000 steps, from the truth."""
    start = kmc.find_start(packet, seed=seed)
    idata = kmc.sample(
        packet,
        initial=start,
        draws=None,
        max_evaluations=5000 - start.n_evaluations,
        seed=seed,
        progress=False,
    )
    means = {"amplitude": 3.129, "frequency": 8.238, "center": 0.458, "width": 0.093}
    sds = {"amplitude": 0.322, "frequency": 0.196, "center": 0.010, "width": 0.012}
    for name, sd in sds.items():
        draws = idata["posterior"][name].values
        assert abs(draws.mean() - means[name]) < 0.15 * sd
        assert abs(draws.std() / sd - 1.0) < 0.15
    assert not kmc.warnings(idata)
