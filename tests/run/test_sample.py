import dataclasses
import json

import arviz
import numpy as np
import pytest

import kmc
from kmc.model.toys import Banana, Bimodal, Gaussian
from kmc.samplers.base import MOVES
from tests.counted import Counted
from tests.grids import slow_except
from tests.oracles.mcmc import assert_standard
from tests.values import check_values, groups

NORMAL = Gaussian(2, correlation=0.5, spread=1.5)
SMALL = kmc.KernelHMC(learning_share=0.02)
FREEZING = {
    "kernel-hmc": SMALL,
    "adaptive-metropolis": kmc.AdaptiveMetropolis("freeze"),
    "random-walk": "random-walk",
}
EVERY = FREEZING | {"vanishing adaptive-metropolis": kmc.AdaptiveMetropolis("vanishing")}
EACH = pytest.mark.parametrize("sampler", EVERY.values(), ids=EVERY)
FEW = pytest.mark.parametrize(
    "sampler", slow_except(EVERY, {"kernel-hmc", "vanishing adaptive-metropolis", "random-walk"})
)
"""Where samplers differ little: the others are in the weekly check."""

# most runs are too short to converge
pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")


def run(target=NORMAL, sampler=SMALL, **options):
    return kmc.sample(
        target,
        **({"dim": 2, "sampler": sampler, "draws": 40, "seed": 1, "progress": False} | options),
    )


def positions(idata, group="posterior"):
    return np.asarray(idata[group]["x"])


def statistic(idata, name, group="sample_stats"):
    return np.asarray(idata[group][name])


# of kernel HMC only: see test_frozen_surrogates
FROZEN = {"proposals", "surrogate", "evaluations", "final_state"}


def sentences(idata):
    return json.loads(idata.attrs["warnings"])


# The right distribution


def errors(draws, exact):
    """Mean, sd and tails of every coordinate, in standard errors from the draws' own effective
    sample size.

    The 5 % and 95 % quantiles are tested by the share of draws below the true ones, the sd by the
    mean square.
    """
    low, high = np.quantile(exact, [0.05, 0.95], axis=0)
    center = exact.mean(axis=0)
    functions = [draws, (draws - center) ** 2, draws < low, draws < high]
    truths = [center, exact.var(axis=0), np.full(len(low), 0.05), np.full(len(low), 0.95)]
    z, sizes = [], []
    for function, truth in zip(functions, truths, strict=True):
        for j in range(draws.shape[-1]):
            values = np.asarray(function[..., j], float)
            ess = float(arviz.ess(values, method="mean"))
            z.append((values.mean() - truth[j]) / (values.std() / np.sqrt(ess)))
            sizes.append(ess)
    return np.array(z), min(sizes)


TARGETS = {
    "gaussian": Gaussian(3, correlation=0.6, spread=2.0),
    "banana": Banana(2, b=0.03),
    "mild banana": Banana(2, b=0.01),
    "bimodal": Bimodal(2),
}
BUDGETS = {
    "kernel-hmc": (kmc.KernelHMC(), {"draws": 400}),
    "adaptive-metropolis": ("adaptive-metropolis", {"draws": 1500, "warmup": 600}),
    "random-walk": ("random-walk", {"draws": 2000, "warmup": 600}),
}


RUNS = {
    f"{kind}-{name}": (kind, name) for kind in BUDGETS for name in ("gaussian", "banana", "bimodal")
}


@pytest.mark.parametrize(
    ("kind", "name"),
    slow_except(RUNS, {"kernel-hmc-gaussian", "adaptive-metropolis-banana", "random-walk-bimodal"}),
)
def test_draws_have_the_right_distribution(kind, name):
    sampler, budget = BUDGETS[kind]
    if kind in ("random-walk", "adaptive-metropolis") and name == "banana":
        name = "mild banana"
    if kind == "random-walk" and name == "mild banana":
        # the spread of the start says too little
        sampler = kmc.RandomWalkMetropolis(scale=np.array([12.0, 2.0]))
    target = TARGETS[name]
    idata = kmc.sample(target, dim=target.dim, sampler=sampler, seed=1, progress=False, **budget)
    check_values(idata, target, target.dim)
    z, ess = errors(positions(idata), target.sample(np.random.default_rng(0), 1_000_000))
    assert ess > 50  # else the test would say nothing
    assert_standard(z / 1.1)  # the effective sample size is an estimate, too


