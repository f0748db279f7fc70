"""datafold on three tasks of ``spectral_peers.py``: ``python benchmarks/spectral_datafold.py --help``.

datafold 2.0 needs SciPy < 1.12 and scikit-learn 1.2, with which kmc does not run: this script is for an environment of
its own (``pip install datafold "setuptools<81"``), and does not import kmc. Of three bandwidths the best *by the truth*
is shown. Medians over seeds, and the largest error; processor seconds of one fit, one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import pdist
from spectral_problems import Normal, Sphere, relative_error, sphere_error

COUNT, HARMONICS = 6, 25
Task = tuple[np.ndarray, int, float, tuple[float, ...], Callable]


def normal(rng: np.random.Generator, n: int) -> Task:
    """Samples, the number of modes, the exponent of the density, bandwidths in median distances, and the error."""
    x, truth = Normal(3).sample(rng, n), Normal(3).eigenvalues(COUNT)
    return x, COUNT, 0.5, (0.2, 0.3, 0.4), lambda values, functions: relative_error(values, truth)


def sphere(rng: np.random.Generator, n: int) -> Task:
    x, truth = Sphere(3).sample(rng, n), Sphere(3).eigenvalues(HARMONICS)
    return x, HARMONICS, 1.0, (0.1, 0.2, 0.3), lambda values, functions: sphere_error(values, truth)


def circle(rng: np.random.Generator, n: int) -> Task:
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    harmonics = np.column_stack([f(k * angle) for k in (1, 2, 3) for f in (np.cos, np.sin)])

    def missed(values, functions):
        design = np.column_stack([functions, np.ones(n)])
        left = harmonics - design @ np.linalg.lstsq(design, harmonics, rcond=None)[0]
        return np.sum(left**2) / np.sum((harmonics - harmonics.mean(axis=0)) ** 2)

    return np.column_stack([np.cos(angle), np.sin(angle)]), COUNT, 1.0, (0.05, 0.1, 0.2), missed


TASKS = {
    "N(0, I3), 6 eigenvalues: mean relative error": normal,
    "sphere, 25 eigenvalues: metric (21)": sphere,
    "circle, 6 harmonics: share of variance missed": circle,
}


def eigenpairs(x: np.ndarray, count: int, alpha: float, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Of the generator, from those of the kernel exp(-|x - y|² / (2 width²)): exp(-λ width² / 2)."""
    from datafold.dynfold import DiffusionMaps
    from datafold.pcfold import GaussianKernel

    model = DiffusionMaps(GaussianKernel(epsilon=width**2), n_eigenpairs=count + 1, alpha=alpha).fit(x)
    return -2.0 * np.log(np.abs(model.eigenvalues_[1:])) / width**2, np.asarray(model.eigenvectors_)[:, 1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="part of a task's name")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, make in TASKS.items():
        if options.only not in name:
            continue
        best, seconds = [], []
        for seed in range(options.seeds):
            x, count, alpha, scales, error = make(np.random.default_rng(seed), options.samples)
            unit, found = float(np.median(pdist(x[:1000]))), []
            for scale in scales:
                begun = time.process_time()
                pairs = eigenpairs(x, count, alpha, scale * unit)
                seconds.append(time.process_time() - begun)
                found.append(float(error(*pairs)))
            best.append(min(found))
        print(
            f"| {name} | datafold | best of 3 | {np.median(best):.3g} | {np.mean(seconds):.3g} | {max(best):.3g} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
