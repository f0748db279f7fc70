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


def sampled(**options):
    """A short run with a frozen phase, in which chains go on alone."""
    return kmc.sample(log_density, **settings("kernel-hmc", max_evaluations=200), **options)


def fingerprint(found):
    """Of the draws."""
    return hashlib.sha256(found.posterior["x"].values.tobytes()).hexdigest()


@pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec")
@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
def test_two_ranks_give_the_same_draws(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [MPIEXEC, "-n", "2", sys.executable, "-m", "mpi4py.futures", str(tmp_path / "script.py")]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    mine = sampled()
    assert json.loads(done.stdout.splitlines()[-1]) == [fingerprint(mine), 1, mine.attrs["n_evaluations"]]