# Counts


@EACH
@pytest.mark.parametrize("chains", slow_except([1, 3, 6], {3}))
def test_evaluations_are_counted_exactly(sampler, chains):
    target = Counted(NORMAL)
    idata = run(target, sampler, chains=chains, save_warmup=True)
    total, warmup = idata.attrs["n_evaluations"], idata.attrs["n_evaluations_warmup"]
    assert total == target.n
    main = int(statistic(idata, "n_evaluations").sum())
    assert main == total - warmup
    sweeps = statistic(idata, "n_evaluations", "warmup_sample_stats")
    # the start, the batches of learning and the test of the surrogate come on top
    if sampler is SMALL:
        assert warmup > int(sweeps.sum())
    else:
        assert warmup == chains + 1 + int(sweeps.sum())  # the best start point is evaluated twice


@FEW
def test_every_draw_keeps_the_value_of_the_one_evaluation_at_its_place(sampler):
    """Also for a noisy density: an estimate stays with its state and is never recomputed
    (pseudo-marginal).
    """
    rng = np.random.default_rng(2)
    target = Counted(lambda x: NORMAL(x) + 0.5 * rng.standard_normal())
    idata = run(kmc.Model(target, 2, noisy=True), sampler, dim=None, draws=100, save_warmup=True)
    known = {}
    for x, value in zip(target.points, target.values, strict=True):
        assert x.tobytes() not in known, "a point was evaluated twice"
        known[x.tobytes()] = value
    for group in ("", "warmup_"):
        x, lp = (
            positions(idata, f"{group}posterior"),
            statistic(idata, "lp", f"{group}sample_stats"),
        )
        stored = np.array([[known[row.tobytes()] for row in chain] for chain in x])
        np.testing.assert_array_equal(lp, stored)
    moved = np.any(np.diff(positions(idata), axis=1) != 0, axis=2)
    np.testing.assert_array_equal(moved, statistic(idata, "accepted")[:, 1:])
    assert 0.05 < moved.mean() < 0.98


@FEW
@pytest.mark.parametrize("chains", slow_except([1, 2, 4, 7], {1}))
def test_the_budget_is_never_exceeded_and_used_up(sampler, chains):
    for budget in [2 * chains, 2 * chains + 1, 31, 97, 200 + chains, 403]:
        target = Counted(NORMAL)
        idata = run(target, sampler, chains=chains, draws=None, max_evaluations=budget)
        assert target.n == idata.attrs["n_evaluations"] <= budget
        # what is left is less than a sweep, or the first points, cost
        assert budget - target.n < max(2 * chains, 9)
        main = idata.attrs["n_evaluations"] - idata.attrs["n_evaluations_warmup"]
        assert int(statistic(idata, "n_evaluations").sum()) == main
        drawn = positions(idata).shape[1]
        if drawn:
            assert not any(
                "draws per chain were made" in s or "has no draws" in s for s in sentences(idata)
            )
        else:
            assert "has no draws: raise max_evaluations" in sentences(idata)[0]


@FEW
def test_a_budget_that_ends_early_is_named(sampler):
    target = Counted(NORMAL)
    with pytest.warns(kmc.KmcWarning, match=r"Only \d+ of 5000 draws per chain .*max_evaluations"):
        idata = run(target, sampler, draws=5000, max_evaluations=600)
    assert 0 < positions(idata).shape[1] < 5000
    assert target.n <= 600
    assert f"Only {positions(idata).shape[1]} of 5000" in sentences(idata)[0]


