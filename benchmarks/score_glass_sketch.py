"""Make the sketch of the Glass posterior for figure 3: python benchmarks/score_glass_sketch.py
glass.data SKETCH.npy.

As in section 5.2 of Sutherland et al. (2018): 40 chains of a random-walk adaptive Metropolis
sampler with 30,000 iterations each, on unbiased estimates of the marginal likelihood, the first
third left out, every 400th state kept: 2,000 states. 1.2 million estimates take about an hour and a
half on one core.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import kmc

sys.path.append(str(Path(__file__).parents[1] / "examples"))  # the target is that of an example

from gp_classifier import GaussianProcessClassifier, read_glass

CHAINS, KEPT = 40, 50  # states of each chain


def sketch(glass: Path, iterations: int, seed: int) -> np.ndarray:
    """States (2000, 9), fewer if there are fewer iterations."""
    target = GaussianProcessClassifier(*read_glass(glass))
    rng = np.random.default_rng(seed)
    model = kmc.Model(lambda x: target(x, rng), dim=target.dim, noisy=True)
    warmup = iterations // 3
    run = kmc.sample(
        model,
        sampler=kmc.AdaptiveMetropolis(moves=("random-walk",), pooled=False),
        initial=np.sqrt(target.prior_variance) * 0.5 * rng.standard_normal((CHAINS, target.dim)),
        chains=CHAINS,
        warmup=warmup,
        draws=iterations - warmup,
        seed=seed,
    )
    states = run.posterior["x"].values
    return states[:, :: max(states.shape[1] // KEPT, 1)][:, :KEPT].reshape(-1, target.dim)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("glass", type=Path, help="UCI's glass.data")
    parser.add_argument("output", type=Path)
    parser.add_argument("--iterations", type=int, default=30_000, help="of each chain")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = sketch(options.glass, options.iterations, options.seed)
    np.save(options.output, found)
    print(
        f"{len(found)} states; means {found.mean(axis=0).round(2)}, standard deviations "
        f"{found.std(axis=0).round(2)}"
    )


if __name__ == "__main__":
    main()
