"""A store from anybody harms nobody: nothing is executed, followed, overwritten or allocated for
it.
"""

import os
import shutil
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest

import kmc
from kmc.cli import main
from kmc.run.store.evaluations import stored_evaluations
from kmc.run.store.files import StoreError
from tests.run.store.hostile import CASES, Crafted
from tests.run.store.runs import Interrupted, Stop, log_density, settings

pytestmark = [
    pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning"),
    pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX"),
]

SECONDS, BYTES = 10.0, 2e8
UNFINISHED = (
    "link lock",
    "link .zarr.json.partial",
    "link .lock.partial",
    "pipe history",
    "a_chunk_that_is_another",
)
"""Cases that matter where a run goes on."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A store of a finished run, and one of a run that was interrupted."""
    folder = tmp_path_factory.mktemp("good")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = kmc.sample(log_density, store=folder / "finished.zarr", **settings("random-walk"))
        with pytest.raises(kmc.EvaluationError):
            kmc.sample(
                Interrupted(150, Stop()), store=folder / "dead.zarr", **settings("random-walk")
            )
    return folder, whole


def everything(idata):
    names = (
        idata.groups() if callable(idata.groups) else [name for name in idata.groups if name != "/"]
    )
    return {
        (name, key): variable.values
        for name in names
        for key, variable in idata[name].data_vars.items()
    }


def listed(folder):
    """All files below a folder, with their contents."""
    paths = sorted(path for path in folder.rglob("*") if not path.is_symlink())
    return {str(path): path.read_bytes() if path.is_file() else None for path in paths}


def attempts(path, asked):
    """Everything that reads a store."""
    yield lambda: everything(kmc.load(path))
    yield lambda: stored_evaluations(path)
    yield lambda: main(["status", str(path), "--debug"])
    yield lambda: main(["summary", str(path), "--debug"])
    yield lambda: kmc.sample(log_density, store=path, resume=True, **asked)
    yield lambda: kmc.extend(path, draws=3, target=log_density, progress=False)
    yield lambda: kmc.extend(path, draws=3, progress=False)


@pytest.mark.parametrize("name", list(CASES))
def test_a_crafted_store(name, stores, tmp_path):
    folder, whole = stores
    kind = "dead.zarr" if name.startswith(UNFINISHED) else "finished.zarr"
    (tmp_path / "outside").mkdir()
    crafted = Crafted(
        Path(shutil.copytree(folder / kind, tmp_path / "run.zarr")), tmp_path / "outside"
    )
    CASES[name](crafted)
    before, refused = listed(crafted.outside), 0
    tracemalloc.start()
    began = time.monotonic()
    for attempt in attempts(crafted.path, settings("random-walk")):
        try:
            attempt()
        except (StoreError, FileNotFoundError) as error:
            refused += 1
            assert str(crafted.path) in str(error) or "run.zarr" in str(error)
    took, peak = time.monotonic() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert listed(crafted.outside) == before
    assert {path.name for path in tmp_path.iterdir()} == {"run.zarr", "outside"}
    assert not crafted.executed.exists()
    assert peak < BYTES and took < SECONDS
    if not refused:  # then it was harmless, and everything is right
        found = kmc.load(crafted.path)
        n = whole.posterior.sizes["draw"]
        assert np.array_equal(found.posterior["x"].values[:, :n], whole.posterior["x"].values)
