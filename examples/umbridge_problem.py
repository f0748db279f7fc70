"""A model behind HTTP
===================

Sampled by kmc: ``python examples/umbridge_problem.py --help``.

UM-Bridge (``pip install umbridge``) connects models in any language, often in containers or on
clusters, with methods of uncertainty quantification, by HTTP. This model is like one of its
benchmarks: a beam that is clamped at its left end carries a weight at the other, and the stiffness
of its three thirds is inferred from measured deflections. The server is a process of this script.
It evaluates four points at once, as four threads of kmc ask it to.

Measured deflections, and bands that hold 50 % and 90 % of the simulated ones:

.. image:: /pictures/umbridge_problem.png
   :alt: Deflections that grow from zero along the beam, within two narrow bands
"""

# sphinx_gallery_thumbnail_path = 'pictures/umbridge_problem.png'

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import umbridge
from scipy.integrate import cumulative_trapezoid

import kmc

PLACES = np.linspace(0.0, 1.0, 31)  # along the beam
TRUTH = np.array([1.0, 0.6, 0.8])
NOISE = 0.003


def deflection(stiffness: Any) -> np.ndarray:
    """Return Euler and Bernoulli's deflection w at the places: stiffness * w'' is the bending
    moment.
    """
    x = np.linspace(0.0, 1.0, 301)
    curvature = (1.0 - x) / np.repeat(stiffness, [100, 100, 101])
    slope = cumulative_trapezoid(curvature, x, initial=0.0)
    return cumulative_trapezoid(slope, x, initial=0.0)[::10]


class Beam(umbridge.Model):
    """From three stiffnesses to 31 deflections."""

    def __init__(self) -> None:
        super().__init__("forward")

    def get_input_sizes(self, config: dict) -> list[int]:
        """Return the length of the only input vector."""
        return [3]

    def get_output_sizes(self, config: dict) -> list[int]:
        """Return the length of the only output vector."""
        return [len(PLACES)]

    def __call__(self, parameters: list[list[float]], config: dict) -> list[list[float]]:
        """Return the deflections."""
        return [deflection(parameters[0]).tolist()]

    def supports_evaluate(self) -> bool:
        """Return that the model can be called."""
        return True


def sample(url: str, evaluations: int) -> Any:
    """Sample the stiffnesses and the size of the errors."""
    data = deflection(TRUTH) + NOISE * np.random.default_rng(1).standard_normal(len(PLACES))
    model = kmc.from_umbridge(
        url,
        "forward",
        likelihood=kmc.likelihoods.Normal(data, sd="error"),
        parameters={"stiffness": kmc.LogNormal(0.0, 1.0, shape=3), "error": kmc.HalfNormal(0.02)},
        dims={"y": ["place"]},
        coords={"place": PLACES},
    )
    with ThreadPoolExecutor(4) as pool:
        return kmc.sample(
            model, max_evaluations=evaluations, draws=None, executor=pool, seed=1, progress=False
        )


def main(arguments: list[str] | None = None) -> Any:
    """Start the server, sample, and draw the deflections."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--evaluations", type=int, default=400, help="calls of the server (default: 400)"
    )
    parser.add_argument("--serve", type=int, metavar="PORT", help="be the server instead")
    options = parser.parse_args(arguments)
    if options.serve is not None:
        return umbridge.serve_models([Beam()], options.serve, max_workers=4)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, __file__, "--serve", str(port)], stdout=subprocess.DEVNULL
    ) as server:
        try:
            idata = sample(_ready(port), options.evaluations)
        finally:
            server.kill()
    print(kmc.summary(idata))
    (ax,) = kmc.plot_predictive(idata)
    ax.set(title="", xlabel="place along the beam", ylabel="deflection")
    return idata


def _ready(port: int) -> str:
    """Return the server's address once it answers."""
    for _ in range(600):
        try:
            umbridge.supported_models(f"http://localhost:{port}")
            return f"http://localhost:{port}"
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the server does not answer")


if __name__ == "__main__":
    main()
    plt.show()
