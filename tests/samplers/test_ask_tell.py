"""Ask and tell: a loop of the user's own makes the draws of kmc.sample."""

import pickle

import numpy as np
import pytest

import kmc
from kmc.model.toys import Banana
from tests.grids import slow_except

TARGET = Banana(2, b=0.03)
START = np.random.default_rng(3).normal(0, 4, (4, 2))


EVERY = {
    "kernel-hmc": kmc.KernelHMC(learning_share=0.2),
    "score-hmc": kmc.ScoreHMC(
        kmc.scores.GaussianScore(),
        max_states=100,
        warmup_sampler=kmc.AdaptiveMetropolis(moves=("random-walk",)),
    ),
    "adaptive-metropolis": kmc.AdaptiveMetropolis(),
    "adaptive-langevin": kmc.AdaptiveLangevin(kmc.scores.GaussianScore()),
    "delayed-acceptance": kmc.DelayedAcceptance(estimator=kmc.scores.GaussianScore()),
    "kameleon": kmc.Kameleon(max_states=100),
    "random-walk": kmc.RandomWalkMetropolis(),
    "tempered": kmc.Tempered(temperatures=3),
}
pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")


def values(points):
    return [TARGET(x) for x in points]


def started(sampler=kmc.AdaptiveMetropolis(), **options):  # noqa: B008
    return sampler.start(**({"initial": START, "max_evaluations": 200, "seed": 5} | options))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", slow_except(list(EVERY), {"kernel-hmc", "adaptive-metropolis", "tempered"})
)
def test_the_draws_are_those_of_sample(name):
    asked = {"draws": None, "max_evaluations": 450, "seed": 5, "initial": START, "chains": 3}
    idata = kmc.sample(TARGET, dim=2, sampler=EVERY[name], progress=False, **asked)
    state = EVERY[name].start(**asked)
    n = 0
    while not state.done:
        points = state.ask()
        assert len(points) > 0
        n += len(points)
        state.tell(values(points))
        if n % 3 == 0:
            state = pickle.loads(pickle.dumps(state))
    assert n == state.n_evaluations <= 450
    # the run evaluates its best start point again, and may have one draw fewer
    draws = idata.posterior.sizes["draw"]
    assert state.positions.shape[1] - 1 <= draws <= state.positions.shape[1]
    np.testing.assert_array_equal(state.positions[:, :draws], idata.posterior["x"].values)
    np.testing.assert_array_equal(state.log_density[:, :draws], idata.sample_stats["lp"].values)
    assert state.report()["noisy"] is False


def test_a_number_of_draws():
    state = started(draws=20, warmup=5, max_evaluations=None)
    assert (
        state.positions.shape == (4, 0, 2)
        and state.log_density.shape == (4, 0)
        and state.report() == {}
    )
    while not state.done:
        state.tell(values(state.ask()))
        assert state.warming_up == (state.n_evaluations < 4 * 6)
    assert state.positions.shape == (4, 20, 2) and state.n_evaluations == 4 + 4 * 25


def test_points_are_the_same_until_told():
    state = started()
    first = state.ask()
    np.testing.assert_array_equal(first, START)
    first[:] = np.nan
    np.testing.assert_array_equal(state.ask(), START)
    state.tell(values(START))
    np.testing.assert_array_equal(state.ask(), state.ask())
    assert np.any(state.ask() != START)


def test_warm_up_ends_when_told():
    state = started(warmup=1000, max_evaluations=10_000)
    state.end_warmup()  # harmless before the start
    state.tell(values(state.ask()))
    state.tell(values(state.ask()))
    assert state.warming_up
    state.end_warmup()
    state.tell(values(state.ask()))
    assert not state.warming_up


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            [1.0, 2.0],
            r"values has shape \(2,\): expected the log-densities of the 4 points last asked for",
        ),
        (0.0, r"values has shape \(\)"),
        (
            [1.0, np.nan, 0.0, 0.0],
            r"values\[1\]=nan at the point \[.*expected a finite log-density, or -inf",
        ),
        ([1.0, 0.0, np.inf, 0.0], r"values\[2\]=inf at the point"),
        ([-np.inf] * 4, "-inf at every start point"),
        (["a"] * 4, "values does not convert to an array of numbers"),
    ],
)
def test_wrong_values(told, message):
    state = started()
    with pytest.raises(ValueError, match=message):
        state.tell(told)
    assert state.n_evaluations == 0
    state.tell(values(state.ask()))


@pytest.mark.parametrize("sampler", ["kernel-hmc", kmc.KernelHMC, None])
def test_a_sampler_is_given_by_its_options(sampler):
    with pytest.raises(TypeError, match=r"^sampler=.*: expected options such as kmc.KernelHMC\(\)"):
        kmc.AskTell(sampler, initial=START, draws=5)


def test_after_the_end():
    state = started(max_evaluations=8)
    while not state.done:
        state.tell(values(state.ask()))
    with pytest.raises(RuntimeError, match="ask: the run is done"):
        state.ask()
    with pytest.raises(RuntimeError, match="tell: the run is done"):
        state.tell([0.0] * 4)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_evaluations": None}, ValueError, "draws=None and max_evaluations=None"),
        (
            {"max_evaluations": 3},
            ValueError,
            "max_evaluations=3: expected a whole number of at least 4",
        ),
        ({"draws": 0}, ValueError, "draws=0"),
        (
            {"chains": 5},
            ValueError,
            r"initial has shape \(4, 2\): expected start points of shape \(k, d\) with k >= ch",
        ),
        ({"initial": np.zeros(3)}, ValueError, r"initial has shape \(3,\)"),
        ({"initial": np.full((4, 2), np.nan)}, ValueError, "(?s)initial=.*all finite"),
        ({"noisy": "very"}, TypeError, "noisy='very'"),
        ({"seed": -1}, TypeError, "seed=-1"),
    ],
)
def test_wrong_arguments(options, error, message):
    with pytest.raises(error, match=message):
        started(**options)
