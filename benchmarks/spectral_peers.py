"""One table of kmc beside klap, deeptime, pydiffmap and scikit-learn: ``python
benchmarks/spectral_peers.py --help``.

Each task has a truth that is independent of all packages: closed forms, a fine grid, or a dense
eigenproblem of all samples. kmc chooses its settings automatically; for a peer with settings to
choose, several are tried and the one with the smallest error *compared with the truth* is shown,
with the time of one fit. klap (PyPI: klap) is the library of Cabannes and Bach (2023). A peer that
is not installed is left out, with a note. Medians over seeds; processor seconds of one thread.

    pip install klap deeptime pydiffmap scikit-learn
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from scipy import linalg
from score_results import markdown, number
from spectral_chains import CHAINS, METHODS, errors
from spectral_problems import Normal, Sphere, relative_error, sphere_error
from spectral_speed import klap_assembly, least

from kmc.bases import KernelSections
from kmc.forms import accumulate
from kmc.kernels import Exponential, Gaussian, median_distance
from kmc.spectral import DiffusionMap, GraphLaplacian, KernelPCA, NystromEmbedding

COUNT, HARMONICS, COMPONENTS = 6, 25, 10
PACKAGES = {
    "klap": "klap",
    "deeptime": "deeptime",
    "pydiffmap": "pydiffmap",
    "scikit-learn": "sklearn",
}


# Peers: generators of estimates, one setting after the other


def klap_spectra(x: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Eigenvalues without the constant's: two kernels, bandwidths, regularizations, and both of its
    orientations.
    """
    from klap import kernels

    def fit(kernel, scale, epsilon, inverse):
        model = getattr(kernels, kernel)(sigma=scale * median_distance(x))
        model.fit(
            x,
            p=200,
            k=count + 1,
            inverse_L=inverse,
            L_reg=epsilon * inverse,
            R_reg=epsilon * (not inverse),
        )
        return (1 / model.eigenvalues[::-1] if inverse else model.eigenvalues)[1 : count + 1]

    options = product(
        ("GaussianKernel", "ExponentialKernel"), (0.5, 1.0, 2.0), (1e-8, 1e-6, 1e-4), (True, False)
    )
    yield from (fit(*choice) for choice in options)


def pydiffmap_fit(x: np.ndarray, count: int, epsilon, neighbors: int, alpha: float):
    """Its epsilon is h²/2 of kmc's GraphLaplacian."""
    from pydiffmap.diffusion_map import DiffusionMap as PyDiffusionMap

    return PyDiffusionMap.from_sklearn(
        n_evecs=count, k=neighbors, epsilon=epsilon, alpha=alpha
    ).fit(x)


def pydiffmap_settings(x: np.ndarray, scales: tuple[float, ...]):
    """Bandwidths, from median distances, and numbers of neighbors."""
    for scale, neighbors in product(scales, (64, 256, 1024)):
        yield (scale * median_distance(x)) ** 2 / 2, min(neighbors, len(x))


def pydiffmap_spectra(
    x: np.ndarray, count: int, alpha: float, scales: tuple[float, ...]
) -> Iterator[np.ndarray]:
    """Eigenvalues."""
    for setting in pydiffmap_settings(x, scales):
        yield -np.sort(pydiffmap_fit(x, count, *setting, alpha).evals)[::-1]


def pydiffmap_functions(
    x: np.ndarray, count: int, scales: tuple[float, ...]
) -> Iterator[np.ndarray]:
    """Eigenfunctions at the samples."""
    for setting in pydiffmap_settings(x, scales):
        yield pydiffmap_fit(x, count, *setting, 1.0).evecs


