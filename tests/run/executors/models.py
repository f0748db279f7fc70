"""Log-densities that misbehave; importable in worker processes."""

import os
import subprocess
import time
from pathlib import Path

import numpy as np

POINTS = np.arange(12.0).reshape(6, 2) / 10


def quartic(x):
    """A value with blobs, in plain arithmetic."""
    value = -0.5 * float(x[0] ** 2 + x[1] ** 2) - 0.1 * float(x[0]) ** 4
    return value, {"twice": 2 * x, "value": value}


def rows(x):
    """The same for the rows of x; the blob tells how many came together."""
    return -0.5 * (x**2).sum(axis=1), {"rows": np.full(len(x), len(x))}


class UnpicklableError(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def raising(x):
    if x[0] > 0.3:
        raise UnpicklableError("this", "that")
    return 0.0


def dying(x):
    """Ends its process at one point; vectorized, too."""
    if np.any(x[..., 0] == 0.4):
        os._exit(7)
    return np.zeros(x.shape[:-1])


def slow(x):
    if x[0] == 0.4:
        time.sleep(30)
    return 0.0


class DyingOnce:
    """Ends its process at the first call of all, and leaves a mark for each call that returns."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, x):
        try:
            (self.folder / "died").touch(exist_ok=False)
        except FileExistsError:
            (self.folder / f"{x[0]}").touch(exist_ok=False)  # no point is evaluated twice
            return float(x[0])
        os._exit(7)


class Meeting:
    """Returns once so many processes have called it."""

    def __init__(self, folder, processes):
        self.folder, self.processes = Path(folder), processes

    def __call__(self, x):
        (self.folder / f"{os.getpid()}").touch()
        while len(list(self.folder.iterdir())) < self.processes:
            time.sleep(0.01)
        return float(x[0]), {"pid": os.getpid()}


class SlowOnce:
    """Takes very long at its first call of all."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, x):
        try:
            (self.folder / "slow").touch(exist_ok=False)
        except FileExistsError:
            return float(x[0])
        time.sleep(30)


class Hung:
    """Never returns at one point, and leaves the id of its process."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, x):
        if x[0] == 0.4:
            (self.folder / f"{os.getpid()}").touch()
            time.sleep(60)
        return float(x[0])


def raising_far_out(x):
    if x[0] > 5.5:
        raise UnpicklableError("too", "far")
    return quartic(x)


def hanging_far_out(x):
    if x[0] > 5.5:
        time.sleep(60)
    return quartic(x)


def dying_far_out(x):
    if x[0] > 5.5:
        os._exit(7)
    return quartic(x)


def gone(pid):
    """Whether a process has ended, including a zombie."""
    if os.name == "nt":  # where os.kill would end it
        listed = subprocess.run(
            ["tasklist", "/nh", "/fi", f"pid eq {pid}"], capture_output=True, text=True
        )
        return str(pid) not in listed.stdout
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def wait_until(condition, seconds=240):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
