"""Assembly of the forms, compared with klap and with bare matrix products; a whole fit, and a million samples.

python benchmarks/spectral_speed.py [--skip-klap] [--skip-million]; processor time of one thread: set
OMP_NUM_THREADS=1. klap (PyPI) is needed for its column.
"""

from __future__ import annotations

import argparse
import resource
import time
from contextlib import suppress

import numpy as np

from kmc.bases import KernelSections
from kmc.forms import accumulate
from kmc.kernels import Exponential, Gaussian
from kmc.spectral import DiffusionMap


def least(function, repeats=5):
    """Processor seconds, the minimum of several."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def products(n, p, with_squares):
    """Seconds of the matrix products that assembly needs: one general, and a number of symmetric ones."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip-klap", action="store_true")
    parser.add_argument("--skip-million", action="store_true")
    args = parser.parse_args()
    x = np.random.default_rng(0).standard_normal((10_000, 10))
    print("Assembly of mass and Dirichlet form, n = 10,000, d = 10, p = 500\n")
    print("| kernel | kmc s | share of the matrix products' speed | klap s | ratio |\n| --- | --- | --- | --- | --- |")
    for kernel, squares, peer in ((Gaussian(4.0), 1, "GaussianKernel"), (Exponential(4.0), 2, "ExponentialKernel")):
        basis = KernelSections(kernel, x[:500])
        accumulate(basis, x, ("mass", "dirichlet"))
        own, bare = np.inf, np.inf
        for _ in range(10):  # in turn, so that other load affects both
            own = min(own, least(lambda basis=basis: accumulate(basis, x, ("mass", "dirichlet")), 3))
            bare = min(bare, products(len(x), 500, squares))
        theirs = np.nan if args.skip_klap else klap_assembly(peer, x, 500)
        share = bare / own
        print(f"| {kernel!r} | {own:.3f} | {share:.0%} | {theirs:.2f} | {theirs / own:.0f} |", flush=True)
    fit = least(lambda: DiffusionMap(n_components=6, random_state=0).fit(x), 2)
    print(f"\nA fit with model selection, n = 10,000, d = 10, p = 200: {fit:.2f} s")
    if args.skip_million:
        return
    large = np.random.default_rng(1).standard_normal((1_000_000, 10))
    seconds = least(lambda: DiffusionMap(n_components=6, n_basis=300, random_state=0).fit(large), 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"n = 1,000,000, d = 10, p = 300: {seconds:.1f} s, at most {peak / 1024:.0f} MB, samples included")


if __name__ == "__main__":
    main()