def scikit_learn_functions(x: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """SpectralEmbedding, which gives no eigenvalues; on nearest neighbors and with Gaussian
    weights.
    """
    from sklearn.manifold import SpectralEmbedding

    for n in (10, 30, 100):
        nearest = SpectralEmbedding(
            count, affinity="nearest_neighbors", n_neighbors=n, random_state=0
        )
        yield nearest.fit_transform(x)
    for scale in (0.1, 0.3):
        gamma = 0.5 / (scale * median_distance(x)) ** 2
        yield SpectralEmbedding(count, affinity="rbf", gamma=gamma, random_state=0).fit_transform(x)


def once(estimate: Callable[[], np.ndarray]) -> Iterator[np.ndarray]:
    """For a method that chooses its settings automatically."""
    yield estimate()


# Tasks: (package, method, estimates, error of one)


def normal(seed: int, n: int):
    """The Ornstein-Uhlenbeck operator in three dimensions."""
    problem = Normal(3)
    x = problem.sample(np.random.default_rng(seed), n)
    error = lambda found: relative_error(found, problem.eigenvalues(COUNT))  # noqa: E731
    own = {"DiffusionMap": None, "DiffusionMap, given the score": problem.score}
    for name, score in own.items():
        model = DiffusionMap(n_components=COUNT, score_function=score, random_state=seed)
        yield "kmc", name, once(lambda m=model: m.fit(x).eigenvalues_), error
    yield "klap", "best of 36", klap_spectra(x, COUNT), error
    yield "pydiffmap", "best of 9", pydiffmap_spectra(x, COUNT, 0.5, (0.2, 0.3, 0.4)), error


def sphere(seed: int, n: int):
    """Harmonics of degree up to four."""
    problem = Sphere(3)
    x = problem.sample(np.random.default_rng(seed), n)
    error = lambda found: sphere_error(found, problem.eigenvalues(HARMONICS))  # noqa: E731
    model = DiffusionMap(n_components=HARMONICS, normals=problem.normals, random_state=seed)
    yield "kmc", "DiffusionMap, given the normals", once(lambda: model.fit(x).eigenvalues_), error
    yield (
        "kmc",
        "GraphLaplacian",
        once(lambda: GraphLaplacian(HARMONICS, alpha=1.0).fit(x).eigenvalues_),
        error,
    )
    yield "klap", "best of 36", klap_spectra(x, HARMONICS), error
    yield "pydiffmap", "best of 9", pydiffmap_spectra(x, HARMONICS, 1.0, (0.1, 0.2, 0.3)), error


def circle(seed: int, n: int):
    """Functions, as scikit-learn gives no eigenvalues: sines and cosines of degree up to three."""
    angle = np.random.default_rng(seed).uniform(0.0, 2.0 * np.pi, n)
    x = np.column_stack([np.cos(angle), np.sin(angle)])
    harmonics = np.column_stack([f(k * angle) for k in (1, 2, 3) for f in (np.cos, np.sin)])
    error = lambda found: missed(found, harmonics)  # noqa: E731
    model = DiffusionMap(n_components=COUNT, normals=lambda y: y, random_state=seed)
    yield "kmc", "DiffusionMap, given the normals", once(lambda: model.fit(x).transform(x)), error
    yield (
        "kmc",
        "GraphLaplacian",
        once(lambda: GraphLaplacian(COUNT, alpha=1.0).fit(x).embedding_),
        error,
    )
    yield "pydiffmap", "best of 9", pydiffmap_functions(x, COUNT, (0.05, 0.1, 0.2)), error
    yield "scikit-learn", "SpectralEmbedding, best of 5", scikit_learn_functions(x, COUNT), error


def chain(seed: int, n: int):
    """A random walk in a double well, with 10 times as many samples."""
    well = CHAINS[0]
    x = well.simulate(10 * n, seed)
    error = lambda found: errors(found, well.spectrum[1])[0]  # noqa: E731
    for name, method in METHODS.items():
        package, _, what = name.partition(" ")
        yield package, what, method(x, seed), error


def digits(seed: int, n: int):
    """Kernel PCA of 1,797 images, and the low-rank approximation of their kernel."""
    from sklearn.datasets import load_digits

    x = load_digits().data
    bandwidth = median_distance(x)
    kernel = {"kernel": "rbf", "gamma": 0.5 / bandwidth**2}
    gram = np.exp(-kernel["gamma"] * np.maximum(squared(x), 0.0))
    centered = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    top = [len(x) - COMPONENTS, len(x) - 1]
    truth = linalg.eigvalsh(centered, subset_by_index=top)[::-1] / len(x)
    error = lambda found: relative_error(found, truth)  # noqa: E731
    for size in (400, len(x)):
        model = KernelPCA(COMPONENTS, bandwidth=bandwidth, n_basis=size, random_state=seed)
        yield (
            "kmc",
            f"KernelPCA, {size} landmarks",
            once(lambda m=model: m.fit(x).eigenvalues_),
            error,
        )
    yield "scikit-learn", "KernelPCA", once(lambda: scikit_learn_kernel_pca(x, kernel)), error


def low_rank(seed: int, n: int):
    """Relative Frobenius error of the kernel matrix of the digits, by rank 200."""
    from sklearn.datasets import load_digits
    from sklearn.kernel_approximation import Nystroem

    x = load_digits().data
    bandwidth = median_distance(x)
    gamma = 0.5 / bandwidth**2
    gram = np.exp(-gamma * np.maximum(squared(x), 0.0))
    error = lambda z: float(np.linalg.norm(z @ z.T - gram) / np.linalg.norm(gram))  # noqa: E731
    own = NystromEmbedding(200, bandwidth=bandwidth, n_basis=200, random_state=seed)
    peer = Nystroem(gamma=gamma, n_components=200, random_state=seed)
    yield "kmc", "NystromEmbedding", once(lambda: own.fit_transform(x)), error
    yield "scikit-learn", "Nystroem", once(lambda: peer.fit_transform(x)), error


TASKS = {
    "N(0, I3), 6 eigenvalues: mean relative error": (normal, ()),
    "sphere, 25 eigenvalues: metric (21)": (sphere, ()),
    "circle, 6 harmonics: share of variance missed": (circle, ()),
    "double-well chain, 5 eigenvalues: largest error": (chain, ()),
    "digits, 10 kernel principal values: mean relative error": (digits, ("scikit-learn",)),
    "digits, kernel matrix in rank 200: relative error": (low_rank, ("scikit-learn",)),
}


def scikit_learn_kernel_pca(x, kernel):
    from sklearn.decomposition import KernelPCA as Peer

    return Peer(COMPONENTS, **kernel).fit(x).eigenvalues_ / len(x)


def squared(x: np.ndarray) -> np.ndarray:
    """Squared distances between all rows."""
    square = np.sum(x**2, axis=1)
    return square[:, None] + square - 2.0 * x @ x.T


def missed(functions: np.ndarray, truth: np.ndarray) -> float:
    """Fraction of the variance of true functions (n, k) that others (n, l) do not span."""
    design = np.column_stack([functions, np.ones(len(functions))])
    left = truth - design @ np.linalg.lstsq(design, truth)[0]
    return float(np.sum(left**2) / np.sum((truth - truth.mean(axis=0)) ** 2))


def best(estimates: Iterator[np.ndarray], error: Callable) -> tuple[float, float]:
    """The smallest error of several settings, and the processor seconds of one."""
    begun = time.process_time()
    found = [error(one) if np.all(np.isfinite(one)) else np.inf for one in estimates]
    return min(found), (time.process_time() - begun) / len(found)


def compare(task: str, seeds: int, n: int, present: set[str]) -> list[tuple]:
    """Lines of the table."""
    make, needs = TASKS[task]
    if not present.issuperset(needs):
        return []
    rows: dict[tuple, list] = {}
    for seed in range(seeds):
        for package, method, estimates, error in make(seed, n):
            if package in present:
                rows.setdefault((package, method), []).append(best(estimates, error))
    return [
        (task, *names, *map(number, np.median(r, axis=0)), number(max(r)[0]))
        for names, r in rows.items()
    ]


def assembly(present: set[str]) -> list[tuple]:
    """Mass and Dirichlet form of 500 sections over 10,000 points in ten dimensions."""
    x = np.random.default_rng(0).standard_normal((10_000, 10))
    lines = []
    for kernel, peer in (
        (Gaussian(4.0), "GaussianKernel"),
        (Exponential(4.0), "ExponentialKernel"),
    ):
        basis = KernelSections(kernel, x[:500])
        accumulate(basis, x[:100], ("mass", "dirichlet"))
        task = f"assembly, {kernel!r}, n = 10,000, p = 500"
        if "kmc" in present:
            seconds = least(lambda basis=basis: accumulate(basis, x, ("mass", "dirichlet")), 5)
            lines.append((task, "kmc", "accumulate", "", number(seconds), ""))
        if "klap" in present:
            lines.append((task, "klap", peer, "", number(klap_assembly(peer, x, 500)), ""))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--packages", nargs="+", choices=("kmc", *PACKAGES), default=["kmc", *PACKAGES]
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)  # from klap
    present = {"kmc"} | {
        name for name, module in PACKAGES.items() if importlib.util.find_spec(module) is not None
    }
    present &= set(options.packages)
    for name in sorted(set(options.packages) - present):
        print(f"{name} is not installed: left out\n")
    head = ("task", "package", "method", "error", "seconds a fit", "worst error")
    print(markdown(head, [], 3), flush=True)
    for task in TASKS:
        for line in compare(task, options.seeds, options.samples, present):
            print(f"| {' | '.join(line)} |", flush=True)
    for line in assembly(present):
        print(f"| {' | '.join(line)} |", flush=True)


if __name__ == "__main__":
    main()
