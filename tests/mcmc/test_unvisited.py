import json

import numpy as np
import pytest

import kmc
from kmc.mcmc.history import History
from kmc.mcmc.unvisited import BulkPoints
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


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_a_run_that_loses_a_mode_of_its_starts_says_so():
    """With so few evaluations there is no search for modes."""
    said = []
    for seed in range(3):
        initial = np.random.default_rng(seed).standard_normal((4, 2)) + np.outer([0, 0, 1, 1], FAR)
        run = kmc.sample(two_modes, dim=2, initial=initial, draws=None, max_evaluations=600, seed=seed, progress=False)
        share = float(np.mean(run["posterior"]["x"].values[..., 0] > 6))
        said.append(bool(run.attrs.get("modes_left")))
        assert said[-1] == (share in (0, 1))
        assert said[-1] == any("possibly another mode" in line for line in json.loads(run.attrs["warnings"]))
    assert any(said) and not all(said)
