"""Runs of several independent runs."""

import json

import numpy as np
import pytest

import kmc
from kmc.model.toys import Gaussian
from kmc.run.independent_run import dealt
from kmc.samplers.base import SamplerSetup
from tests.grids import slow_except

NORMAL = Gaussian(2, correlation=0.5, spread=1.5)
SMALL = kmc.KernelHMC()
SAMPLERS = {"kernel-hmc": SMALL, "random-walk": "random-walk"}
EACH = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
QUICK = pytest.mark.parametrize("sampler", slow_except(SAMPLERS, {"random-walk"}))

# most runs are too short to converge
pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")


def run(target=NORMAL, sampler="random-walk", **options):
    options = {
        "dim": 2,
        "draws": 40,
        "chains": 4,
        "independent_runs": 2,
        "seed": 1,
        "progress": False,
    } | options
    return kmc.sample(target, sampler=sampler, **options)


def positions(idata, group="posterior"):
    return np.asarray(idata[group]["x"])


class Counting:
    """A target that records every point, and raises at the k-th."""

    def __init__(self, k=None, error=None, log_density=NORMAL):
        self.points, self.k, self.error, self.log_density = [], k, error, log_density

    def __call__(self, x):
        self.points.append(x.copy())
        if len(self.points) - 1 == self.k:
            raise self.error
        return self.log_density(x)


class Spy:
    """Options of a sampler that records the setups of its processes."""

    name = "random-walk"

    def __init__(self):
        self.setups: list[SamplerSetup] = []

    def start(self, setup):
        self.setups.append(setup)
        return kmc.RandomWalkMetropolis().start(setup)


def test_each_independent_run_is_told_its_part():
    spy = Spy()
    initial = np.random.default_rng(0).standard_normal((9, 2))
    run(sampler=spy, independent_runs=2, initial=initial, draws=None, max_evaluations=201, warmup=7)
    assert [setup.chains for setup in spy.setups] == [2, 2]
    assert [setup.max_evaluations for setup in spy.setups] == [101, 100]
    assert [setup.warmup for setup in spy.setups] == [7, 7]
    np.testing.assert_array_equal(spy.setups[0].initial, initial[0::2])
    np.testing.assert_array_equal(spy.setups[1].initial, initial[1::2])
    seeds = [setup.seed.generate_state(4).tolist() for setup in spy.setups]
    assert seeds[0] != seeds[1]


def test_start_points_of_positive_density_are_dealt_first():
    points = np.arange(5.0)[:, None]
    values = np.array([-np.inf, 0.0, -np.inf, 1.0, 2.0])
    hands = dealt(points, values, 2)
    assert [np.isfinite(mine).sum() for _, mine in hands] == [2, 1]
    np.testing.assert_array_equal(
        np.sort(np.concatenate([mine for mine, _ in hands]), axis=0), points
    )
    for mine, its_values in hands:
        np.testing.assert_array_equal(its_values, values[mine[:, 0].astype(int)])
    ((whole, its_values),) = dealt(points, values, 1)
    np.testing.assert_array_equal(whole, points)
    np.testing.assert_array_equal(its_values, values)
    with pytest.raises(
        ValueError, match="3 start point.*at least 4, one for each of the independent runs"
    ):
        dealt(points, values, 4)


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("budget", slow_except([403, 404, 631], {404}))
def test_the_budget_is_used_up_and_never_exceeded(sampler, budget):
    target = Counting()
    idata = run(target, sampler, draws=None, max_evaluations=budget)
    assert len(target.points) == idata.attrs["n_evaluations"] <= budget
    assert budget - len(target.points) < 2 * 2 * 4  # a sweep of each run, or its first points
    main = idata.attrs["n_evaluations"] - idata.attrs["n_evaluations_warmup"]
    assert int(np.asarray(idata["sample_stats"]["n_evaluations"]).sum()) == main


@pytest.mark.slow
@EACH
def test_the_result_holds_all_chains_and_says_so(sampler):
    idata = run(sampler=sampler, save_warmup=True)
    assert positions(idata).shape == (4, 40, 2)
    assert positions(idata, "warmup_posterior").shape == (4, idata.attrs["tuning_steps"], 2)
    assert idata.attrs["chains"] == 4 and idata.attrs["independent_runs"] == 2
    assert len(json.loads(idata.attrs["n_refits"])) == 2
    lp = np.asarray(idata["sample_stats"]["lp"])
    np.testing.assert_array_equal(lp, [[NORMAL(x) for x in chain] for chain in positions(idata)])


