"""The search for modes: its steps, and runs that start in some modes and must keep all."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chi2

import kmc
from kmc.mcmc.history import History
from kmc.mcmc.local_searches import Summit
from kmc.mcmc.mode_shapes import Shape
from kmc.mcmc.modes import _Learning
from kmc.surrogates import FitOptions
from tests.grids import slow_except
from tests.mcmc.modes import Mixture, far, searching, starts
from tests.values import check_values


def test_a_mode_that_only_hot_walkers_evaluated_is_a_part():
    """A wide mode, eight nats lower than a narrow one, of which hardly an evaluation is shallow."""
    target = far(2, weights=(0.3, 0.7), widths=(1.0, 0.02))
    rng = np.random.default_rng(3)
    hot = target.centers[0] + 2.0 * rng.standard_normal((150, 2))
    cold = target.centers[1] + 0.03 * rng.standard_normal((250, 2))
    _, made = searching(target, np.vstack([hot, cold]), cold[:4])
    ((setup, cloud),) = made
    x = setup.history[0]
    label = target.labels(x)
    assert len(set(label)) == 1 and len(x) == (150 if label[0] == 0 else 250)
    assert np.all(target.labels(cloud) == label[0]) and np.linalg.matrix_rank(np.cov(cloud.T)) == 2


def test_given_values_do_not_start_the_warm_up_of_a_part():
    """They may be wrong, and the value of a start is that of a state."""
    target = far(2, weights=(0.3, 0.7))
    rng = np.random.default_rng(3)
    x = starts(target, rng, 200)
    given = x + 0.1 * rng.standard_normal(x.shape)
    values = np.array([target(row) for row in given]) + 6.0
    search, made = searching(target, x, x[:4], given=(given, values))
    setup = made[0][0]
    assert len(setup.history[0]) > 300 and search._n_parts == 1
    assert np.array_equal(setup.initial_log_density, [target(row) for row in setup.initial])
    assert search._start_part() and len(made) == 2
    assert np.array_equal(made[1][0].initial_log_density, [target(row) for row in made[1][0].initial])


@pytest.mark.parametrize("spike", [0.0, 30.0])
def test_a_warm_up_that_climbs_out_of_its_region_is_no_mode(spike):
    """The arm of a mode; unless the density rises more than the surrogate says: that is a narrow mode in a wide one."""
    target = Mixture([1.0], [[0.0, 0.0]], [1.0])
    target.labels = lambda x: np.ones(len(x), int)
    search, _ = searching(target, np.random.default_rng(0).standard_normal((300, 2)), np.eye(2))
    relearned = []
    search._main.relearn = lambda x, values: relearned.append((x, values))
    search._main.frozen = False
    arm, climbing = np.array([[5.0, 0.0], [5.0, 0.1]]), np.array([[2.5, 0.0], [6.0, 0.0]])
    history = History(2)
    history.extend(arm, target.parts(arm)[:, 0])
    surrogate = SimpleNamespace(log_density=lambda x: target.parts(x)[:, 0], error_sd=0.1)
    explorer = SimpleNamespace(
        mixture=SimpleNamespace(surrogate=surrogate),
        trainer=SimpleNamespace(history=history, n_fits=1),
        frozen=False,
        propose_again=lambda: climbing,
        advance=lambda values: None,
    )
    search._shapes.append(Shape(-12.5, search._frame.coordinates(arm[:1])[0], np.eye(2)))
    search._learning = _Learning(explorer, 1, Summit(arm[0], -12.5, np.ones(2), 0.0), [])
    search._searches.stop()
    values = target.parts(climbing)[:, 0] + [spike, 0.0]
    for _ in range(9):
        search._learn(search._learning, values)
    assert search._learning.explorer is explorer and not relearned
    search._learn(search._learning, values)
    assert (search._learning is None) == bool(relearned) == (spike == 0.0)
    if relearned:
        assert len(search._shapes) == 1 and climbing[0].tolist() in relearned[0][0].tolist()


def test_a_part_without_a_surrogate_has_no_shape():
    """Else the shapes after it would be those of other explorers."""
    target = far(2, weights=(0.3, 0.7), widths=(1.0, 0.02))
    rng = np.random.default_rng(3)
    hot = target.centers[0] + 2.0 * rng.standard_normal((150, 2))
    cold = target.centers[1] + 0.03 * rng.standard_normal((250, 2))
    search, made = searching(target, np.vstack([hot, cold]), cold[:4])
    explorer, second = search._learning.explorer, search._shapes[1]
    assert len(made) == 1 and search._n_parts == 1
    explorer.mixture = SimpleNamespace(surrogate=None)
    explorer.trainer.n_fits, explorer.frozen = 0, True
    explorer.propose_again, explorer.advance = lambda: cold[:1], lambda values: None
    search._learn(search._learning, np.array([target(cold[0])]))
    assert search._learning is None and search._shapes == [second] and not search.explorers
    search._next()
    assert search._learning.shape == 0 and len(made) == 2


def test_a_part_that_another_part_claims_is_none():
    target = far(2, weights=(0.3, 0.7), widths=(1.0, 0.02))
    rng = np.random.default_rng(3)
    hot = target.centers[0] + 2.0 * rng.standard_normal((150, 2))
    cold = target.centers[1] + 0.03 * rng.standard_normal((250, 2))
    search, made = searching(target, np.vstack([hot, cold]), cold[:4])
    search._shapes[1] = search._shapes[1]._replace(top=-1e9)
    assert not search._start_part()
    assert len(search._shapes) == len(made) == 1 and search._n_parts == 0


SEARCHING = kmc.KernelHMC(min_search_budget=1000)


def run(target, initial, budget, seed=1, sampler=SEARCHING, **options):
    options |= {"sampler": sampler, "seed": seed, "max_evaluations": budget}
    idata = kmc.sample(target, target.dim, initial=initial, draws=None, progress=False, **options)
    n = target.n
    check_values(idata, target, target.dim)
    target.n = n
    return idata


def weight_error(idata, target, mode=0):
    """Error of the weight of a mode, in standard errors by ArviZ's effective sample size."""
    import arviz as az

    inside = (target.labels(idata.posterior["x"].values) == mode).astype(float)
    assert 0.0 < inside.mean() < 1.0
    ess = float(az.ess({"inside": inside})["inside"])
    p = target.weights[mode]
    return (inside.mean() - p) / np.sqrt(p * (1 - p) / ess), ess


