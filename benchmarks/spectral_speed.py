"""Assembly beside klap and bare matrix products, whole fits, and time scales of a million frames
beside deeptime.

python benchmarks/spectral_speed.py [--skip-klap] [--skip-million]; processor time of one thread:
set OMP_NUM_THREADS=1. klap and deeptime (PyPI) are needed for their columns.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from contextlib import suppress

import numpy as np
from scipy.signal import lfilter
from trajectories import SYSTEMS, System, _euler

from kmc.bases import KernelSections
from kmc.forms import accumulate
from kmc.kernels import Exponential, Gaussian
from kmc.scores import NystromKEF
from kmc.spectral import DiffusionMap, TransitionOperator

FRAMES = (30_000, 300_000, 1_000_000)
LAGTIME = 10
CELLS = 100
STRIDE = 10  # of the frames that k-means sees
MODES = 10


def least(function, repeats=5):
    """Processor seconds, the minimum of several."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def products(n, p, with_squares):
    """Seconds of the matrix products that assembly needs: one general, and a number of symmetric
    ones.
    """
    a, b = np.random.default_rng(0).standard_normal((2, 2048, p))
    return (least(lambda: a.T @ b, 5) + with_squares * least(lambda: a.T @ a, 5)) * n / 2048


def klap_assembly(name, x, p):
    """Seconds of klap's fit up to its eigenproblem."""
    from klap import kernels
    from klap.kernels import kernel_laplacian

    class Assembled(Exception):
        pass

    def stop(*args, **kwargs):
        raise Assembled

    solver, kernel_laplacian.eigh = kernel_laplacian.eigh, stop

    def fit():
        with suppress(Assembled):
            getattr(kernels, name)(sigma=4.0).fit(x, p=p)

    try:
        return least(fit, 2)
    finally:
        kernel_laplacian.eigh = solver


def klap_fit(x, p):
    """Seconds of klap's fit."""
    from klap.kernels import GaussianKernel

    return least(lambda: GaussianKernel(sigma=4.0).fit(x, p=p), 2)


def double_well(frames: int, seed: int) -> np.ndarray:
    """Overdamped Langevin dynamics in a double well, times nine normal coordinates that forget in
    50 frames.
    """
    system, rng = _system(), np.random.default_rng([seed, 40])
    starts = np.zeros((1, 2))
    starts[:, :1] = system.grid.sample(rng, 1)
    slow = _euler(system.slope, starts, system.h, system.substeps, frames, False, rng)[0, :, :1]
    kept = np.exp(-system.h * system.substeps)
    noise = rng.standard_normal((frames, 9))
    noise[1:] *= np.sqrt(1 - kept**2)
    return np.hstack([slow, lfilter([1.0], [1.0, -kept], noise, axis=0)])


def _system() -> System:
    return next(system for system in SYSTEMS if system.name == "off equilibrium")


def kmc_trajectory(x, test):
    """Seconds, slowest time scale with its error, and score on other data."""
    begun = time.process_time()
    operator = TransitionOperator(LAGTIME, MODES, random_state=0).fit(x)
    seconds = time.process_time() - begun
    return (
        seconds,
        f"{operator.timescales_[0]:.0f} ± {operator.timescale_errors_[0]:.0f}",
        operator.score(test),
    )


def deeptime_trajectory(x, test):
    """The same by k-means and a reversible Markov state model, which has no error."""
    from deeptime.clustering import KMeans
    from deeptime.markov import TransitionCountEstimator
    from deeptime.markov.msm import MaximumLikelihoodMSM

    begun = time.process_time()
    clusters = KMeans(CELLS, max_iter=20, fixed_seed=1, n_jobs=1).fit_fetch(x[::STRIDE])
    counts = (
        TransitionCountEstimator(LAGTIME, "sliding")
        .fit_fetch(clusters.transform(x))
        .submodel_largest()
    )
    model = MaximumLikelihoodMSM(reversible=True).fit_fetch(counts)
    slowest = model.timescales(1)[0]
    seconds = time.process_time() - begun
    return seconds, f"{slowest:.0f}", model.score(clusters.transform(test), r=2, dim=MODES + 1)


