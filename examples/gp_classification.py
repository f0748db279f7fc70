"""Which inputs matter to a Gaussian-process classifier?
=====================================================

``python examples/gp_classification.py --help``.

The kernel of the classifier is exp(-½ Σ w_i² (x_i - x'_i)²), one weight per input: where w_i is
near zero, input i has no effect. The posterior of the log weights has no closed form, because the
latent values must be integrated out of the likelihood, but importance sampling estimates that
integral without bias. Two evaluations at the same point differ, and there is no gradient: with
``kmc.Model(..., noisy=True)`` the draws are exact nevertheless.

Without ``--data`` the inputs are five measurements of cell nuclei in 80 of the breast-cancer cases
that come with scikit-learn, and the labels are whether the tumor is benign. ``--data glass.data``
uses UCI's Glass Identification: nine properties of 214 splinters, and whether the splinter is
window glass. Inputs are whitened by the Cholesky factor of their covariance: each is the part that
the previous ones do not explain.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from gp_classifier import GaussianProcessClassifier, read_glass, whitened

import kmc

CELLS = ("mean texture", "mean radius", "mean smoothness", "mean concavity", "mean symmetry")
CASES = 80
GLASS = ("RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe")


def breast_cancer(seed: int) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Whitened inputs (80, 5), labels 1 (benign) or -1, and the names of the inputs."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = list(data.feature_names)
    cases = np.random.default_rng(seed).permutation(len(data.target))[:CASES]
    inputs = data.data[np.ix_(cases, [names.index(name) for name in CELLS])]
    return whitened(inputs), np.where(data.target[cases] == 1, 1.0, -1.0), CELLS


def relevance(log_weights: np.ndarray, names: tuple[str, ...]) -> list[str]:
    """A line for each input (columns of the draws (n, d)), the largest median weight first."""
    weights = np.exp(log_weights)
    lines = []
    for i in np.argsort(-np.median(weights, axis=0)):
        low, median, high = np.quantile(weights[:, i], [0.05, 0.5, 0.95])
        # the kernel between two inputs two sds apart
        alike = np.mean(np.exp(-2.0 * weights[:, i] ** 2))
        says = "matters" if low > 0.3 else "need not matter" if median < 0.3 else "may matter"
        lines.append(f"{names[i]:16s} {median:6.2f}  [{low:.2f}, {high:.2f}]  {alike:5.0%}  {says}")
    return lines


def main(arguments: list[str] | None = None) -> None:
    """Sample the posterior and print the relevance of the inputs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, help="UCI's glass.data, instead of scikit-learn's data"
    )
    parser.add_argument(
        "--evaluations", type=int, default=2000, help="the whole budget (default: 2000)"
    )
    parser.add_argument(
        "--draws", type=int, default=100, help="draws of the importance sampler (default: 100)"
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    options = parser.parse_args(arguments)
    if options.data:
        inputs, labels = read_glass(options.data)
        names = GLASS
    else:
        inputs, labels, names = breast_cancer(options.seed)

    classifier = GaussianProcessClassifier(inputs, labels, draws=options.draws)
    noise = np.random.default_rng([options.seed, 1])
    model = kmc.Model(
        lambda log_weights: classifier(log_weights, noise), dim=classifier.dim, noisy=True
    )
    idata = kmc.sample(model, draws=None, max_evaluations=options.evaluations, seed=options.seed)

    import arviz as az

    posterior = (
        idata.posterior["x"]
        .rename(x_dim_0="input")
        .assign_coords(input=list(names))
        .rename("log_weight")
    )
    print(az.summary(posterior.to_dataset()).to_string())
    attrs = idata.posterior.attrs
    if "noise_sd" in attrs:
        print(f"\nThe noise of the estimates has a sd of about {attrs['noise_sd']:.2f} in the log.")
    print(
        "\ninput            median weight [5 %, 95 %], and how alike two cases are that are two "
        "sds apart in it:"
    )
    print("\n".join(relevance(posterior.values.reshape(-1, classifier.dim), names)))

    import matplotlib.pyplot as plt

    kmc.plot_pairs(
        idata, labels={f"x[{i}]": f"log weight of\n{name}" for i, name in enumerate(names)}
    )
    plt.show()


if __name__ == "__main__":
    main()
