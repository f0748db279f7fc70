"""Answers from the surrogate of a run that has hardly any draws."""

import warnings

import arviz
import numpy as np
import pytest
import xarray

import kmc
from kmc.control_variates.domain import UnknownMode
from kmc.kernel_hmc.learning import Learning
from kmc.kernel_hmc.surrogate_chains import TRUSTED
from kmc.model.toys import Banana
from kmc.posterior.expectations import _of_learned as answers
from kmc.posterior.learned import Learned, Table
from kmc.posterior.results import read
from tests.grids import slow_except

pytestmark = [
    pytest.mark.filterwarnings("ignore::kmc.KmcWarning"),
    pytest.mark.usefixtures("few_particles"),
]
SCALES = np.array([1.0, 2.0, 3.0])


def normal(x):
    return -0.5 * np.sum((x / SCALES) ** 2)


def short(target=normal, dim=3, evaluations=60, **options):
    """Return a run that ends within warm-up."""
    options = {"seed": 1, "progress": False, "warmup": evaluations, **options}
    return kmc.sample(target, dim=dim, draws=None, max_evaluations=evaluations, **options)


def off(found, name, truth):
    """Return the largest error in units of the stated one; NaN if one is not stated."""
    error = {"mean": "mcse", "sd": "mcse_sd", "quantiles": "mcse_quantiles"}[name]
    return np.max(np.abs(found[name].values - truth) / found[error].values)


@pytest.fixture(scope="module")
def run():
    return short()


def test_a_run_without_draws_answers_for_a_normal(run):
    assert run.posterior.sizes["draw"] == 0
    with pytest.warns(
        kmc.KmcWarning, match="no draws: this is what a surrogate of [0-9]+ evaluations predicts"
    ):
        found = kmc.expectations(run)
    assert off(found, "mean", 0.0) < 4 and off(found, "sd", SCALES) < 4
    assert off(found, "quantiles", np.outer([-1.645, 0.0, 1.645], SCALES)) < 4
    # of a quadratic nothing is unknown but whether it is one beyond 60 evaluations
    assert np.all(found["mcse"] < 0.15 * SCALES) and np.all(found["mcse"] > 0.05 * SCALES)
    assert np.all(np.abs(found["mean"]) < 0.06 * SCALES)
    assert (
        np.all(np.isnan(found["plain_mean"]))
        and found.attrs["corrected"] == 0
        and found.attrs["n_draws"] == 0
    )
    assert "predictions by a surrogate" in found.attrs["method"] and found.attrs["warnings"]

    evidence = kmc.evidence(run, prior_normalized=False)
    exact = 1.5 * np.log(2 * np.pi) + np.log(6)
    assert abs(float(evidence["log_evidence"][0]) - exact) < 4 * float(evidence["se"][0]) < 0.3
    assert "predictions by a surrogate" in evidence.attrs["method"]

    draws = kmc.resample(run, draws=1000)
    assert draws.posterior["x"].shape == (4, 1000, 3)
    np.testing.assert_allclose(draws.posterior["x"].std(("chain", "draw")), SCALES, rtol=0.1)
    assert draws.posterior.attrs["total_variation_bound"] < 0.1
    assert "predictions by a surrogate" in draws.posterior.attrs["description"]


@pytest.mark.slow
@pytest.mark.parametrize("evaluations", slow_except([30, 150], [30]))
def test_errors_contain_what_the_surrogate_does_not_know(evaluations):
    """After 30 evaluations a banana is hardly known, after 150 mostly: in two of three runs errors
    can be believed.
    """
    target = Banana(2)
    truth = target.sample(np.random.default_rng(0), 400_000)
    found = [kmc.expectations(short(target, 2, evaluations, seed=seed)) for seed in (1, 2, 3)]
    for column, true in ("mean", truth.mean(axis=0)), ("sd", truth.std(axis=0)):
        assert np.median([off(one, column, true) for one in found]) < 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", slow_except([1, 2, 5], [1]))
