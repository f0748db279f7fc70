"""``history=``: existing evaluations."""

import numpy as np
import pytest

import kmc
from kmc.errors import KmcWarning
from kmc.run.history import MOST, as_given
from tests.counted import Counted
from tests.grids import slow_except
from tests.values import check_values

pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")  # of short runs

RNG = np.random.default_rng(7)
ELSEWHERE = RNG.standard_normal((500, 2)) * [4.0, 1.5] + [10.0, 0.0]


def banana(x):
    """Far from the region in which start points are searched without a history."""
    u = x[0] - 10.0
    return -0.5 * (u**2 / 9 + (x[1] + 0.1 * u**2 - 1) ** 2)


def values(points):
    return np.array([banana(x) for x in points])


def sampled(target=banana, **options):
    return kmc.sample(
        target,
        **{"dim": 2, "draws": None, "seed": 1, "progress": False, "max_evaluations": 1500}
        | options,
    )


@pytest.mark.slow
def test_a_history_spares_evaluations_and_the_draws_are_right():
    target = Counted(banana)
    idata = sampled(target, history=(ELSEWHERE, values(ELSEWHERE)))
    plain = sampled(initial=ELSEWHERE[:4], draws=1, max_evaluations=1200)
    assert idata.attrs["n_history"] == 500
    assert idata.attrs["n_evaluations"] == len(target.points) <= 1500
    assert idata.attrs["n_evaluations_warmup"] < 70  # tests of the surrogate, and burn-in
    assert "n_history" not in plain.attrs
    check_values(idata, banana, 2)
    x = idata.posterior["x"].values
    ess = 0.3 * x[..., 0].size  # of the squares, at least
    u = x[..., 0] - 10.0
    assert abs(u.mean()) < 4 * 3 / np.sqrt(ess)
    assert (u**2).mean() == pytest.approx(9.0, abs=4 * 9 * np.sqrt(2 / ess))
    bent = x[..., 1] + 0.1 * u**2 - 1
    assert bent.std() == pytest.approx(1.0, abs=4 / np.sqrt(2 * ess))
    known = {point.tobytes() for point in target.points}
    # each state was evaluated in this run
    assert all(point.tobytes() in known for point in x.reshape(-1, 2))


@pytest.mark.slow
def test_values_of_another_density_make_no_draw_wrong():
    # of its own: RNG depends on the tests before
    elsewhere = np.random.default_rng(4).standard_normal((60, 2)) * 2.0
    idata = sampled(
        lambda x: -0.5 * float(x @ x),
        initial=np.eye(4, 2) * 2.0,
        history=(elsewhere, -2.0 * np.abs(elsewhere - 1.0).sum(axis=1)),
        save_warmup=True,
        warmup=50,
        draws=600,
        max_evaluations=None,
    )
    assert idata.attrs["n_history"] == 60
    for phase in ("", "warmup_"):
        x, lp = idata[f"{phase}posterior"]["x"].values, idata[f"{phase}sample_stats"]["lp"].values
        np.testing.assert_allclose(lp, -0.5 * (x**2).sum(axis=2), rtol=1e-14)
    x = idata.posterior["x"].values
    ess = float(np.min(kmc.convergence.bulk_ess(x)))
    assert ess > 50
    np.testing.assert_allclose(x.mean(axis=(0, 1)), 0.0, atol=4 / np.sqrt(ess))
    np.testing.assert_allclose(x.var(axis=(0, 1)), 1.0, atol=4 * np.sqrt(2 / ess))


@pytest.mark.slow
def test_a_history_that_its_own_points_refute_is_not_used():
    options = {"draws": 5, "warmup": 30, "max_evaluations": None}
    with pytest.warns(
        KmcWarning, match="The history was not used: at its highest points log_density differs"
    ):
        idata = sampled(history=(ELSEWHERE, values(ELSEWHERE) + 3.0), **options)
    assert idata.attrs["n_history"] == 0
    noisy = kmc.Model(banana, dim=2, noisy=True)  # other values are what noise makes
    idata = sampled(noisy, dim=None, history=(ELSEWHERE, values(ELSEWHERE) + 3.0), **options)
    assert idata.attrs["n_history"] == 500


def test_start_points_come_from_the_history_where_there_are_none():
    first = Counted(banana)
    few = ELSEWHERE[:80]
    sampled(first, history=(few, values(few)), draws=1, warmup=1, max_evaluations=None)
    highest = values(few).max()
    for x in first.points[:4]:
        assert any(np.array_equal(x, row) for row in few) and banana(x) > highest - 7
    first = Counted(banana)
    initial = np.full((4, 2), 9.0) + np.arange(4)[:, None]
    sampled(
        first, history=(few, values(few)), initial=initial, draws=1, warmup=1, max_evaluations=None
    )
    np.testing.assert_array_equal(first.points[:4], initial)