def nystrom_score() -> None:
    """Print the seconds of a Nyström score estimator of 500 functions, and of the product of their
    gradients.
    """
    x = np.random.default_rng(2).standard_normal((1_000_000, 10))
    options = {
        "n_basis": 50,
        "bandwidth": 4.0,
        "regularization": 1e-3,
        "base": "gaussian",
        "random_state": 0,
    }
    NystromKEF(**options).fit(x[:2000])
    seconds = least(lambda: NystromKEF(**options).fit(x), 1)
    gradients = np.random.default_rng(0).standard_normal((20_000, 500))
    bare = least(lambda: gradients.T @ gradients) * x.size / len(gradients)
    print(
        f"\nNystromKEF with 500 functions of 1,000,000 samples in ten dimensions: {seconds:.1f} "
        f"s; the product of "
        f"their gradients alone: {bare:.1f} s"
    )


def trajectories() -> None:
    """Print a row for each length."""
    truth, test = _system().timescales[0], double_well(100_000, 1)
    print(
        f"\nA double well in ten dimensions, lagtime {LAGTIME}; the slowest time scale is "
        f"{truth:.0f} frames\n"
    )
    print(
        "| frames | kmc s | time scale | VAMP-2 score on other frames | deeptime s | time scale | "
        "score | ratio |"
    )
    print("| ---: |" + 7 * " ---: |")
    for frames in FRAMES:
        x = double_well(frames, 0)
        own, scale, score = min(
            (kmc_trajectory(x, test) for _ in range(2)), key=lambda found: found[0]
        )
        theirs, other, score_of_cells = min(
            (deeptime_trajectory(x, test) for _ in range(2)), key=lambda one: one[0]
        )
        print(
            f"| {frames:,} | {own:.1f} | {scale} | {score:.3f} | {theirs:.1f} | {other} | "
            f"{score_of_cells:.3f} | {own / theirs:.1f} |",
            flush=True,
        )
    print(
        "\nThe Markov state models are too coarse for ten dimensions, and so is a kernel that "
        "weighs all coordinates "
        "alike: with one of the median distance and the first 300,000 frames"
    )
    operator = TransitionOperator(LAGTIME, MODES, bandwidth="median", random_state=0).fit(
        double_well(300_000, 0)
    )
    print(f"the time scale is {operator.timescales_[0]:.0f} ± {operator.timescale_errors_[0]:.0f}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip-klap", action="store_true")
    parser.add_argument("--skip-million", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    x = np.random.default_rng(0).standard_normal((10_000, 10))
    print("Assembly of mass and Dirichlet form, n = 10,000, d = 10, p = 500\n")
    print(
        "| kernel | kmc s | share of the matrix products' speed | klap s | ratio |\n| --- | --- "
        "| "
        "--- | --- | --- |"
    )
    for kernel, squares, peer in (
        (Gaussian(4.0), 1, "GaussianKernel"),
        (Exponential(4.0), 2, "ExponentialKernel"),
    ):
        basis = KernelSections(kernel, x[:500])
        accumulate(basis, x, ("mass", "dirichlet"))
        own, bare = np.inf, np.inf
        for _ in range(10):  # in turn, so that other load affects both
            own = min(
                own, least(lambda basis=basis: accumulate(basis, x, ("mass", "dirichlet")), 3)
            )
            bare = min(bare, products(len(x), 500, squares))
        theirs = np.nan if args.skip_klap else klap_assembly(peer, x, 500)
        share = bare / own
        print(
            f"| {kernel!r} | {own:.3f} | {share:.0%} | {theirs:.2f} | {theirs / own:.0f} |",
            flush=True,
        )
    given = {"bandwidth": 4.0, "regularization": 1e-6, "landmarks": x[:500], "n_basis": 500}
    own = least(lambda: DiffusionMap(6, **given).fit(x), 5)
    theirs = np.nan if args.skip_klap else klap_fit(x, 500)
    print(
        f"\nA fit with bandwidth, regularization and landmarks given: {own:.2f} s; klap's: "
        f"{theirs:.2f} s, "
        f"{theirs / own:.1f} times as long"
    )
    fit = least(lambda: DiffusionMap(n_components=6, random_state=0).fit(x), 2)
    print(f"\nA fit with model selection, n = 10,000, d = 10, p = 200: {fit:.2f} s")
    if args.skip_million:
        return
    large = np.random.default_rng(1).standard_normal((1_000_000, 10))
    seconds = least(lambda: DiffusionMap(n_components=6, n_basis=300, random_state=0).fit(large), 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"n = 1,000,000, d = 10, p = 300: {seconds:.1f} s, at most {peak / 1024:.0f} MB, samples "
        f"included"
    )
    nystrom_score()
    trajectories()


if __name__ == "__main__":
    main()