def test_mass_behind_an_edge_does_not_count(seed):
    """The support of an exponential density is not declared: the evidence is 0, or there is none,
    and a reason.
    """
    run = short(
        lambda x: -np.sum(x) if np.all(x > 0) else -np.inf,
        2,
        100,
        initial=np.full((4, 2), 1.0),
        seed=seed,
    )
    with pytest.warns(kmc.KmcWarning, match="The density is zero at") as said:
        evidence = kmc.evidence(run, prior_normalized=False)
    value = float(evidence["log_evidence"][0])
    if np.isnan(value):
        assert any("so that there is no number" in str(each.message) for each in said)
    else:
        error = float(evidence["se"][0])
        assert abs(value) < 4.0 * error and error < 1.0


@pytest.mark.slow
def test_a_function_of_named_parameters_needs_the_model():
    model = kmc.Model(
        lambda p: -p["a"] - p["a"] * p["b"] ** 2 / 2,
        parameters={"a": kmc.Positive(), "b": kmc.Real()},
    )
    run = short(model, None, 60)
    with pytest.raises(ValueError, match="pass model="):
        kmc.expectations(run)
    found = kmc.expectations(run, lambda p: np.log(p["a"]), model=model)
    assert found["quantity"].values.tolist() == ["f"] and np.isfinite(found["mean"]).all()
    assert set(kmc.resample(run, 10, model=model).posterior.data_vars) == {"a", "b"}


def evaluated(run):
    """Points, as tuples."""
    group = run["evaluations"]
    return [tuple(x) for x in group["x"].values[~np.isnan(group["lp"].values)]]


@pytest.mark.slow
def test_a_store_answers_too_and_its_evaluations_are_a_history(tmp_path):
    path = tmp_path / "run.zarr"
    run = short(store=path)
    stored = kmc.load(path)
    assert set(evaluated(run)) <= set(evaluated(stored))
    assert off(kmc.expectations(path), "sd", SCALES) < 4
    again = kmc.sample(normal, dim=3, draws=20, history=run, seed=2, progress=False)
    assert again.attrs["n_history"] == len(evaluated(run))


@pytest.mark.slow
def test_the_group_has_the_evaluations_of_climbs_and_of_the_burn_in():
    """One start far below the others: learning ends with a climb from there, whose values it leaves
    out.
    """
    called = []

    def function(x):
        called.append(tuple(x))
        return normal(x)

    initial = np.vstack([0.5 * np.eye(3), [[60.0, -50.0, 40.0]]])
    run = kmc.sample(
        function, 3, initial=initial, draws=None, max_evaluations=150, seed=1, progress=False
    )
    held = evaluated(run)
    assert len(held) == len(set(held)) and set(held) <= set(called)
    assert run["posterior"].sizes["draw"] > 1 and len(held) > 0.98 * run.attrs["n_evaluations"]


def test_a_run_of_more_than_1000_evaluations_has_no_such_group():
    run = kmc.sample(normal, dim=3, draws=None, max_evaluations=1100, seed=1, progress=False)
    assert "evaluations" not in (
        run.groups() if callable(run.groups) else [name.strip("/") for name in run.groups]
    )


def test_too_few_evaluations():
    run = short(evaluations=60)
    few = run["evaluations"].isel(chain=[0], evaluation=slice(0, 7))
    for values, message in (
        (few["lp"], "7 evaluations where the density is positive: expected at least 2 d [+] 2 = 8"),
        (
            few["lp"] * np.nan,
            "evaluations that no run makes",
        ),
    ):
        group = few.assign(lp=values)
        if callable(run.groups):
            run.evaluations = group
        else:
            run["evaluations"] = group
        with pytest.raises(ValueError, match=message):
            kmc.expectations(run)
    with pytest.raises(ValueError, match="draws; sample for longer instead"):
        kmc.evidence(short(), model=kmc.Model(normal, dim=3), max_evaluations=10)


def test_several_results_need_draws(run):
    with pytest.raises(
        ValueError, match="result has 2 runs, one of them with fewer than 100 draws"
    ):
        kmc.expectations([run, run])


def test_evaluations_at_proposals_count_too():
    """Learning ends early enough for some draws, too few to answer from."""
    run = short(evaluations=150, warmup=None)
    assert 0 < run.sample_stats["lp"].size < 100
    held = evaluated(run)
    assert len(set(held)) == len(held) <= 150
    assert {tuple(x) for x in run["proposals"]["x"].values.reshape(-1, 3)} <= set(held)