def test_points_by_name_get_their_jacobians():
    def log_density(p):
        return -p["rate"] - 0.5 * p["mean"] ** 2

    model = kmc.Model(log_density, parameters={"rate": kmc.Positive(), "mean": kmc.Real()})
    rate, mean = np.array([0.5, 2.0, 3.0]), np.array([0.0, 1.0, -1.0])
    returned = -rate - 0.5 * mean**2
    given = as_given(({"rate": rate, "mean": mean}, returned), model)
    np.testing.assert_allclose(given.x, np.column_stack([np.log(rate), mean]))
    np.testing.assert_allclose(given.values, returned + np.log(rate))
    again = as_given((given.x, returned), model)
    np.testing.assert_allclose(again.values, given.values)
    points = [{"rate": r, "mean": m} for r, m in zip(rate, mean)]
    np.testing.assert_allclose(as_given((points, returned), model).x, given.x)
    with pytest.raises(ValueError, match="history: the parameter 'rate' has the value -1.0"):
        as_given(({"rate": [-1.0], "mean": [0.0]}, [0.0]), model)


def named(p):
    return -p["rate"] - 0.5 * p["mean"] ** 2


def test_stores_and_results_are_histories(tmp_path):
    model = kmc.Model(named, parameters={"rate": kmc.Positive(), "mean": kmc.Real()})
    options = {
        "dim": None,
        "sampler": "random-walk",
        "draws": 30,
        "warmup": 20,
        "max_evaluations": None,
    }
    idata = sampled(model, store=tmp_path / "old.zarr", **options)
    of_store, of_result = as_given(tmp_path / "old.zarr", model), as_given(idata, model)
    # one point was evaluated twice
    assert len(of_store.x) == idata.attrs["n_evaluations"] - 1 > len(of_result.x)
    for given in (of_store, of_result):
        expected = [named({"rate": np.exp(x[0]), "mean": x[1]}) + x[0] for x in given.x]
        np.testing.assert_allclose(given.values, expected)
    other = kmc.Model(named, parameters={"rate": kmc.Positive(), "center": kmc.Real()})
    for history in (tmp_path / "old.zarr", idata):
        with pytest.raises(
            ValueError, match=r"history.* is of a run with the parameters rate, mean \(2 numbers\)"
        ):
            as_given(history, other)


@pytest.mark.slow
@pytest.mark.parametrize("k", slow_except([30, 160], {160}))
def test_a_store_resumes_with_its_history(tmp_path, k, monkeypatch):
    monkeypatch.setattr("kmc.run.store.recorder.SNAPSHOT_SECONDS", 0.0)
    history = (ELSEWHERE[:200], values(ELSEWHERE[:200]))
    asked = {"draws": 10, "warmup": 40, "max_evaluations": None, "store": tmp_path / "run.zarr"}
    reference = sampled(history=history, **asked | {"store": None})
    sampled(history=history, callback=lambda record: record.n_evaluations >= k, **asked)
    with pytest.raises(
        ValueError, match=r"is of a run with history=\[200, .*, and this one has \[100, "
    ):
        sampled(history=(ELSEWHERE[:100], values(ELSEWHERE[:100])), resume=True, **asked)
    result = sampled(resume=True, **asked)  # the store has it
    np.testing.assert_array_equal(result.posterior["x"], reference.posterior["x"])
    assert result.attrs["n_history"] == 200
    longer = kmc.extend(tmp_path / "run.zarr", draws=3, target=banana, progress=False)
    np.testing.assert_array_equal(longer.posterior["x"][:, :10], reference.posterior["x"])


@pytest.mark.parametrize(
    ("history", "error", "message"),
    [
        (3, TypeError, r"history=3: expected \(x, values\)"),
        ((ELSEWHERE,), TypeError, r"expected \(x, values\)"),
        ((ELSEWHERE[:, :1], values(ELSEWHERE)), ValueError, r"history has shape \(500, 1\)"),
        (
            (ELSEWHERE, values(ELSEWHERE)[:9]),
            ValueError,
            r"500 points and values of shape \(9,\): expected \(500,\)",
        ),
        ((ELSEWHERE[:2], [0.0, np.nan]), ValueError, "the value nan at point 1"),
        ((ELSEWHERE[:2], [np.inf, 0.0]), ValueError, "the value inf at point 0"),
        ((ELSEWHERE[:2], ["a", "b"]), TypeError, "history has the values"),
        (
            ([[0.0, np.nan]], [0.0]),
            ValueError,
            r"history\[0\]=\[0.0, nan\]: expected finite numbers",
        ),
        ((np.empty((0, 2)), []), ValueError, "history has shape"),
        ("no.zarr", FileNotFoundError, "no.zarr"),
    ],
)
def test_malformed_histories(history, error, message):
    with pytest.raises(error, match=message):
        sampled(history=history)


def test_samplers_that_learn_nothing_refuse_a_history():
    with pytest.raises(ValueError, match="sampler='random-walk' does not use it"):
        sampled(history=(ELSEWHERE, values(ELSEWHERE)), sampler="random-walk")


def test_repetitions_and_long_histories_are_thinned():
    model = kmc.Model(banana, dim=2)
    twice = np.repeat(ELSEWHERE, 3, axis=0)
    np.testing.assert_array_equal(as_given((twice, values(twice)), model).x, ELSEWHERE)
    x = RNG.standard_normal((MOST + 5000, 2))
    assert as_given((x, np.zeros(len(x))), model).x.shape == (MOST, 2)
