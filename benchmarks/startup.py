"""Time before the first draw: ``python benchmarks/startup.py``.

Prints the time to import kmc in addition to its dependencies, and the time of a first small run
with an empty numba cache and with a full one. Each figure is the median over fresh processes with
one thread.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

THREADS = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}

IMPORT = """
import time
import arviz, h5netcdf, numba, numpy, rich, scipy, xarray
import rich.console, rich.live, scipy.linalg, scipy.spatial
start = time.perf_counter()
import kmc
kmc.sample
print(time.perf_counter() - start)
"""

RUN = """
import time
import kmc
kmc.sample, __import__("arviz")
def log_density(x):
    return -0.5 * float(x @ x)
start = time.perf_counter()
kmc.sample(log_density, dim=3, draws=None, max_evaluations=1000, seed=1, progress=False)
print(time.perf_counter() - start)
"""


def seconds(code: str, cache: str) -> float:
    """The output of the code, in a fresh process."""
    environment = {**os.environ, **THREADS, "NUMBA_CACHE_DIR": cache}
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(out.stdout.split()[-1])


def main() -> None:
    """Measure and print."""
    imports, first, later = [], [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            first.append(seconds(RUN, cache))
            later.append(seconds(RUN, cache))
            imports.append(seconds(IMPORT, cache))
    print(
        f"import kmc, and kmc.sample, beyond the dependencies: {statistics.median(imports):.2f} s"
    )
    print(f"first run of 1,000 evaluations, compilation included: {statistics.median(first):.1f} s")
    print(f"the same later, from the cache: {statistics.median(later):.1f} s")


if __name__ == "__main__":
    main()