@FEW
@pytest.mark.parametrize("warmup", [0, 5, 75])
def test_warm_up_and_draws_are_as_many_as_asked(sampler, warmup):
    idata = run(sampler=sampler, warmup=warmup, draws=33, save_warmup=True)
    assert positions(idata).shape == (4, 33, 2)
    sweeps = SMALL.burn_in if sampler is SMALL else warmup
    assert positions(idata, "warmup_posterior").shape == (4, sweeps, 2)
    assert idata.attrs["tuning_steps"] == sweeps
    # the first points are 12 at least; tests of the surrogate, and points elsewhere, come on top
    if sampler is SMALL:
        assert idata.attrs["surrogate_n_values"] <= max(12, 4 * warmup) + 12 + 4


# Seeds


def same(one, two):
    np.testing.assert_array_equal(positions(one), positions(two))
    np.testing.assert_array_equal(statistic(one, "lp"), statistic(two, "lp"))
    for name in ("n_evaluations", "n_evaluations_warmup", "settings", "warnings"):
        assert one.attrs[name] == two.attrs[name]


@FEW
def test_a_seed_reproduces_bit_for_bit_whatever_watches(sampler, capsys):
    alone = run(sampler=sampler, seed=5)
    shown = run(sampler=sampler, seed=5, progress=True)
    assert "kmc" in capsys.readouterr().err
    records = []
    watched = run(sampler=sampler, seed=5, callback=records.append, save_warmup=True)
    assert len(records) > 40
    same(alone, shown)
    same(alone, watched)
    assert not np.any(np.isin(positions(run(sampler=sampler, seed=6)), positions(alone)))


def test_runs_without_a_seed_differ():
    one, two = (positions(run(sampler="random-walk", seed=None)) for _ in range(2))
    assert not np.any(np.isin(one, two))


def test_kinds_of_seeds():
    def draws(seed):
        return run(sampler="random-walk", seed=seed)

    same(draws(7), draws(np.random.SeedSequence(7)))
    same(draws(7), draws(np.int64(7)))
    sequence = np.random.SeedSequence(8)
    same(draws(sequence), draws(sequence))  # and it is not used up
    assert sequence.n_children_spawned == 0
    child = np.random.SeedSequence(8).spawn(1)[0]
    assert np.any(positions(draws(child)) != positions(draws(sequence)))
    same(draws(np.random.default_rng(9)), draws(np.random.default_rng(9)))
    generator = np.random.default_rng(9)
    one, two = draws(generator), draws(generator)  # a Generator moves on
    assert np.any(positions(one) != positions(two))


def test_global_random_numbers_are_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    run()
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.slow
@FEW
def test_the_start_points_are_not_changed(sampler):
    initial = np.random.default_rng(3).standard_normal((6, 2))
    copy = initial.copy()
    target = Counted(NORMAL)
    run(target, sampler, initial=initial)
    np.testing.assert_array_equal(initial, copy)
    # all are used, in order, even more than chains
    np.testing.assert_array_equal(target.points[:6], initial)
    same(run(sampler=sampler, initial=initial), run(sampler=sampler, initial=initial.tolist()))


def test_start_points_are_found_where_the_density_is_positive():
    target = Counted(lambda x: NORMAL(x) if x[0] > 1.5 else -np.inf)
    idata = run(target, "random-walk")
    assert np.all(positions(idata)[:, :, 0] > 1.5)
    assert np.all(np.abs(np.array(target.points[:20])) <= 2)


# Results


