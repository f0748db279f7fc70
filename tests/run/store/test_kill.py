"""After kill -9 at any moment, any number of times, the run resumes to the same draws."""

import subprocess
import sys
import time

import numpy as np
import pytest

import kmc
from tests.grids import slow_except
from tests.run.store.runs import assert_same, log_density, settings

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")


def kill_past(path, name, n_evaluations, seconds):
    """Run until the store has this number of evaluations, and some time more; whether the run was
    still active.
    """
    command = [sys.executable, "-m", "tests.run.store.victim", str(path), name]
    with subprocess.Popen(command) as process:
        while process.poll() is None and reached(path) < n_evaluations:
            time.sleep(0.1)
        time.sleep(seconds)
        running = process.poll() is None
        process.kill()
    return running


def reached(path):
    return kmc.load(path).attrs.get("n_evaluations", 0) if (path / "zarr.json").exists() else 0


@pytest.mark.parametrize("kills", slow_except({"one": [1000], "three": [1, 1000, 2500]}, {"one"}))
def test_kills(tmp_path, kills):
    path, rng = tmp_path / "run.zarr", np.random.default_rng(3)
    assert all(kill_past(path, "random-walk", n, rng.uniform(0.0, 0.3)) for n in kills)
    asked = settings("random-walk", draws=1500, max_evaluations=None)
    before = reached(path)
    result = kmc.sample(log_density, store=path, resume=True, **asked)
    assert kills[-1] <= before < result.attrs["n_evaluations"]
    assert_same(result, kmc.sample(log_density, **asked))
    assert_same(kmc.load(path), result)
