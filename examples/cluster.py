"""A simulator on a cluster
========================

``python examples/cluster.py``.

The log-density is a stand-in for an expensive simulation: a damped oscillator is integrated in
small steps, and compared with noisy observations of it. It is evaluated on the workers of a
cluster, four points at a time, one for each chain; the chains, the surrogate and its Hamiltonian
dynamics stay in this process. The trajectory of each draw is returned as a blob.

Here the cluster consists of processes on this machine. For Slurm, replace its line by (``pip
install dask-jobqueue``)::

    from dask_jobqueue import SLURMCluster
    cluster = SLURMCluster(queue="main", cores=1, processes=1, memory="2GB", walltime="02:00:00")
    cluster.scale(jobs=4)  # as many as there are chains

and run this script where the scheduler may run: on the login node, or in a small job of its own.
Workers whose time is up are replaced, and their evaluations are repeated. kmc and all imports of
the log-density must be available on the workers: they share your environment if they share its file
system.

Some evaluations take ten times as long as the others, as those of stiff equations do
(``--straggling``). The last lines show what that costs: after warm-up no chain waits for another
one's evaluation.
"""

from __future__ import annotations

import argparse

import arviz as az
import numpy as np
from distributed import Client, LocalCluster

import kmc

TIMES = np.linspace(0.5, 10.0, 20)
NOISE = 0.1


def simulate(frequency: float, damping: float, step: float = 0.002) -> np.ndarray:
    """Positions at TIMES of an oscillator that starts at 1, at rest; shape (20,)."""
    position, velocity, time, seen = 1.0, 0.0, 0.0, []
    for end in TIMES.tolist():
        while time < end - step / 2:
            velocity -= step * (frequency**2 * position + damping * velocity)
            position += step * velocity
            time += step
        seen.append(position)
    return np.array(seen)


class Posterior:
    """The log-density, with its observations, which are sent to each worker once."""

    def __init__(self, observed: np.ndarray, straggling: float = 0.0):
        self.observed, self.straggling = observed, straggling

    def __call__(self, parameters: dict) -> tuple[float, dict]:
        """Log of prior times likelihood, and the trajectory."""
        frequency, damping = parameters["frequency"], parameters["damping"]
        if frequency > 50:
            return -np.inf, {}
        # as good as random, but the same for the same parameters
        slow = (1e6 * frequency) % 1.0 < self.straggling
        trajectory = simulate(frequency, damping, step=0.0002 if slow else 0.002)
        misfit = (self.observed - trajectory) / NOISE
        return float(-frequency - damping - 0.5 * misfit @ misfit), {"trajectory": trajectory}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--evaluations", type=int, default=600)
    parser.add_argument(
        "--straggling", type=float, default=0.05, help="fraction of slow evaluations"
    )
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    observed = simulate(2.0, 0.3) + NOISE * rng.standard_normal(len(TIMES))
    model = kmc.Model(
        Posterior(observed, options.straggling),
        parameters={"frequency": kmc.Positive(), "damping": kmc.Positive()},
        initial={"frequency": rng.uniform(1.5, 2.5, 4), "damping": rng.uniform(0.1, 0.6, 4)},
    )
    with (
        LocalCluster(n_workers=options.workers, threads_per_worker=1) as cluster,
        Client(cluster) as client,
    ):
        idata = kmc.sample(
            model, draws=None, max_evaluations=options.evaluations, seed=1, executor=client
        )
    print(az.summary(idata))
    mean = idata.blobs["trajectory"].mean(("chain", "draw")).values
    print(
        f"Root mean square of observed - mean trajectory: "
        f"{np.sqrt(np.mean((observed - mean) ** 2)):.3f} ({NOISE})"
    )
    usual, longest = idata.attrs["evaluation_seconds"], idata.attrs["longest_evaluation_seconds"]
    print(f"Evaluations took {usual:.3f} s, the longest {longest:.3f} s.")
    print(f"Workers waited for {idata.attrs['workers_waited']:.0%} of the time.")

    import matplotlib.pyplot as plt

    plt.plot(TIMES, observed, "o", color="#33373d", label="observed")
    plt.plot(TIMES, mean, color="#c8553d", label="mean of the draws")
    plt.xlabel("time")
    plt.ylabel("position")
    plt.legend(frameon=False)
    plt.show()


if __name__ == "__main__":
    main()
