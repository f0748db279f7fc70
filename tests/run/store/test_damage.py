"""Full disks, read-only folders, changed bytes: errors name the file, and the rest can be read."""

import errno
import os
import warnings

import numpy as np
import pytest

import kmc
from benchmarks import damage
from kmc.model.space import ParameterSpace
from kmc.run.store import files
from tests.grids import slow_except
from tests.run.store.runs import Interrupted, Stop, assert_same, log_density, settings

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")


class FullDisk:
    """Allows this number of writes, half of the next one, and no more."""

    def __init__(self, writes):
        self.left = writes

    def __call__(self, file, content):
        self.left -= 1
        if self.left < 0:
            file.write(content[: len(content) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        file.write(content)


@pytest.mark.parametrize("writes", [0, 2, 60, 61, 62, 130, 200])
def test_a_full_disk(tmp_path, monkeypatch, often, writes):
    path, asked = tmp_path / "run.zarr", settings("random-walk", save_warmup=True)
    whole = kmc.sample(log_density, **asked)
    monkeypatch.setattr(files, "write", FullDisk(writes))
    with pytest.raises(OSError, match=r"No space left on device: '.*run.zarr.*'") as caught:
        kmc.sample(log_density, store=path, **asked)
    assert os.path.exists(caught.value.filename)
    monkeypatch.undo()
    if writes >= 60:  # the store had been made
        assert "from before this error: kmc.load reads them" in caught.value.__notes__[0]
        before, n = kmc.load(path), len(kmc.load(path).posterior["x"][0])
        assert np.array_equal(before.posterior["x"], whole.posterior["x"][:, :n])
        assert caught.value.idata.posterior.sizes["draw"] >= n
    assert_same(kmc.sample(log_density, store=path, resume=True, **asked), whole)


def test_a_disk_that_is_full_at_the_end(tmp_path, monkeypatch):
    """The draws are not lost."""
    path, asked = tmp_path / "run.zarr", settings("random-walk")
    whole = kmc.sample(log_density, **asked)
    run = kmc.iterate(
        log_density, store=path, **{k: v for k, v in asked.items() if k != "progress"}
    )
    for _ in run:
        pass
    monkeypatch.setattr(files, "write", FullDisk(0))
    with pytest.raises(OSError, match="No space left") as caught:
        run.result()
    assert_same(caught.value.idata, whole)


@pytest.mark.parametrize("made", [True, False])
def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch, made):
    """The error comes before any evaluation; existing data can be read."""
    path, opened = tmp_path / "run.zarr", os.open

    def refuse(name, flags, *mode, **others):
        if flags & (os.O_RDWR | os.O_WRONLY) and str(tmp_path) in str(name):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(name))
        return opened(name, flags, *mode, **others)

    if made:
        with pytest.raises(kmc.EvaluationError):
            kmc.sample(Interrupted(150, Stop()), store=path, **settings("random-walk"))
    monkeypatch.setattr(os, "open", refuse)
    counting = Interrupted(0, Stop())
    with pytest.raises(PermissionError, match=r"Permission denied: '.*run.zarr/lock'"):
        kmc.sample(counting, store=path, resume=made, **settings("random-walk"))
    assert counting.calls == 0
    assert not made or kmc.load(path).posterior.sizes["draw"] > 0


class Observed(ParameterSpace):
    """Parameters, and data stored with the draws."""

    data = {"observed_data": {"y": (("time",), np.arange(4.0))}}  # noqa: RUF012


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "run.zarr"
    space = Observed({"rate": kmc.Positive(), "mean": kmc.Real(2)}, None, None)
    model = kmc.Model(lambda x: -0.5 * float(x @ x), space=space)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kmc.sample(model, store=path, **(settings("random-walk") | {"dim": None}))
    return path, everything(kmc.load(path))


def everything(idata):
    """All variables, as bytes; for unreadable ones, the message."""
    found = {}
    for group in ("posterior", "unconstrained_posterior", "sample_stats", "observed_data"):
        for name, variable in idata[group].data_vars.items() if group in idata else ():
            try:
                found[group, name] = variable.values.tobytes()
            except ValueError as error:
                found[group, name] = str(error)
    return found