@FEW
def test_the_layout_of_the_results(sampler):
    idata = run(sampler=sampler, chains=3, draws=50)
    assert groups(idata) - FROZEN == {"posterior", "sample_stats"}
    assert idata["posterior"]["x"].dims == ("chain", "draw", "x_dim_0")
    assert positions(idata).shape == (3, 50, 2) and positions(idata).dtype == np.float64
    moves = statistic(idata, "move")
    assert idata["sample_stats"]["move"].attrs["flag_meanings"].split() == list(MOVES)
    expected = {"differential-evolution", "snooker", "surrogate", "tempered-surrogate"}
    if sampler is not SMALL:
        expected = {"random-walk", "differential-evolution", "independence"}
    assert {MOVES[m] for m in np.unique(moves)} <= expected
    np.testing.assert_array_equal(
        statistic(idata, "lp"), [[NORMAL(x) for x in c] for c in positions(idata)]
    )
    options = kmc.RandomWalkMetropolis() if sampler == "random-walk" else sampler
    attrs = idata.attrs
    assert attrs["sampler"] == options.name
    assert json.loads(attrs["settings"]) == json.loads(json.dumps(dataclasses.asdict(options)))
    assert (attrs["inference_library"], attrs["inference_library_version"]) == (
        "kmc",
        kmc.__version__,
    )
    assert (
        attrs["seed"] == 1
        and attrs["chains"] == 3
        and attrs["independent_runs"] == 1
        and isinstance(sentences(idata), list)
    )
    assert attrs["sampling_time"] > 0 and attrs["tuning_steps"] > 0
    if sampler is SMALL:
        assert attrs["n_refits"] > 0 and attrs["surrogate_n_values"] > 10
        assert attrs["surrogate_loo_sd"] > 0 and attrs["surrogate_metric_spread"] >= 1


@FEW
@pytest.mark.parametrize(("chains", "dim"), slow_except([(1, 1), (1, 3), (2, 1)], [(1, 3), (2, 1)]))
def test_few_chains_and_dimensions(sampler, chains, dim):
    idata = run(Gaussian(dim, 0.0, 1.0), sampler, dim=dim, chains=chains)
    assert positions(idata).shape == (chains, 40, dim)
    assert np.ptp(positions(idata)) > 0


@pytest.mark.filterwarnings("error::kmc.KmcWarning")
@pytest.mark.parametrize(
    ("sampler", "draws"),
    [
        (kmc.KernelHMC(), 300),
        pytest.param(kmc.AdaptiveMetropolis("freeze"), 1500, marks=pytest.mark.slow),
        pytest.param(kmc.AdaptiveMetropolis("vanishing"), 1500, marks=pytest.mark.slow),
    ],
)
def test_a_good_run_has_no_warnings(sampler, draws):
    assert sentences(run(sampler=sampler, draws=draws)) == []


@FEW
def test_arviz_reads_and_writes_a_run(sampler, tmp_path):
    idata = run(sampler=sampler, save_warmup=True)
    assert list(arviz.summary(idata).index) == ["x[0]", "x[1]"]
    idata.to_netcdf(tmp_path / "run.nc")
    back = arviz.from_netcdf(tmp_path / "run.nc")
    assert groups(back) == groups(idata)
    same(back, idata)
    assert dict(back.attrs) == dict(idata.attrs)
    np.testing.assert_array_equal(
        positions(back, "warmup_posterior"), positions(idata, "warmup_posterior")
    )


# Errors in the user's function


class Failing:
    """A target that raises at its k-th call, counted from zero."""

    def __init__(self, k, error):
        self.k, self.error, self.calls = k, error, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.k + 1:
            raise self.error
        return NORMAL(x)


def places(calls, warmup, seed):
    """Evaluations to fail at: first, in the start, in warm-up and in the main phase, last."""
    rng = np.random.default_rng(seed)
    return [0, 3, int(rng.integers(4, warmup)), int(rng.integers(warmup, calls)), calls - 1]


def check_prefix(idata, reference):
    """The draws before the failure are those of an undisturbed run."""
    for group in ("posterior", "warmup_posterior"):
        some, all_ = positions(idata, group), positions(reference, group)
        assert some.shape[1] <= all_.shape[1]
        np.testing.assert_array_equal(some, all_[:, : some.shape[1]])
    return positions(idata, "warmup_posterior").shape[1] + positions(idata).shape[1]