@pytest.mark.parametrize("sampler", ["kernel-hmc", "random-walk"])
@pytest.mark.parametrize(
    ("target", "options"),
    [
        (lambda x: -1e308 * float(x @ x), {"dim": 2}),
        (
            lambda x: -0.5 * float(x / 1e160 @ x / 1e160),
            {"dim": 2, "initial": 1e160 * np.eye(4, 2) + 1e159},
        ),
        (kmc.Model(lambda p: 0.0, parameters={"a": kmc.Normal(0, 1e160)}), {}),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_whose_squares_overflow_are_refused(target, options, sampler):
    with pytest.raises(
        ValueError,
        match=r"at the best start point, .*: numbers beyond 1e\+150 .*; rescale the parameters",
    ):
        kmc.sample(
            target,
            **options,
            sampler=sampler,
            draws=20,
            max_evaluations=300,
            seed=1,
            progress=False,
        )


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_large_numbers_whose_squares_do_not_overflow_are_sampled():
    initial = 1e70 * np.random.default_rng(0).standard_normal((4, 2))
    options = {
        "initial": initial,
        "draws": 50,
        "max_evaluations": 600,
        "seed": 1,
        "progress": False,
    }
    idata = kmc.sample(lambda x: -0.5 * float((x / 1e70) @ (x / 1e70)), dim=2, **options)
    np.testing.assert_allclose(
        idata["posterior"]["x"].std(("chain", "draw")) / 1e70, 1.0, atol=0.25
    )


@QUICK
def test_a_seed_reproduces(sampler):
    one, two, other = (positions(run(sampler=sampler, seed=seed)) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, two)
    assert not np.any(np.isin(one, other))
    assert not np.any(np.isin(one[:2], one[2:]))


@pytest.mark.slow
def test_independent_runs_know_nothing_of_each_other():
    """The draws of one independent run do not depend on the values of the other, a hundred units
    away.
    """
    initial = np.array([[-49.0, 0.0], [49.0, 0.0], [-51.0, 1.0], [51.0, 1.0]])

    def modes(precision):
        return lambda x: (
            -0.5 * float((abs(x[0]) - 50) ** 2 + x[1] ** 2) * (1.0 if x[0] < 0 else precision)
        )

    one, two = (
        positions(run(modes(precision), SMALL, initial=initial, warmup=60))
        for precision in (1.0, 0.6)
    )
    assert np.all(one[:2, :, 0] < 0) and np.all(one[2:, :, 0] > 0)
    np.testing.assert_array_equal(one[:2], two[:2])
    assert not np.any(np.isin(one[2:], two[2:]))


@QUICK
def test_an_exception_keeps_the_draws_so_far(sampler):
    target = Counting()
    reference = run(target, sampler)
    n, warm = reference.attrs["n_evaluations"], reference.attrs["n_evaluations_warmup"]
    for k in (1, warm // 2, (warm + n) // 2, n - 1):
        with pytest.raises(kmc.EvaluationError) as caught:
            run(Counting(k, ZeroDivisionError()), sampler)
        idata = caught.value.idata
        assert idata.attrs["n_evaluations"] == k + 1
        made = positions(idata).shape[1]
        assert (made > 0) == (k > warm + 8)
        np.testing.assert_array_equal(positions(idata), positions(reference)[:, :made])


@pytest.mark.slow
def test_independent_runs_in_different_modes_are_distinguished():
    """Two modes twenty standard deviations apart: no chain crosses, whatever its R-hat."""
    initial = np.array([[-10.0, 0.0], [10.0, 0.0], [-9.0, 1.0], [9.0, 1.0]])

    def modes(x):
        return -0.5 * float((abs(x[0]) - 10) ** 2 + x[1] ** 2)

    idata = run(modes, SMALL, initial=initial, draws=200)
    assert any(
        "independent runs disagree" in sentence for sentence in json.loads(idata.attrs["warnings"])
    )
