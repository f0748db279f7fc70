"""kill -9 at any moment, as often as you like: the run goes on to the same draws."""

import subprocess
import sys
import time

import numpy as np
import pytest

import kmc
from tests.run.store.runs import assert_same, log_density, settings

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")


def killed_after(path, name, seconds):
    """Run until so long after the first line; whether it was still at it."""
    command = [sys.executable, "-m", "tests.run.store.victim", str(path), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        time.sleep(seconds)
        running = process.poll() is None
        process.kill()
    return running


def test_kills(tmp_path):
    path, rng = tmp_path / "run.zarr", np.random.default_rng(3)
    assert sum(killed_after(path, "adaptive-metropolis", rng.uniform(0.1, 0.6)) for _ in range(3)) >= 2
    asked = settings("adaptive-metropolis", draws=1500, max_evaluations=None)
    reached = kmc.load(path).attrs.get("n_evaluations", 0)
    result = kmc.sample(log_density, store=path, resume=True, **asked)
    assert 0 < reached < result.attrs["n_evaluations"]
    assert_same(result, kmc.sample(log_density, **asked))
    assert_same(kmc.load(path), result)