@pytest.mark.parametrize("dim", slow_except([2, 5], {2}))
def test_two_far_modes_that_starts_cover_keep_their_weights(dim):
    target = far(dim)
    idata = run(target, starts(target, np.random.default_rng(dim)), 1000 if dim == 2 else 3000)
    error, ess = weight_error(idata, target)
    assert abs(error) < np.sqrt(chi2.isf(1e-5, 1))
    assert ess > (100 if dim == 2 else 300)
    assert idata.attrs["n_modes"] == 2
    assert json.loads(idata.attrs["warnings"]) == []


@pytest.mark.slow
def test_a_mode_that_one_start_has_seen_is_not_lost():
    target = far(3, weights=(0.4, 0.6), widths=(0.2, 1.0))
    rng = np.random.default_rng(5)
    wide = target.centers[1] + rng.standard_normal((3, 3))
    idata = run(target, np.vstack([wide, target.centers[:1]]), 3000)
    error, _ = weight_error(idata, target)
    assert abs(error) < np.sqrt(chi2.isf(1e-5, 1)) or json.loads(idata.attrs["warnings"])


@pytest.mark.slow
def test_a_narrow_mode_far_away_is_found_from_starts_all_over_the_box():
    """All starts lead to the wide mode; the other one is seen, hundreds of nats deep, from points of the box alone."""
    target = far(5, widths=(1.0, 0.5), apart=13.0)
    initial = np.random.default_rng(0).uniform(-6.0, 6.0, (8, 5))
    idata = kmc.sample(target, dim=5, initial=initial, draws=None, max_evaluations=6000, seed=2, progress=False)
    assert idata.attrs["n_modes"] == 2 and abs(weight_error(idata, target)[0]) < 4.0


@pytest.mark.slow
def test_a_narrow_mode_inside_a_wide_one_has_its_weight():
    """There is no gap between them, and no single surrogate represents both."""
    target = Mixture([0.6, 0.4], np.zeros((2, 3)), [1.0, 0.1])
    sampler = kmc.KernelHMC(min_search_budget=1000, fit=FitOptions(n_basis=30, bandwidths=(1.2, 2.0)))
    idata = run(target, starts(target, np.random.default_rng(1)), 2500, sampler=sampler)
    error, ess = weight_error(idata, target)
    assert abs(error) < np.sqrt(chi2.isf(1e-5, 1))
    assert ess > 300
    assert idata.attrs["n_modes"] == 2


