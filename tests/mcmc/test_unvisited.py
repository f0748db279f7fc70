import json

import numpy as np
import pytest

import kmc
from kmc.ess import bulk_ess
from kmc.mcmc import surrogate_trainer
from kmc.mcmc.history import History
from kmc.mcmc.unvisited import BulkPoints, left_behind
from kmc.surrogates import fit_surrogate

FAR = np.array([12.0, 0.0])


def two_modes(x):
    """Weights of .7 and .3, twelve sds apart."""
    return float(np.logaddexp(np.log(0.7) - 0.5 * x @ x, np.log(0.3) - 0.5 * (x - FAR) @ (x - FAR)))


@pytest.fixture(scope="module")
def bulk():
    """Of a history with both modes, and the states of one."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 2))
    x[:20] += FAR
    values = np.array([two_modes(row) for row in x])
    history = History(2)
    history.extend(x, values)
    return BulkPoints.of(fit_surrogate(x[20:], values[20:], x[20:], rng=rng), history, x[20:])


def test_a_mode_without_states_is_told(bulk):
    position, value = bulk.unvisited()
    assert np.linalg.norm(position - FAR) < 4 and value == two_modes(position)


def test_what_chains_visit_is_dropped(bulk):
    assert bulk.without_neighbors(FAR[None]).unvisited() is None
    assert bulk.without_neighbors(np.zeros((1, 2))).unvisited() is not None


def test_a_mode_that_only_warm_up_has_visited_is_told_after_enough_states(bulk):
    only_near = bulk._replace(distances=np.zeros(len(bulk.z)))
    rest = only_near.without_neighbors(np.random.default_rng(2).standard_normal((200, 2)))
    assert rest.unvisited(139) is None
    position, _ = rest.unvisited(140)
    assert np.linalg.norm(position - FAR) < 4


def test_one_state_is_too_few():
    history = History(2)
    history.extend(np.zeros((1, 2)), np.zeros(1))
    assert BulkPoints.of(None, history, np.zeros((3, 2))) is None


@pytest.fixture
def history():
    """Of 200 points of one mode and ten of the other."""
    x = np.random.default_rng(3).standard_normal((210, 2))
    x[200:] += FAR
    history = History(2)
    history.extend(x, np.array([two_modes(row) for row in x]))
    return history


def test_points_of_a_mode_without_states_are_left_behind(history):
    """All that are in the bulk: less than three nats below the highest value."""
    high = history.log_density[200:] > history.log_density.max() - 3
    left = left_behind(history, history.x[:60], np.random.default_rng(0))
    assert 0 < high.sum() < 10
    np.testing.assert_array_equal(np.unique(left, axis=0), np.unique(history.x[200:][high], axis=0))


def test_there_are_at_most_half_as_many_as_states(history):
    left = left_behind(history, history.x[:12], np.random.default_rng(0))
    assert len(left) == 6 and np.all(left[:, 0] > 6)


@pytest.mark.parametrize("states", [slice(0, 60), slice(150, 210)], ids=["one mode", "both modes"])
def test_nothing_is_left_behind_where_states_are(history, states):
    everywhere = history.x[states]
    one = History(2)
    one.extend(history.x[:200], history.log_density[:200])
    known = history if states.stop > 200 else one
    assert not len(left_behind(known, everywhere, np.random.default_rng(0)))


def test_few_states_do_not_show_what_is_far(history):
    assert left_behind(history, history.x[:5], np.random.default_rng(0)).shape == (0, 2)


def test_units_do_not_matter(history):
    scaled = History(2)
    scaled.extend(history.x * [1e6, 1e-6], history.log_density)
    left = left_behind(history, history.x[:60], np.random.default_rng(0))
    np.testing.assert_allclose(
        left_behind(scaled, scaled.x[:60], np.random.default_rng(0)), left * [1e6, 1e-6], rtol=1e-12
    )


def short_runs():
    """Which draws are in the far mode, and whether a mode is told, of short runs with starts in both."""
    found = []
    for seed in range(3):
        initial = np.random.default_rng(seed).standard_normal((4, 2)) + np.outer([0, 0, 1, 1], FAR)
        run = kmc.sample(two_modes, dim=2, initial=initial, draws=None, max_evaluations=600, seed=seed, progress=False)
        said = bool(run.attrs.get("modes_left"))
        assert said == any("possibly another mode" in line for line in json.loads(run.attrs["warnings"]))
        far = run["posterior"]["x"].values[..., 0] > 6
        found.append((far, said))
    return found


def test_short_runs_keep_the_modes_of_their_starts():
    """With so few evaluations there is no search for modes."""
    for far, said in short_runs():
        assert not said
        assert abs(far.mean() - 0.3) < 4 * np.sqrt(0.3 * 0.7 / bulk_ess(far[..., None].astype(float))[0])


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_a_run_that_loses_a_mode_of_its_starts_says_so(monkeypatch):
    """As runs did before points that states leave behind became jumps' ends."""
    monkeypatch.setattr(surrogate_trainer, "left_behind", lambda history, states, rng: states[:0])
    found = short_runs()
    assert [said for _, said in found] == [far.mean() in (0, 1) for far, _ in found]
    assert 0 < sum(said for _, said in found) < len(found)