@FEW
def test_an_exception_keeps_the_draws_so_far(sampler):
    target = Counted(NORMAL)
    reference = run(target, sampler, save_warmup=True)
    kept = []
    for k in places(target.n, reference.attrs["n_evaluations_warmup"], seed=1):
        cause = ZeroDivisionError("a rate of zero")
        with pytest.raises(
            kmc.EvaluationError, match=r"ZeroDivisionError: a rate of zero, at x = \["
        ) as caught:
            run(Failing(k, cause), sampler)
        error = caught.value
        assert error.__cause__ is cause
        np.testing.assert_array_equal(error.position, target.points[k])
        assert error.idata.attrs["n_evaluations"] == k + 1
        kept.append(check_prefix(error.idata, reference))
    total = reference.attrs["tuning_steps"] + 40
    assert kept[:2] == [0, 0] and kept == sorted(kept)
    assert sampler is SMALL or kept[2] > 0  # while it learns, it makes no draws
    assert kept[3] > reference.attrs["tuning_steps"] and kept[4] == total - 1


@pytest.mark.parametrize(
    "sampler", slow_except(EVERY, {"vanishing adaptive-metropolis", "random-walk"})
)
def test_an_interruption_returns_the_draws_so_far(sampler):
    """Of kernel HMC in every check, too: test_recorder_resume.py interrupts it again and again."""
    target = Counted(NORMAL)
    reference = run(target, sampler, save_warmup=True)
    kept = []
    for k in places(target.n, reference.attrs["n_evaluations_warmup"], seed=2):
        with pytest.warns(kmc.KmcWarning, match="interrupted"):
            idata = run(Failing(k, KeyboardInterrupt()), sampler)
        assert "interrupted" in sentences(idata)[0]
        assert idata.attrs["n_evaluations"] == k + 1
        kept.append(check_prefix(idata, reference))
    assert (
        kept[:2] == [0, 0]
        and kept == sorted(kept)
        and kept[-1] == reference.attrs["tuning_steps"] + 39
    )


@pytest.mark.parametrize("returned", [None, "a", np.zeros(2), 1j, np.nan, np.inf])
def test_a_value_that_is_no_density_keeps_the_draws_so_far(returned):
    target, reference = Failing(10**9, None), run(sampler="random-walk", save_warmup=True)

    def broken(x):
        value = target(x)
        return returned if target.calls == 250 else value

    with pytest.raises(kmc.EvaluationError, match="log_density returned") as caught:
        run(kmc.Model(broken, dim=2, nonfinite="raise"), "random-walk")
    assert caught.value.position.shape == (2,) and caught.value.__cause__ is None
    assert check_prefix(caught.value.idata, reference) == (250 - 1 - 4) // 4


@FEW
def test_nan_is_rejected_unless_it_raises(sampler):
    n_holes = 0

    def holes(x):
        nonlocal n_holes
        n_holes += x[0] >= 1
        return NORMAL(x) if x[0] < 1 else np.nan

    idata = run(holes, sampler)
    assert np.all(positions(idata)[..., 0] < 1)
    assert idata.attrs["n_nonfinite"] == n_holes > 0.01 * idata.attrs["n_evaluations"]
    assert f"NaN or +inf at {n_holes} of " in idata.attrs["warnings"]
    with pytest.raises(kmc.EvaluationError, match=r"log_density returned NaN.* at x = \[ ?[1-9]"):
        run(kmc.Model(holes, dim=2, nonfinite="raise"), sampler)


@FEW
def test_a_density_of_zero_is_never_drawn(sampler):
    idata = run(lambda x: NORMAL(x) if x[0] < 1 else -np.inf, sampler, draws=100)
    assert np.all(positions(idata)[..., 0] < 1) and np.all(np.isfinite(statistic(idata, "lp")))


# Callbacks


