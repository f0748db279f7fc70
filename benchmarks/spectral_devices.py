"""Sums of forms and a fit for samples in the memory of a GPU: ``python benchmarks/spectral_devices.py --help``.

Each library's arrays are made once, on its default device ("torch, cpu": in the main memory). The time is that of the
mass matrix and the Dirichlet form of Gaussian sections, and of DiffusionMap's fit, the median of several runs after one
that compiles; the error is the largest one relative to the sums of NumPy's arrays. NumPy has as many threads as
OMP_NUM_THREADS says. Libraries that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from kmc.bases import KernelSections
from kmc.forms import accumulate
from kmc.kernels import Gaussian
from kmc.spectral import DiffusionMap

FORMS = ("mass", "dirichlet")


def devices() -> Iterator[tuple[str, Callable[[np.ndarray], Any]]]:
    """Name and function that makes an array, of NumPy first."""
    yield "NumPy", np.asarray
    if importlib.util.find_spec("torch"):
        import torch

        yield "torch, cpu", torch.asarray
        if torch.cuda.is_available():
            yield "torch, cuda", partial(torch.asarray, device="cuda")
    if importlib.util.find_spec("cupy"):
        import cupy

        if cupy.is_available():
            yield "CuPy", cupy.asarray
    if importlib.util.find_spec("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
        yield f"JAX, {jax.default_backend()}", jax.numpy.asarray


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """The median after a run that does not count; results are NumPy's, so that the device has finished."""
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=300_000)
    parser.add_argument("--sections", type=int, default=500)
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    x = np.random.default_rng(0).standard_normal((options.points, options.dim))
    basis = KernelSections(Gaussian(3.0), x[: options.sections])
    exact = accumulate(basis, x, FORMS)
    print("| arrays | type | sums, s | relative error | times NumPy | fit, s | times NumPy |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    base: tuple[float, float] | None = None
    for name, make in devices():
        for kind in ("float64", "float32"):
            if name == "NumPy" and kind == "float32":
                continue  # converted to double
            there = make(x.astype(kind))
            found = accumulate(basis, there, FORMS)
            error = max(
                np.abs(getattr(found, part) - getattr(exact, part)).max() / np.abs(getattr(exact, part)).max()
                for part in FORMS
            )
            sums = seconds(lambda there=there: accumulate(basis, there, FORMS), options.repeats)
            maps = DiffusionMap(bandwidth=3.0, regularization=1e-4, n_basis=options.sections, random_state=0)
            fit = seconds(lambda there=there, maps=maps: maps.fit(there).eigenvalues_, options.repeats)
            base = base or (sums, fit)
            print(
                f"| {name} | {kind} | {sums:.3g} | {error:.1e} | {base[0] / sums:.3g} | {fit:.3g} | "
                f"{base[1] / fit:.3g} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
