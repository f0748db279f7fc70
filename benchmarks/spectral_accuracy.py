"""Accuracy of eigenvalues with automatic settings: mean relative error of the first six, and on
spheres.

python benchmarks/spectral_accuracy.py [--seeds 3] [--sphere-samples 100000]
"""

from __future__ import annotations

import argparse

import numpy as np
from spectral_problems import Sphere, problems, relative_error, sphere_error

from kmc.spectral import DiffusionMap

COUNT, HARMONICS = 6, 25


def estimate(x, seed, **options):
    """Eigenvalues of a fit with all other settings at their defaults."""
    return DiffusionMap(random_state=seed, **options).fit(x).eigenvalues_


def errors(problem, seeds, n, with_score):
    """One error for each seed."""
    truth, score = problem.eigenvalues(COUNT), problem.score if with_score else None
    draws = (problem.sample(np.random.default_rng(seed), n) for seed in range(seeds))
    return [
        relative_error(estimate(x, seed, n_components=COUNT, score_function=score), truth)
        for seed, x in enumerate(draws)
    ]


def sphere_errors(problem, seeds, n):
    """Metric (21) of Cabannes and Bach (2023), one for each seed."""
    truth = problem.eigenvalues(HARMONICS)
    draws = (problem.sample(np.random.default_rng(seed), n) for seed in range(seeds))
    return [
        sphere_error(estimate(x, seed, n_components=HARMONICS, normals=problem.normals), truth)
        for seed, x in enumerate(draws)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--sphere-samples", type=int, default=100_000)
    args = parser.parse_args()
    print(f"n = {args.samples}, mean (least to greatest) over {args.seeds} seeds\n")
    print("| distribution | samples alone | with the score |\n| --- | --- | --- |")
    for problem in problems():
        cells = [
            _cell(errors(problem, args.seeds, args.samples, with_score))
            for with_score in (False, True)
        ]
        print(f"| {problem.name} | {' | '.join(cells)} |", flush=True)
    print(
        f"\nn = {args.sphere_samples}, metric (21)\n\n| distribution | tangential |\n| --- | --- |"
    )
    for dim in (3, 5, 10):
        problem = Sphere(dim)
        print(
            f"| {problem.name} | {_cell(sphere_errors(problem, args.seeds, args.sphere_samples))} "
            f"|",
            flush=True,
        )


def _cell(values):
    return f"{np.mean(values):.2g} ({min(values):.2g} to {max(values):.2g})"


if __name__ == "__main__":
    main()
