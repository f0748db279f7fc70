"""A program that reads and writes files
=====================================

``python examples/program_with_files.py``.

The model is a program of its own: it reads ``input.txt``, writes ``output.txt``, and tells by its
exit code whether it succeeded. Here it is a few lines of Python that let a population grow; put
your own command in place of ``COMMAND``.

- Each call has a temporary folder of its own, so that calls in several processes do not meet. It is
  always removed.
- An exit code other than zero becomes an exception with the program's last message, and a program
  that takes too long is killed. With ``on_error="reject"`` the density is zero there, and the run
  goes on: the result counts such calls, keeps some of them, and a warning names the parameter that
  they share.
- Outputs are kept under a number that is a hash of the input. The number is a blob, so that each
  draw knows its file.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import kmc

PROGRAM = """
import sys
rate, capacity = map(float, open("input.txt").read().split())
if rate > 2.5:
    sys.exit("no stable step")  # a message on standard error, and exit code 1
size, sizes = 10.0, []
for step in range(12):
    sizes.append(size)
    size += rate * size * (1 - size / capacity)
open("output.txt", "w").write(" ".join(map(repr, sizes)))
"""
COMMAND = [sys.executable, "-I", "-S", "-c", PROGRAM]
TRUTH = {"rate": 0.8, "capacity": 300.0}
NOISE = 10.0


class Simulation:
    """The log-likelihood of counts by the program's output.

    Parameters
    ----------
    observed : ndarray, shape (12,)
    kept : Path
        The folder in which outputs are kept.
    timeout : float
        Seconds after which the program is killed.
    """

    def __init__(self, observed: np.ndarray, kept: Path, timeout: float = 10.0):
        self.observed, self.kept, self.timeout = observed, kept, timeout

    def __call__(self, parameters: dict[str, float]) -> tuple[float, dict[str, int]]:
        """The log-likelihood, and the number of the kept output."""
        sizes, number = self.run(**parameters)
        return -0.5 * float(np.sum((self.observed - sizes) ** 2)) / NOISE**2, {"output": number}

    def run(self, rate: float, capacity: float) -> tuple[np.ndarray, int]:
        """Sizes of the population, and the number of the kept output."""
        text = f"{rate!r} {capacity!r}"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "input.txt").write_text(text)
            done = subprocess.run(
                COMMAND, cwd=folder, timeout=self.timeout, capture_output=True, text=True
            )
            if done.returncode:
                raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()}")
            output = (folder / "output.txt").read_text()
        number = int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)
        (self.kept / f"{number}.txt").write_text(output)
        return np.array(output.split(), dtype=float), number


def main(evaluations: int = 600, executor: Any = 2) -> Any:
    """Sample, and draw the kept outputs of some draws."""
    kept = Path(tempfile.mkdtemp())
    sizes, _ = Simulation(np.zeros(12), kept).run(**TRUTH)
    observed = sizes + NOISE * np.random.default_rng(0).standard_normal(12)
    model = kmc.Model(
        Simulation(observed, kept),
        parameters={"rate": kmc.LogNormal(0.0, 1.0), "capacity": kmc.LogNormal(6.0, 1.0)},
        on_error="reject",
    )
    idata = kmc.sample(
        model, draws=None, max_evaluations=evaluations, seed=1, executor=executor, progress=False
    )
    for name, draws in idata.posterior.data_vars.items():
        print(
            f"{name:9s}{float(draws.mean()):8.2f} +- {float(draws.std()):.2f}, truth {TRUTH[name]}"
        )
    print(
        idata.attrs["n_failed"],
        "calls were rejected, such as",
        *json.loads(idata.attrs["rejected"])[:1],
    )
    _, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
    for number in idata.blobs["output"].values.ravel()[::20]:
        ax.plot(np.loadtxt(kept / f"{number}.txt"), color="#4a8fa1", alpha=0.3, linewidth=1)
    ax.plot(observed, "o", color="#33373d", markersize=4)
    ax.set(xlabel="step", ylabel="size of the population")
    return idata


if __name__ == "__main__":
    main()
    plt.show()
