"""A store is plain data, and its pickles are loaded only on request."""

from types import SimpleNamespace

import numpy as np
import pytest

import kmc
from tests.grids import slow_except
from tests.run.store.runs import Interrupted, Stop, assert_same, log_density, settings

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")


class Straight:
    """An estimator that is not from kmc: the score of a Gaussian."""

    def __repr__(self):
        return "Straight()"

    def fit(self, X):
        self.precision = np.linalg.inv(np.cov(X.T))
        return self

    def gradient(self, X):
        return -X @ self.precision


OWN = kmc.ScoreHMC(
    Straight(),
    max_states=60,
    warmup_sampler=kmc.KernelHMC(n_temperatures=2, max_archive=60, min_warmup_evaluations=80),
)


@pytest.fixture
def no_pickles(monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("a pickle was loaded")

    monkeypatch.setattr("kmc.run.store.snapshot.pickle", SimpleNamespace(loads=never))


def interrupted(path, sampler, k=250):
    with pytest.raises(kmc.EvaluationError):
        kmc.sample(Interrupted(k, Stop()), store=path, **settings("kernel-hmc", sampler=sampler))
    return settings("kernel-hmc", sampler=sampler)


@pytest.mark.parametrize(
    "name", slow_except(["adaptive-metropolis", "kameleon", "vanishing", "nystrom"], {"vanishing"})
)
def test_a_run_is_resumed_and_extended_without_a_pickle(tmp_path, name, no_pickles, often):
    path, asked = tmp_path / "run.zarr", settings(name)
    with pytest.raises(kmc.EvaluationError):
        kmc.sample(Interrupted(143, Stop()), store=path, **asked)
    assert list((path / "snapshots").iterdir()) and not list((path / "snapshots").rglob("pickles"))
    counting = Interrupted(0, Stop())
    result = kmc.sample(counting, store=path, resume=True, **asked)
    assert counting.calls < result.attrs["n_evaluations"] - 100  # from a snapshot and the history
    longer = kmc.extend(path, draws=5, target=log_density, progress=False)
    assert longer.posterior.sizes["draw"] == result.posterior.sizes["draw"] + 5


def test_the_target_is_a_pickle(tmp_path, no_pickles):
    path = tmp_path / "run.zarr"
    kmc.sample(log_density, store=path, **settings("random-walk"))
    with pytest.raises(ValueError, match=r"holds the log-density as a pickle, .*: pass target=.*, or trust=True"):
        kmc.extend(path, draws=5, progress=False)


def test_the_target_of_a_store_that_is_trusted(tmp_path):
    path = tmp_path / "run.zarr"
    kmc.sample(log_density, store=path, **settings("random-walk"))
    assert kmc.extend(path, draws=5, trust=True, progress=False).posterior.sizes["draw"] == 45


def test_an_estimator_of_the_users_asks_for_trust(tmp_path, often):
    path, whole = tmp_path / "run.zarr", kmc.sample(log_density, **settings("kernel-hmc", sampler=OWN))
    asked = interrupted(path, OWN)
    with pytest.raises(ValueError, match=r"run.zarr' holds .*test_trust.Straight\) as a pickle.*pass trust=True"):
        kmc.sample(log_density, store=path, resume=True, **asked)
    with pytest.raises(ValueError, match="pass trust=True"):
        kmc.iterate(log_density, store=path, resume=True, **{k: v for k, v in asked.items() if k != "progress"})
    assert_same(kmc.sample(log_density, store=path, resume=True, trust=True, **asked), whole)
    with pytest.raises(ValueError, match=r"test_trust.Straight\) as a pickle.*pass trust=True"):
        kmc.extend(path, draws=5, target=log_density, progress=False)
    n = whole.posterior.sizes["draw"]
    longer = kmc.extend(path, draws=5, target=log_density, trust=True, progress=False)
    assert np.array_equal(longer.posterior["x"][:, :n], whole.posterior["x"])


def test_trust_is_true_or_false(tmp_path):
    for call in (kmc.sample, kmc.iterate):
        with pytest.raises(TypeError, match="trust='yes': expected True or False"):
            call(log_density, dim=2, store=tmp_path / "run.zarr", trust="yes")
    with pytest.raises(TypeError, match="trust=1: expected True or False"):
        kmc.extend(tmp_path / "run.zarr", draws=1, trust=1)


def test_an_older_format(tmp_path):
    """Of kmc 0.1.0 before stores were plain data."""
    from kmc.run.store.columns import read_json, write_json

    path = tmp_path / "run.zarr"
    kmc.sample(log_density, store=path, **settings("random-walk"))
    root = read_json(path / "zarr.json")
    root["attributes"]["kmc"]["format"] = 1
    write_json(path / "zarr.json", root)
    with pytest.raises(
        ValueError, match=r"has format 1, and kmc .* reads format 2: use the version that wrote it, kmc"
    ):
        kmc.load(path)