@pytest.mark.slow
@FEW
def test_a_callback_sees_every_sweep_and_can_stop(sampler):
    records = []
    reference = run(sampler=sampler, callback=records.append, save_warmup=True)
    counts = [r.n_evaluations for r in records]
    assert counts == sorted(counts) and counts[-1] == reference.attrs["n_evaluations"]
    assert records[-1].phase == "done" and {r.phase for r in records[1:]} == {
        "warmup",
        "sampling",
        "done",
    }
    assert records[0].phase == "start" and records[0].n_evaluations == 0
    drawn = [r.draw for r in records if r.phase != "done"]
    assert drawn[-1] == 40 and set(np.diff(drawn)) <= {0, 1}
    deciding = [r for r in records[5:] if sampler is not SMALL or r.phase != "warmup"]
    assert all(0 <= r.acceptance_rate <= 1 for r in deciding) and all(
        r.draws == 40 for r in records
    )
    for stop in (3, len(records) // 2, len(records) - 5):
        seen = []
        idata = run(
            sampler=sampler,
            callback=lambda r, stop=stop, seen=seen: seen.append(r) or len(seen) == stop,
            save_warmup=True,
        )
        assert len(seen) in (stop, stop + 1)  # and the last word
        assert (
            seen[-1].n_evaluations
            == idata.attrs["n_evaluations"]
            == records[stop - 1].n_evaluations
        )
        check_prefix(idata, reference)
        made = positions(idata).shape[1]
        assert made == records[stop - 1].draw
        assert made or "stopped within warm-up" in sentences(idata)[0]


def test_an_interruption_in_a_callback_returns_the_draws_so_far():
    def callback(record):
        if record.draw == 10:
            raise KeyboardInterrupt

    with pytest.warns(kmc.KmcWarning, match="interrupted after 10 draws"):
        idata = run(sampler="random-walk", callback=callback)
    assert positions(idata).shape == (4, 10, 2)


def test_an_exception_in_a_callback_keeps_the_draws_so_far():
    def callback(record):
        if record.draw == 10:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full") as caught:
        run(sampler="random-walk", callback=callback)
    assert caught.value.__notes__ == [f"raised by callback={callback!r}"]
    assert positions(caught.value.idata).shape == (4, 10, 2)


# Hard cases


def test_one_start_point_of_positive_density_is_enough():
    initial = np.array([[0.0, 0.0], [50.0, 50.0], [60.0, 60.0], [-50.0, 50.0]])
    for sampler in ("adaptive-metropolis", "random-walk"):
        idata = run(
            lambda x: NORMAL(x) if np.all(np.abs(x) < 3) else -np.inf,
            sampler,
            initial=initial,
            draws=100,
        )
        assert positions(idata).shape == (4, 100, 2)


@pytest.mark.slow
def test_a_kernel_hmc_run_that_never_moves_ends_with_its_budget():
    """Every proposal has density zero."""
    initial = np.array([[0.0, 0.0], [50.0, 50.0], [60.0, 60.0], [-50.0, 50.0]])
    idata = run(
        lambda x: 0.0 if np.all(x == 0) else -np.inf,
        initial=initial,
        warmup=5,
        draws=None,
        max_evaluations=100,
    )
    assert np.all(positions(idata) == 0)


@pytest.mark.parametrize(
    "target",
    [
        lambda x: -float(np.floor(x @ x)),
        lambda x: 0.0 if np.all(np.abs(x) < 1) else -np.inf,
        lambda x: 1e12 - 0.5 * float(x @ x),
    ],
    ids=["stairs", "box", "a large constant"],
)
def test_awkward_densities(target):
    idata = run(target, draws=50, warmup=8)
    assert positions(idata).shape == (4, 50, 2) and np.ptp(positions(idata)) > 0.5
    np.testing.assert_array_equal(
        statistic(idata, "lp"), [[target(x) for x in c] for c in positions(idata)]
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_no_warning_of_another_library_reaches_the_user():
    idata = run(lambda x: -float(np.log1p(x**2).sum()), seed=3, chains=3, draws=50)
    assert positions(idata).shape == (3, 50, 2) and np.ptp(positions(idata)) > 0.5