HARMLESS = [  # what is in them is elsewhere, too, or is not needed for the draws
    "zarr.json",
    "commit.json",
    "lock",
    "draws/trace/zarr.json",
    "draws/trace/position/zarr.json",
    "history/point/c/0/0",
    "model.pickle",
    "sampler",
    "snapshot-*",
]
HARMFUL = {
    "draws/trace/position/c/0/0/0": ("unconstrained_posterior", "x"),
    "draws/trace/log_density/c/0/0": ("sample_stats", "lp"),
    "draws/trace/move/c/0/0": ("sample_stats", "move"),
    "draws/variables/rate/c/0/0": ("posterior", "rate"),
}


@pytest.fixture(params=["flip", "truncate", "remove"])
def harmed(request, finished):
    """Damages a file of the store, until the end of the test."""
    restored = []

    def harm(name):
        path = sorted(finished[0].glob(name))[-1]
        content = path.read_bytes()
        restored.append((path, content))
        if request.param == "remove":
            path.unlink()
        elif request.param == "truncate":
            path.write_bytes(content[: len(content) // 3])
        else:
            at = 9 if path.name == "0" else len(content) // 2
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        return path

    yield harm
    for path, content in restored:
        path.write_bytes(content)


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_damage(finished, harmed, name):
    path = harmed(name)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert everything(kmc.load(finished[0])) == finished[1]
    about = [str(one.message) for one in said if issubclass(one.category, kmc.KmcWarning)]
    assert len(about) == (name == "zarr.json")
    assert name != "zarr.json" or (f"{path} " in about[0] and "commit.json is intact" in about[0])


@pytest.mark.parametrize("name", HARMFUL)
def test_harm_to_draws(finished, harmed, name):
    """The variable in this file cannot be read, all others can."""
    path = harmed(name)
    found = everything(kmc.load(finished[0]))
    assert str(path) in found.pop(HARMFUL[name])
    assert found == {key: value for key, value in finished[1].items() if key != HARMFUL[name]}


def test_harm_to_data(finished, harmed):
    path = harmed("data")
    with pytest.warns(kmc.KmcWarning, match=f"damaged: {path} .*. Left out: observed_data"):
        found = everything(kmc.load(finished[0]))
    assert found == {key: value for key, value in finished[1].items() if key[0] != "observed_data"}


@pytest.mark.parametrize("harm", ["unlink", "cut"])
def test_a_surrogate_that_is_missing_is_told(tmp_path, harm):
    """With given evaluations, too, which also lie in a file of their own."""
    path, x = tmp_path / "run.zarr", np.random.default_rng(0).standard_normal((30, 2))
    asked = settings("kernel-hmc", history=(x, np.array([log_density(row) for row in x])))
    kmc.sample(log_density, store=path, **asked)
    assert "surrogate" in kmc.load(path)
    if harm == "unlink":
        (path / "surrogate").unlink()
    else:
        (path / "surrogate").write_bytes((path / "surrogate").read_bytes()[:100])
    with pytest.warns(
        kmc.KmcWarning, match=r"run.zarr/surrogate .*. Left out: proposals, surrogate"
    ):
        kmc.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_except(list(damage.kinds()), {"plain", "unfinished"}))
def test_every_file_of_every_kind_of_store(tmp_path, kind):
    """A small version of the campaign, ``benchmarks/damage.py``."""
    counts, bad = damage.campaign(kind, tmp_path, every=7)
    assert not bad
    assert counts["load", "right"] > 5 and counts["load", "told"] > 5


def test_harm_to_both_copies_of_the_commit(finished, harmed):
    first, second = harmed("zarr.json"), harmed("commit.json")
    if second.exists():
        with pytest.raises(ValueError, match=f"run.zarr' is damaged: {first} .*; {second} "):
            kmc.load(finished[0])
    else:
        with pytest.raises(ValueError, match="is not a kmc store"):
            kmc.load(finished[0])


def test_a_run_resumes_from_the_copy(tmp_path):
    path, asked = tmp_path / "run.zarr", settings("random-walk")
    with pytest.raises(kmc.EvaluationError):
        kmc.sample(Interrupted(150, Stop()), store=path, **asked)
    (path / "zarr.json").write_bytes((path / "zarr.json").read_bytes()[:-30])
    with pytest.warns(kmc.KmcWarning, match="commit.json is intact, and is read instead"):
        result = kmc.sample(log_density, store=path, resume=True, **asked)
    assert_same(result, kmc.sample(log_density, **asked))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(kmc.load(path), result)