def test_a_run_without_draws_promises_only_what_it_can_answer():
    with pytest.warns(kmc.KmcWarning, match="Until then kmc.expectations answers"):
        short()
    with pytest.warns(kmc.KmcWarning, match="has no draws") as said:
        short(save_surrogate=False)
    assert not any("answers" in str(each.message) for each in said)


@pytest.mark.slow
@pytest.mark.parametrize("rough", [False, True])
def test_few_draws_answer_where_the_evaluations_allow_too_much(rough, monkeypatch):
    """A regression that says hardly anything is not preferred to 40 draws that are right."""
    monkeypatch.setattr(Table, "is_rough", rough)
    idata = kmc.sample(normal, dim=3, draws=10, max_evaluations=2000, seed=2, progress=False)
    found = kmc.expectations(idata, seed=1, progress=False)
    assert ("method" in found.attrs) == (not rough)
    assert off(found, "mean", 0.0) < 4 and np.all(found["mcse"] < 0.3 * SCALES)


def test_a_short_run_whose_surrogate_is_in_doubt_is_learned_again(monkeypatch):
    """Its draws alone would say less than its evaluations do."""
    idata = kmc.sample(normal, dim=3, draws=None, max_evaluations=250, seed=2, progress=False)
    assert idata.posterior["x"].size > 3 * 100
    plain = kmc.expectations(idata, max_surrogate_draws=8_000, seed=1, progress=False)
    assert plain.attrs["corrected"] == 1

    def no_surrogate(replicate, seed):
        raise UnknownMode("so this test says")

    for module in ("expectations", "evidence"):
        monkeypatch.setattr(f"kmc.posterior.{module}.judge", no_surrogate)
    found = kmc.expectations(idata, seed=1, progress=False)
    assert found.attrs["corrected"] == 0 and "predictions by a surrogate" in found.attrs["method"]
    assert off(found, "mean", 0.0) < 4 and off(found, "sd", SCALES) < 4
    assert np.all(found["mcse"] < plain["plain_mcse"])
    evidence = kmc.evidence(idata, prior_normalized=False)
    exact = 1.5 * np.log(2 * np.pi) + np.log(6)
    assert abs(float(evidence["log_evidence"][0]) - exact) < 4 * float(evidence["se"][0]) < 0.3
    assert "predictions by a surrogate" in evidence.attrs["method"]


def test_no_mass_is_where_nothing_is_known():
    """What a standard deviation has above what is trusted would count as mass, and nobody evaluates
    there.
    """
    result = kmc.sample(Banana(8), dim=8, draws=None, max_evaluations=50, seed=1, progress=False)
    learned = Learned(read(result, None, least=100), "result", np.random.SeedSequence(1))
    assert learned.table().is_rough
    learning = learned._learning
    far = learning.points * 3.0
    errors = learning.ratio * learning.process.standard_deviations(far)
    unknown = errors > 2.0 * TRUSTED
    lost = learning.process.log_density(far) - learning.log_density(far)
    assert unknown.any() and np.all(lost[unknown] > 5.0 * TRUSTED)


def test_errors_are_rough_where_a_tenth_of_the_posterior_may_be_beyond_all_evaluations():
    """Also if the log-density is known where they are: by them, a bend elsewhere is not."""
    density = Banana(8)
    result = kmc.sample(density, dim=8, draws=None, max_evaluations=50, seed=1, progress=False)
    truth = density.sample(np.random.default_rng(3), 100_000)
    with pytest.warns(kmc.KmcWarning, match=r"1[0-9]% of the posterior may be beyond all of them"):
        found = kmc.expectations(result, progress=False)
    assert np.max(np.abs(np.log(found["sd"].values / truth.std(axis=0)))) > 1.0


def test_answers_share_a_regression_and_do_not_depend_on_their_order(monkeypatch):
    """The last regression is kept for the same evaluations and seed."""
    made = []

    def counted(*args, **options):
        made.append(Learning(*args, **options))
        return made[-1]

    monkeypatch.setattr("kmc.posterior.learned.Learning", counted)
    result = short(evaluations=40)
    alone = kmc.evidence(result, prior_normalized=False, seed=2, progress=False)
    other = kmc.evidence(result, prior_normalized=False, seed=3, progress=False)
    first = kmc.expectations(result, seed=2, progress=False)
    xarray.testing.assert_identical(
        alone, kmc.evidence(result, prior_normalized=False, seed=2, progress=False)
    )
    xarray.testing.assert_identical(first, kmc.expectations(result, seed=2, progress=False))
    kmc.resample(result, draws=10, seed=2)
    assert float(other["log_evidence"][0]) != float(alone["log_evidence"][0]) and len(made) == 3


