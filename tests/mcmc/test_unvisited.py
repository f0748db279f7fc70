import json

import numpy as np
import pytest

import kmc
from kmc.ess import bulk_ess
from kmc.mcmc import surrogate_trainer
from kmc.mcmc.history import History

FAR = np.array([12.0, 0.0])


def two_modes(x):
    """Weights of .7 and .3, twelve sds apart."""
    return float(np.logaddexp(np.log(0.7) - 0.5 * x @ x, np.log(0.3) - 0.5 * (x - FAR) @ (x - FAR)))


@pytest.fixture
def history():
    """Of 200 points of one mode and ten of the other."""
    x = np.random.default_rng(3).standard_normal((210, 2))
    x[200:] += FAR
    history = History(2)
    history.extend(x, np.array([two_modes(row) for row in x]))
    return history


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
