"""A store is plain data, and its pickles are loaded only on request."""

import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

import kmc
from kmc.run.store import parts
from kmc.run.store.recorder import Recorder
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


OWN = kmc.ScoreHMC(Straight(), max_states=60, warmup_sampler=kmc.KernelHMC(burn_in=3))


@pytest.fixture
def no_pickles(monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("a pickle was loaded")

    monkeypatch.setattr("kmc.pickles.pickle", SimpleNamespace(loads=never))


def interrupted(path, sampler, k=250):
    with pytest.raises(kmc.EvaluationError):
        kmc.sample(Interrupted(k, Stop()), store=path, **settings("kernel-hmc", sampler=sampler))
    return settings("kernel-hmc", sampler=sampler)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    slow_except(["adaptive-metropolis", "kameleon", "kernel-hmc", "nystrom"], {"kernel-hmc"}),
)
def test_a_run_is_resumed_and_extended_without_a_pickle(tmp_path, name, no_pickles, often):
    path, asked = tmp_path / "run.zarr", settings(name)
    with pytest.raises(kmc.EvaluationError):
        kmc.sample(Interrupted(143, Stop()), store=path, **asked)
    assert len(list(path.glob("snapshot-*"))) == 1
    counting = Interrupted(0, Stop())
    result = kmc.sample(counting, store=path, resume=True, **asked)
    assert counting.calls < result.attrs["n_evaluations"] - 100  # from a snapshot and the history
    longer = kmc.extend(path, draws=5, target=log_density, progress=False)
    assert longer.posterior.sizes["draw"] == result.posterior.sizes["draw"] + 5
    assert_same(kmc.load(path), longer)


def test_the_target_is_a_pickle(tmp_path, no_pickles):
    path = tmp_path / "run.zarr"
    kmc.sample(log_density, store=path, **settings("random-walk"))
    with pytest.raises(
        ValueError, match=r"holds the log-density as a pickle, .*: pass target=.*, or trust=True"
    ):
        kmc.extend(path, draws=5, progress=False)


def test_the_target_of_a_store_that_is_trusted(tmp_path):
    path = tmp_path / "run.zarr"
    kmc.sample(log_density, store=path, **settings("random-walk"))
    assert kmc.extend(path, draws=5, trust=True, progress=False).posterior.sizes["draw"] == 45


@pytest.mark.slow
def test_an_estimator_of_the_users_asks_for_trust(tmp_path, often):
    path, whole = (
        tmp_path / "run.zarr",
        kmc.sample(log_density, **settings("kernel-hmc", sampler=OWN)),
    )
    asked = interrupted(path, OWN)
    assert not list(path.glob("snapshot-*"))  # the state of such an estimator is not plain data
    assert_same(kmc.sample(log_density, store=path, resume=True, **asked), whole)
    with pytest.raises(ValueError, match=r"test_trust.Straight\) as a pickle.*pass trust=True"):
        kmc.extend(path, draws=5, target=log_density, progress=False)
    n = whole.posterior.sizes["draw"]
    longer = kmc.extend(path, draws=5, target=log_density, trust=True, progress=False)
    assert np.array_equal(longer.posterior["x"][:, :n], whole.posterior["x"])


def test_a_snapshot_that_another_user_signed_is_used_with_trust_only(tmp_path, monkeypatch, often):
    """The draws are the same: without it the run is repeated from its history."""
    path, asked, restored = tmp_path / "run.zarr", settings("delayed"), []
    restore = Recorder.restore
    monkeypatch.setattr(
        Recorder, "restore", lambda self: restored.append(restore(self)) or restored[-1]
    )
    whole = kmc.sample(log_density, **asked)
    with pytest.raises(kmc.EvaluationError):
        kmc.sample(Interrupted(240, Stop()), store=path, **asked)
    for trust, key in ((False, "mine"), (False, "theirs"), (True, "theirs")):
        monkeypatch.setattr(parts, "_key", key.encode if key == "theirs" else parts._key)
        copy = shutil.copytree(path, tmp_path / f"{trust}-{key}.zarr")
        assert_same(kmc.sample(log_density, store=copy, resume=True, trust=trust, **asked), whole)
    assert restored == [False, True, False, True]


def test_the_key_is_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(parts, "_key", parts._key.__wrapped__)
    first = parts._key()
    assert parts._key() == first == (tmp_path / "kmc" / "key").read_bytes()
    if os.name == "posix":
        assert (tmp_path / "kmc" / "key").stat().st_mode & 0o777 == 0o600
        (tmp_path / "kmc" / "key").chmod(0o644)  # anybody could have read it
        assert parts._key() not in (first, parts._key())


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_store_with_a_pickled_model_is_its_owners_alone(tmp_path):
    path = tmp_path / "run.zarr"
    kmc.sample(log_density, store=path, **settings("random-walk"))
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / "model.pickle").stat().st_mode & 0o777 == 0o600


def test_trust_is_true_or_false(tmp_path):
    for call in (kmc.sample, kmc.iterate):
        with pytest.raises(TypeError, match="trust='yes': expected True or False"):
            call(log_density, dim=2, store=tmp_path / "run.zarr", trust="yes")
    with pytest.raises(TypeError, match="trust=1: expected True or False"):
        kmc.extend(tmp_path / "run.zarr", draws=1, trust=1)
