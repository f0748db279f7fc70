"""Parallel tempering: the ladder, what is counted, and both modes. Its exactness is tested in
tests/correctness.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kmc
from kmc.model.toys import Gaussian
from kmc.samplers.parallel_tempering import SWAP_RATE, Tempered
from kmc.samplers.random_walk import RandomWalkMetropolis
from tests.oracles.mcmc import assert_standard
from tests.samplers.setups import setup_from

FAR = 7.0
QUIET = {"progress": False, "seed": 1}
pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")


def two_modes(x):
    """Three tenths of the mass are on the right."""
    modes = [np.log(w) - 0.5 * np.sum((x - m) ** 2) for w, m in ((0.3, FAR), (0.7, -FAR))]
    return float(np.logaddexp(*modes))


def started(sampler, target=two_modes, dim=2, chains=3, warmup=100, log_prior=None):
    initial = np.random.default_rng(0).normal(0, 3, (chains + 2, dim))
    priors = None if log_prior is None else log_prior(initial)
    return sampler.start(
        setup_from(initial, target, warmup=warmup, chains=chains, initial_log_prior=priors)
    )


def drive(state, sweeps, target=two_modes):
    return [state.advance(np.array([target(x) for x in state.propose()])) for _ in range(sweeps)]


def test_both_modes_with_their_masses():
    """A random walk does not leave a mode; tempered, twenty chains agree on the masses."""
    state = started(Tempered(temperatures=4), chains=20, warmup=100)
    drive(state, 100)
    right = np.array([step.position[:, 0] > 0 for step in drive(state, 250)]).mean(axis=0)
    assert np.mean((right > 0) & (right < 1)) > 0.7
    assert_standard((right.mean() - 0.3) / (right.std(ddof=1) / np.sqrt(20)))
    alone = started(RandomWalkMetropolis(), chains=20, warmup=100)
    drive(alone, 100)
    right = np.array([step.position[:, 0] > 0 for step in drive(alone, 250)]).mean(axis=0)
    assert np.all((right == 0) | (right == 1))


def test_all_evaluations_are_counted():
    calls = []

    def target(x):
        calls.append(x)
        return two_modes(x / 3)

    start = np.random.default_rng(0).normal(0, 3, (5, 2))
    sampler = Tempered(kmc.AdaptiveMetropolis(pooled=False), temperatures=3)
    options = {
        "dim": 2,
        "initial": start,
        "chains": 2,
        "draws": None,
        "max_evaluations": 600,
        "save_warmup": True,
    }
    idata = kmc.sample(target, sampler=sampler, **options, **QUIET)
    assert len(calls) == idata.attrs["n_evaluations"] <= 600
    in_draws = [
        int(idata[group]["n_evaluations"].sum())
        for group in ("sample_stats", "warmup_sample_stats")
    ]
    assert sum(in_draws) + 6 == len(calls)  # five start points, and the best one again
    assert idata.posterior["x"].shape[1] > 40
    drawn = idata.posterior["x"].values.reshape(-1, 2)
    np.testing.assert_array_equal(
        idata.sample_stats["lp"].values.ravel(), [two_modes(x / 3) for x in drawn]
    )


def test_swap_rates_are_reported():
    idata = kmc.sample(two_modes, dim=2, sampler="tempered", draws=150, warmup=100, **QUIET)
    assert idata.attrs["sampler"] == "tempered" and idata.attrs["tempered"] == "density"
    rates, temperatures = (
        np.array(eval(idata.attrs[name])) for name in ("swap_rates", "temperatures")
    )
    assert rates.shape == (4,) and temperatures[0] == 1.0 and np.all(np.diff(temperatures) > 0)
    assert np.all((rates > 0.02) & (rates < 0.9))
    each = idata.sample_stats["swap_rate"].values
    assert each.shape == (4, 150) and np.all((each >= 0) & (each <= 1))
    other = kmc.sample(two_modes, dim=2, sampler="random-walk", draws=20, warmup=10, **QUIET)
    assert "swap_rate" not in other.sample_stats


def test_the_ladder_is_tuned_and_then_fixed():
    state = started(
        Tempered(kmc.AdaptiveMetropolis(), temperatures=3), Gaussian(4), dim=4, chains=6, warmup=200
    )
    first = state.ladder.temperatures
    drive(state, 99, Gaussian(4))
    levels = list(state.levels)
    drive(state, 1, Gaussian(4))
    tuned = state.ladder.temperatures
    assert tuned != first and not any(
        one is other for one, other in zip(levels, state.levels, strict=True)
    )
    drive(state, 250, Gaussian(4))
    assert state.ladder.temperatures == tuned and not state.warming_up
    np.testing.assert_allclose(state.report()["swap_rates"], SWAP_RATE, atol=0.12)


def log_prior(x):
    return -0.5 * float(np.sum(x**2)) / 50


def log_likelihood(x):
    return two_modes(x), {"first": x[0]}


def test_the_prior_is_not_tempered_where_the_model_has_it():
    """Far up the ladder states are those of the prior; outputs of the function go with their
    states.
    """
    model = kmc.Model(log_likelihood=log_likelihood, log_prior=log_prior, dim=2)
    sampler = Tempered(temperatures=(1, 10, 1e9))
    idata = kmc.sample(model, sampler=sampler, draws=60, warmup=50, **QUIET)
    assert idata.attrs["tempered"] == "likelihood"
    x = idata.posterior["x"].values
    np.testing.assert_array_equal(idata.blobs["first"].values, x[..., 0])
    parts = idata.blobs["total_log_likelihood"] + idata.blobs["log_prior"]
    np.testing.assert_array_equal(idata.sample_stats["lp"].values, parts.values)

    state = started(
        sampler, chains=20, log_prior=lambda points: np.array([log_prior(x) for x in points])
    )
    hot = []
    for _ in range(150):
        points = state.propose()
        values, priors = (np.array([f(x) for x in points]) for f in (two_modes, log_prior))
        state.advance(values + priors, log_prior=priors)
        hot.append(state.levels[2].walkers.x[:, 0].copy())
    means = np.square(hot[50:]).mean(axis=0)  # of each chain; the prior's variance is 50
    assert_standard((means.mean() - 50) / (means.std(ddof=1) / np.sqrt(20)))


RESUMED = {"density": Tempered(temperatures=3), "prior": Tempered(temperatures=(1, 3, np.inf))}


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_is_the_same(tmp_path, name):
    model = kmc.Model(log_likelihood=log_likelihood, log_prior=log_prior, dim=2)
    options = {"draws": 40, "warmup": 40, "sampler": RESUMED[name], **QUIET}
    expected = kmc.sample(model, **options)
    with ThreadPoolExecutor(3) as pool:
        elsewhere = kmc.sample(model, executor=pool, **options)
    np.testing.assert_array_equal(elsewhere.posterior["x"].values, expected.posterior["x"].values)
    path = tmp_path / "run.zarr"
    for stop in (1, 20):  # while the ladder is tuned, and afterwards
        kmc.sample(
            model,
            store=path,
            resume=stop > 1,
            callback=lambda record, n=stop: record.draw >= n,
            **options,
        )
    resumed = kmc.sample(model, store=path, resume=True, **options)
    loaded = kmc.load(path)
    for name in ("lp", "swap_rate", "n_evaluations"):
        np.testing.assert_array_equal(
            resumed.sample_stats[name].values, expected.sample_stats[name].values
        )
        np.testing.assert_array_equal(
            loaded.sample_stats[name].values, expected.sample_stats[name].values
        )
    np.testing.assert_array_equal(resumed.posterior["x"].values, expected.posterior["x"].values)
    np.testing.assert_array_equal(resumed.blobs["first"].values, expected.blobs["first"].values)
    assert resumed.attrs["swap_rates"] == expected.attrs["swap_rates"]


@pytest.mark.parametrize("name", RESUMED)
def test_ask_and_tell_with_a_prior_apart(name):
    model = kmc.Model(log_likelihood=two_modes, log_prior=log_prior, dim=2)
    start = np.random.default_rng(0).normal(0, 3, (4, 2))
    options = {"initial": start, "draws": 40, "warmup": 30, "seed": 1}
    expected = kmc.sample(model, sampler=RESUMED[name], progress=False, **options)
    state = RESUMED[name].start(**options)
    while not state.done:
        priors = np.array([log_prior(x) for x in state.ask()])
        state.tell([two_modes(x) for x in state.ask()] + priors, log_prior=priors)
    np.testing.assert_array_equal(state.positions, expected.posterior["x"].values)


def test_wrong_priors_of_told_points():
    options = {"initial": np.zeros((4, 2)), "draws": 10}
    with pytest.raises(TypeError, match="log_prior: the sampler AdaptiveMetropolis.* takes none"):
        kmc.AdaptiveMetropolis().start(**options).tell(np.zeros(4), log_prior=np.zeros(4))
    state = Tempered().start(**options)
    with pytest.raises(ValueError, match=r"log_prior=\[0.0\]: expected shape \(4,\)"):
        state.tell(np.zeros(4), log_prior=[0.0])
    state.tell(np.zeros(4), log_prior=np.zeros(4))
    with pytest.raises(TypeError, match="log_prior=None: expected it in every call or in none"):
        state.tell(np.zeros(len(state.ask())))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"sampler": kmc.Kameleon()},
            TypeError,
            r"sampler=Kameleon.*: expected kmc.AdaptiveMetropolis\(...\)",
        ),
        ({"temperatures": 1}, ValueError, "temperatures=1: expected a whole number of at least 2"),
        ({"temperatures": 2.5}, TypeError, "temperatures=2.5"),
        ({"temperatures": "hot"}, TypeError, "temperatures='hot'"),
        ({"temperatures": (1, "hot")}, TypeError, "temperatures="),
        ({"temperatures": (2, 3)}, ValueError, "of which the first is 1"),
        ({"temperatures": (1, 3, 2)}, ValueError, "increasing"),
        ({"temperatures": (1, np.inf, np.inf)}, ValueError, "temperatures="),
        ({"temperatures": (1, np.nan)}, ValueError, "temperatures="),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        Tempered(**options)
