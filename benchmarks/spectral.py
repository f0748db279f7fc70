"""All benchmarks of spectra, one after the other: ``python benchmarks/spectral.py --only hermite,accuracy``.

Each part is a separate script with its own options; this one runs them as for the tables in README.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PARTS = {
    "hermite": ("spectral_hermite.py",),
    "accuracy": ("spectral_accuracy.py", "--seeds", "4"),
    "defaults": ("spectral_defaults.py",),
    "speed": ("spectral_speed.py",),
    "scaling": ("spectral_scaling.py", "--rerun"),
    "chains": ("spectral_chains.py",),
    "rates": ("slow_modes_rates.py",),
    "peers": ("spectral_peers.py",),
    "galerkin": ("spectral_galerkin.py", "--size", "full"),
    "sketches": ("spectral_sketches.py", "--seeds", "30"),
}
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help="parts, with commas")
    chosen = parser.parse_args().only
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"--only {','.join(sorted(unknown))}: expected some of {', '.join(PARTS)}")
    for part in chosen:
        script, *options = PARTS[part]
        print(f"\n## {part}\n", flush=True)
        subprocess.run([sys.executable, str(HERE / script), *options], env=os.environ | ONE_THREAD, check=True)


if __name__ == "__main__":
    main()
