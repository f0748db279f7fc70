"""Workers of MPI, by ``mpi4py.futures``: two ranks, of which one evaluates."""

import hashlib
import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from shutil import which

import pytest

import kmc
from tests.run.executors import models, test_executors
from tests.run.store.runs import log_density, settings

pytest.importorskip("mpi4py")
MPIEXEC = which("mpiexec", path=sysconfig.get_path("scripts")) or which("mpiexec")

SCRIPT = """
import json
from tests.run.executors.test_mpi import fingerprint, sampled
if __name__ == "__main__":
    from mpi4py.futures import MPIPoolExecutor
    with MPIPoolExecutor() as pool:
        found = sampled(executor=pool)
    print(json.dumps([fingerprint(found), found.attrs["workers"], found.attrs["n_evaluations"]]))
"""

HANGING = """
import kmc
from tests.run.executors import models
from tests.run.executors.test_executors import sampled
from tests.run.executors.test_mpi import fingerprint
if __name__ == "__main__":
    from mpi4py.futures import MPIPoolExecutor
    with MPIPoolExecutor() as pool:
        model = kmc.Model(models.hanging_far_out, dim=2, on_error="reject")
        found = sampled(kmc.MapExecutor(pool, timeout=0.5), model)
    print(fingerprint(found), found.attrs["n_timeouts"])
"""


def sampled(**options):
    """A short run with a frozen phase, in which chains go on alone."""
    return kmc.sample(log_density, **settings("kernel-hmc", max_evaluations=200), **options)


def fingerprint(found):
    """Of the draws."""
    return hashlib.sha256(found.posterior["x"].values.tobytes()).hexdigest()


@pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec")
@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
def test_two_ranks_give_the_same_draws(tmp_path):
    mine = sampled()
    assert json.loads(on_two_ranks(tmp_path, SCRIPT)) == [
        fingerprint(mine),
        1,
        mine.attrs["n_evaluations"],
    ]


@pytest.mark.slow
@pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec")
def test_a_call_that_hangs_on_a_rank_is_rejected(tmp_path):
    """The draws are those of a function that raises an error there."""
    mine = test_executors.sampled(None, kmc.Model(models.raising_far_out, dim=2, on_error="reject"))
    assert on_two_ranks(tmp_path, HANGING) == f"{fingerprint(mine)} {mine.attrs['n_failed']}"


def on_two_ranks(tmp_path, script):
    """Run a script, and return its last line of output."""
    (tmp_path / "script.py").write_text(script)
    command = [
        MPIEXEC,
        "-n",
        "2",
        sys.executable,
        "-m",
        "mpi4py.futures",
        str(tmp_path / "script.py"),
    ]
    root = Path(__file__).parents[3]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=root
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]
