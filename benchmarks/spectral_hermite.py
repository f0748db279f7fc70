"""Hermite polynomials from samples, as in figure 1 of Pillaud-Vivien and Bach (2023): ``--help``.

The first five eigenfunctions of the Ornstein–Uhlenbeck operator: from 30 points with a regularization of .1, as there
(the bandwidth is kmc's), from more points with automatic settings, and their cosines with the polynomials.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.polynomial import hermite_e

from kmc.spectral import DiffusionMap

HERE = Path(__file__).parent
SIZES = (30, 300, 3000)
COUNT = 5
AS_IN_THE_PAPER = {"bandwidth": 2.0, "regularization": 0.1}


def hermite(x: np.ndarray) -> np.ndarray:
    """The polynomials of degree 1 to 5 at points (n,), orthonormal under N(0, 1): shape (n, 5)."""
    norms = np.cumprod(np.sqrt(np.arange(1, COUNT + 1)))
    return hermite_e.hermevander(x, COUNT)[:, 1:] / norms


def estimated(n: int, seed: int) -> tuple[np.ndarray, DiffusionMap]:
    """Samples (n, 1) and the fit to them."""
    x = np.random.default_rng(seed).standard_normal((n, 1))
    settings = AS_IN_THE_PAPER if n == SIZES[0] else {}
    return x, DiffusionMap(n_components=COUNT, n_basis=min(n, 200), random_state=seed, **settings).fit(x)


def cosines(x: np.ndarray, fit: DiffusionMap) -> np.ndarray:
    """Cosine between each estimate and its polynomial, over the samples."""
    functions, truth = fit.transform(x), hermite(x[:, 0])[:, : len(fit.eigenvalues_)]
    norms = np.linalg.norm(functions, axis=0) * np.linalg.norm(truth, axis=0)
    return np.abs(np.sum(functions * truth, axis=0)) / norms


def _medians(values: Iterable[np.ndarray]) -> list[str]:
    """The median of each mode over the fits that have it; empty if none has."""
    modes = itertools.zip_longest(*values, fillvalue=None)
    known = [[value for value in mode if value is not None] for mode in modes]
    texts = [f"{np.median(mode):.2f}" for mode in known]
    return texts + [""] * (COUNT - len(texts))


def table(seeds: int) -> str:
    """Markdown: eigenvalues and cosines, medians over seeds that have the mode, and how many modes each seed has."""
    degrees = range(1, COUNT + 1)
    head = "| n | modes of each seed | " + " | ".join(f"λ{k}" for k in degrees) + " | cosines |"
    lines = [head, "| ---: | --- |" + " ---: |" * (COUNT + 1)]
    lines.append(f"| truth | | {' | '.join(map(str, degrees))} |{' 1' * COUNT} |")
    for n in SIZES:
        fits = [estimated(n, seed) for seed in range(seeds)]
        found = " ".join(str(fit.n_components_) for _, fit in fits)
        eigenvalues = _medians(fit.eigenvalues_ for _, fit in fits)
        near = " ".join(_medians(cosines(*pair) for pair in fits))
        lines.append(f"| {n} | {found} | {' | '.join(eigenvalues)} | {near} |")
    return "\n".join(lines)


def draw(path: Path, seed: int) -> None:
    """The estimates over the polynomials, a panel per number of samples."""
    import matplotlib.pyplot as plt

    line = np.linspace(-4.0, 4.0, 400)
    figure, axes = plt.subplots(1, len(SIZES), figsize=(12, 3.6), sharey=True, layout="constrained")
    for axis, n in zip(axes, SIZES, strict=True):
        x, fit = estimated(n, seed)
        functions, truth = fit.transform(line[:, None]), hermite(line)
        found = fit.n_components_
        signs = np.sign(np.sum(fit.transform(x) * hermite(x[:, 0])[:, :found], axis=0))
        for k in range(found):
            axis.plot(line, truth[:, k], color=f"C{k}", linestyle=":", linewidth=1)
            axis.plot(line, signs[k] * functions[:, k], color=f"C{k}", label=f"degree {k + 1}")
        axis.plot(x[:, 0], np.full(n, -3.9), "|", color="black", alpha=min(1.0, 100 / n))
        axis.set(title=f"n = {n}", ylim=(-4, 4), xlabel="x")
    axes[-1].legend(fontsize="small")
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--picture", type=Path, default=HERE / "pictures" / "spectral_hermite.png")
    options = parser.parse_args()
    print(table(options.seeds))
    draw(options.picture, 0)


if __name__ == "__main__":
    main()
