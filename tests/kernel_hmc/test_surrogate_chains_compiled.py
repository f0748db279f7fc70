"""Compilation in a thread."""

import subprocess
import sys

SCRIPT = """
import os, threading, time
import numpy as np
import kmc
from kmc.surrogate.jit_state import values_and_gradients

seen = []

def density(x):
    seen.append(any(thread.name == "kmc-compilation" for thread in threading.enumerate()))
    time.sleep(0.02)
    return -0.5 * float(x @ x)

start = np.random.default_rng(0).standard_normal((4, 2))
kmc.sample(density, dim=2, initial=start, draws=None, max_evaluations=14, seed=1, progress=False)
assert any(seen), "no evaluation was made beside the thread"
child = os.fork()  # waits for the thread
if not child:
    os._exit(not values_and_gradients.signatures)
assert os.waitpid(child, 0)[1] == 0, "the fork did not wait"
"""


def test_it_goes_on_beside_evaluations_and_a_fork_waits_for_it():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