def test_a_model_that_knows_its_prior_has_a_regression_of_its_own():
    """The same evaluations and seed, but something is known that need not be learned."""
    known = kmc.Model(
        log_likelihood=lambda p: -0.5 * p["x"] ** 2, parameters={"x": kmc.Normal(0, 1)}
    )
    hidden = kmc.Model(lambda p: -(p["x"] ** 2), parameters={"x": kmc.Real()})
    result = kmc.sample(known, draws=None, max_evaluations=30, seed=1, progress=False)
    first = kmc.expectations(result, model=known, progress=False)
    other = kmc.expectations(result, model=hidden, progress=False)
    xarray.testing.assert_identical(first, kmc.expectations(result, model=known, progress=False))
    assert not first["mean"].equals(other["mean"])


def test_errors_that_cancel_in_the_mass_are_errors():
    """In many dimensions the places of which nothing is known are many, and the masses of functions
    are alike.
    """
    away = np.random.default_rng(1).standard_normal((100, 4000))
    none = np.zeros(4000)
    table = Table(np.zeros((4000, 2)), none, none, away, np.ones(4000), 4000, 4000.0, 0.0)
    assert table.log_masses.std() < 0.1 and table.is_rough


def example_table(n=1000, m=5000, unseen=0.0, seed=1):
    """Draws of a normal in two dimensions, and functions that are narrower by up to 30 %."""
    x = np.random.default_rng(seed).standard_normal((m, 2))
    squares = np.sum(x**2, axis=1)
    log_weights = -0.5 * np.linspace(0.0, 1.0, 50)[:, None] * squares[:n]
    base = -0.25 * squares
    return Table(x, -0.5 * squares, base, log_weights, np.zeros(n), n, float(m), unseen)


def test_averages_are_those_of_the_first_draws_with_those_of_all_as_a_control_variate():
    table = example_table()
    assert np.allclose(table.weights_of_all.sum(axis=1), 1.0)
    value = table.points[:, 0] ** 2
    base = np.exp(table.log_base)
    for weights, logs in zip(table.weights_of_all, table.log_weights, strict=True):
        own, among = np.exp(logs), base[:1000]
        expected = (
            own @ value[:1000] / own.sum()
            - among @ value[:1000] / among.sum()
            + base @ value / base.sum()
        )
        assert np.isclose(weights @ value, expected)


def test_averages_of_further_draws_are_more_precise():
    """The second moment of a function that is narrower by 1 + a is 1 / (1 + a)."""
    exact = np.mean(1.0 / (1.0 + np.linspace(0.0, 1.0, 50)))
    off = []
    for seed in range(60):
        table = example_table(seed=seed)
        value = table.points[:, 0] ** 2
        found = [
            weights.mean(axis=0) @ value[: weights.shape[1]]
            for weights in (table.weights, table.weights_of_all)
        ]
        off.append(np.array(found) - exact)
    first, all_of_them = np.sqrt(np.mean(np.square(off), axis=0))
    assert all_of_them < 0.7 * first
    assert np.all(np.abs(np.mean(off, axis=0)) < 4 * np.std(off, axis=0) / np.sqrt(60))


def test_outskirts_are_the_share_of_lowest_density():
    table = example_table(unseen=0.05)
    weights = np.exp(table.log_base) / np.exp(table.log_base).sum()
    inside = table.outskirts == 0.0
    assert np.isclose(table.outskirts.sum(), 0.05) and np.all(table.outskirts <= weights + 1e-15)
    assert table.heights[~inside].max() <= table.heights[inside].min()
    assert not example_table().outskirts.any()


def test_further_draws_where_less_is_known_than_at_the_first_do_not_count(monkeypatch):
    """A chain may come to a place that functions of the first draws say nothing of."""
    learned = Learned(read(short(), None, least=100), "result", np.random.SeedSequence(1))
    sample, calls = learned._learning.sample, []

    def astray(blocks, rng):
        calls.append(blocks)
        return sample(blocks, rng) + (20.0 * SCALES if len(calls) > 1 else 0.0)

    monkeypatch.setattr(learned._learning, "sample", astray)
    table = learned.table(further=20)
    n = table.weights.shape[1]
    assert len(calls) == 2 and len(table.points) > n and not table.weights_of_all[:, n:].any()
    np.testing.assert_allclose(table.weights_of_all[:, :n], table.weights, atol=1e-12)


