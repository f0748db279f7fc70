"""Figures and tables of paper 003, Pillaud-Vivien and Bach (2023), for ``benchmarks/papers.py``."""

from __future__ import annotations

import numpy as np
import spectral_hermite
from paper_entries import Claim, Entry, rows
from score_results import grouped

TITLE = "Pillaud-Vivien and Bach (2023), *Kernelized diffusion maps*"


def hermite_line() -> Entry:
    found = rows("hermite", part="figure 1")
    medians = {
        (method, n): [
            float(np.median([row["cosine"] for row in group if row["mode"] == k]))
            for k in range(1, 6)
        ]
        for (method, n), group in grouped(found, "method", "n").items()
    }
    exact = medians[spectral_hermite.PENALIZED, 30]
    seeds = len({row["seed"] for row in found})
    claims = [
        Claim(
            f"Algorithm 1 finds the Hermite polynomial of degree {k}.",
            f"cosine {cosine:.2f}",
            cosine > 0.8,
        )
        for k, cosine in enumerate(exact, 1)
    ]
    n = max(n for _, n in medians)
    default = ", ".join(f"{cosine:.2f}" for cosine in medians[spectral_hermite.RITZ, n])
    beside = f"kmc's default with {n:,} points: cosines of {default}"
    limits = (
        "the paper shows one sample of 30 points and gives no bandwidth: "
        f"medians of {seeds} samples, bandwidth 1"
    )
    return Entry(
        "003",
        "Figure 1, Hermite polynomials",
        "python benchmarks/spectral_hermite.py",
        claims,
        limits,
        beside,
    )


def rate_of_maps() -> Entry:
    found = [spectral_hermite.Row(**row) for row in rows("hermite", part="rate")]
    claims, beside = [], []
    for dim in spectral_hermite.RATES:
        fitted, error = spectral_hermite.rate(
            [r for r in found if (r.dim, r.method) == (dim, spectral_hermite.FOURIER)]
        )
        statement = f"Errors are at most of the order n^-1/4 in every dimension, here d = {dim}."
        claims.append(
            Claim(statement, f"slope {fitted:.2f} ± {error:.2f}", fitted - 2 * error <= -0.25)
        )
        for method in (spectral_hermite.RITZ, spectral_hermite.SCORE):
            fitted, error = spectral_hermite.rate(
                [r for r in found if (r.dim, r.method) == (dim, method)]
            )
            beside.append(f"{fitted:.2f} ± {error:.2f} ({method}, d = {dim})")
    limits = "n is 10,000 at most, and the bias of the theorem's λ = n^-1/4 is still large there"
    return Entry(
        "003",
        "Theorem 9, the rate",
        "python benchmarks/spectral_hermite.py",
        claims,
        limits,
        f"slopes of {', '.join(beside)}",
    )


ENTRIES = (
    hermite_line,
    rate_of_maps,
)