def nested():
    """A search after a warm-up with a narrow mode in a wide one, and evaluations of hot walkers around both."""
    target, rng = Mixture([0.6, 0.4], np.zeros((2, 4)), [1.0, 0.05]), np.random.default_rng(5)
    x = np.vstack([starts(target, rng, 300), 2.0 * rng.standard_normal((200, 4))])
    search, made = searching(target, x, x[:4])
    return target, search, made


def test_two_gaussians_that_explain_the_values_divide_before_gaps_do(monkeypatch):
    """Groups with a gap between them have covariances that would give the narrow one points of the wide one."""
    monkeypatch.setattr("kmc.mcmc.mode_shapes.divided", lambda z, rng: [np.arange(len(z)) % 2 == k for k in (0, 1)])
    target, search, made = nested()
    assert search._overlapping and len(search._shapes) == 2
    assert len(set(target.labels(made[0][0].history[0]))) == 1


def test_two_gaussians_keep_their_border():
    """The states of a warm-up, hot ones among them, say less than they do."""
    _, search, _ = nested()
    before, trainer = search._shapes[0], SimpleNamespace(n_fits=0, history=search._main.trainer.history)
    trainer.states = lambda: 100.0 * np.random.default_rng(1).standard_normal((50, 4))

    def advance(values):
        trainer.n_fits += 1

    surrogate = search._frame
    explorer = SimpleNamespace(
        trainer=trainer,
        frozen=False,
        mixture=SimpleNamespace(surrogate=surrogate),
        advance=advance,
        propose_again=lambda: np.zeros((1, 4)),
    )
    search._learn(_Learning(explorer, 0, None, []), np.zeros(1))
    assert trainer.n_fits == 1 and search._shapes[0] is before
    search._overlapping = False
    search._learn(_Learning(explorer, 0, None, []), np.zeros(1))
    assert trainer.n_fits == 2 and search._shapes[0] is not before


def test_a_start_in_a_new_mode_does_not_count_as_the_height_of_an_old_one():
    target = Mixture([0.4, 0.6], np.zeros((2, 2)), [0.05, 1.0])
    wide = np.random.default_rng(0).standard_normal((300, 2))
    search, _ = searching(target, np.vstack([wide[np.linalg.norm(wide, axis=1) > 0.3], [[0.02, 0.0]]]), np.eye(2))
    narrow = search._frame.coordinates(np.zeros((1, 2)))[0]
    search._overlapping, search.explorers = False, [search._main]
    search._shapes = [search._shape_of(search._main), Shape(target(np.zeros(2)), narrow, np.eye(2) / 0.05**2)]
    before = search._shapes[0].top
    search._lower_tops()
    assert before > 2.0 and search._shapes[0].top == pytest.approx(np.log(0.6), abs=0.7)


@pytest.mark.slow
def test_searches_can_be_switched_off_and_cost_no_more_than_their_share():
    target = far(2)
    initial = starts(target, np.random.default_rng(2), per_mode=4)[:5]
    off = run(target, initial, 1500, sampler=kmc.KernelHMC(search_share=0.0))
    assert "n_modes" not in off.attrs
    idata = run(target, initial, 1500)
    assert idata.attrs["n_evaluations"] == target.n - off.attrs["n_evaluations"]
    assert idata.attrs["n_evaluations_warmup"] < 0.75 * 1500


def short(**options):
    target = far(2)
    return run(target, starts(target, np.random.default_rng(3)), 1500, **options).posterior["x"].values


@pytest.fixture(scope="module")
def whole():
    """Draws of a short run among two modes."""
    return short()


@pytest.mark.slow
def test_a_run_of_several_modes_is_reproducible(whole):
    np.testing.assert_array_equal(short(), whole)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
@pytest.mark.parametrize("stop", [510, 560])  # in the warm-up of the first mode, and of the second
def test_it_resumes_bit_for_bit_within_the_warm_ups_of_modes(tmp_path, whole, stop):
    store = tmp_path / "run.zarr"
    stopped = short(store=store, callback=lambda progress: progress.n_evaluations > stop)
    assert stopped.shape[1] == 0
    np.testing.assert_array_equal(short(store=store, resume=True), whole)