def test_blocks_are_longer_where_their_draws_count_as_few(monkeypatch):
    """Chains that hardly move agree with nothing but themselves."""
    learned = Learned(read(short(), None, least=100), "result", np.random.SeedSequence(1))
    sample, moves = learned._learning.sample, []

    def slow(blocks, rng):
        moves.append(learned._learning.moves)
        draws = sample(blocks, rng)
        drift = np.linspace(-1.0, 1.0, len(draws))[:, None] * SCALES
        return draws + (4.0 * drift if len(moves) < 4 else 0.0)

    monkeypatch.setattr(learned._learning, "sample", slow)
    table = learned.table()
    assert moves == [2, 4, 8, 16] and table.independent > 0.25 * len(table.points)


class Cubes:
    """Stands for a regression, and for the function x³."""

    n_draws, labels = 0, ["cube"]

    def sentences(self, table):
        return []

    def __call__(self, points):
        return points**3


def of_cubes(seed, unseen=0.0, n=2000):
    """Answers of draws of a normal, with one function."""
    x = np.random.default_rng(seed).standard_normal((n, 1))
    none = np.zeros(n)
    table = Table(x, -0.5 * x[:, 0] ** 2, none, none[None], none, n, float(n), unseen)
    found = answers(Cubes(), table, Cubes(), np.array([0.5]), [])
    return x[:, 0], float(found["sd"][0]), float(found["mcse_sd"][0])


def test_the_stated_error_of_a_standard_deviation_counts_heavy_tails():
    found = np.array([of_cubes(seed)[1:] for seed in range(200)])
    spread, stated = found[:, 0].std(), found[:, 1].mean()
    assert 0.7 < stated / spread < 1.3  # a fifth of it by the formula for normal values


def test_the_stated_error_of_a_standard_deviation_counts_what_may_be_beyond():
    x, sd, stated = of_cubes(1, unseen=0.05)
    outskirts = (x**3)[np.argsort(-np.abs(x))[:100]]
    gain = 0.05 * (np.mean((outskirts - np.mean(x**3)) ** 2) - sd**2) / (2.0 * sd)
    assert stated == pytest.approx(np.hypot(of_cubes(1)[2], gain), rel=1e-6)


def test_the_evidence_counts_what_may_be_beyond(run):
    found = kmc.evidence(run, prior_normalized=False, seed=1, progress=False)
    assert float(found["se"][0]) >= 3 / 61


def test_draws_that_count_as_few_leave_the_answer_to_the_evaluations_if_these_know_it_better(
    monkeypatch,
):
    idata = kmc.sample(normal, dim=3, draws=None, max_evaluations=250, seed=2, progress=False)
    of_draws = kmc.expectations(idata, max_surrogate_draws=8_000, seed=1, progress=False)
    monkeypatch.setattr("kmc.control_variates.replicate.ENOUGH_DRAWS", 10_000)
    few = kmc.expectations(idata, max_surrogate_draws=8_000, seed=1, progress=False)
    assert few.attrs["corrected"] == 1 and few["mean"].equals(of_draws["mean"])
    assert np.all(few["mcse"] < 0.01 * SCALES)  # the regression cannot state as little

    # without the surrogate's help, draws know less
    monkeypatch.setattr("kmc.posterior.expectations._largest_error", lambda found: found.corrected)
    found = kmc.expectations(idata, max_surrogate_draws=8_000, seed=1, progress=False)
    assert "predictions by a surrogate" in found.attrs["method"]
    assert off(found, "mean", 0.0) < 4 and off(found, "sd", SCALES) < 4


def test_short_runs_are_joined_with_their_evaluations():
    results = [short(evaluations=n) for n in (60, 64)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of xarray, about results of different length
        if hasattr(arviz, "concat"):
            both = arviz.concat(results, dim="chain")
        else:
            both = xarray.concat(results, dim="chain", join="outer")
    assert sorted(evaluated(both)) == sorted(point for one in results for point in evaluated(one))
