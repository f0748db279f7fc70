"""Targets of ``honesty.py`` with known truths: walls, tails, bends, modes, hierarchies, noise.

Most are those of targets.py and shape_targets.py, with their log-evidence. Walls are -inf, and no
parameter declares them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from evidence import exact
from scipy import integrate, special, stats
from shape_targets import SHAPES, Mixture, Shape, box
from targets import DENSITIES, NOISY, REFERENCES, TAILS, EightSchools, Truth, problem

import kmc


@dataclass(frozen=True)
class Density:
    """A log-density with exact draws."""

    dim: int
    log_density: Callable[[np.ndarray], float]
    sample: Callable[[np.random.Generator, int], np.ndarray]

    def __call__(self, x) -> float:
        return self.log_density(x)


@dataclass(frozen=True)
class Target:
    """A shape with its log-evidence and start policy (None: kmc's own starts)."""

    shape: Shape
    log_evidence: float
    starts: str | None = None

    def model(self, seed: int) -> kmc.Model:
        """The model for kmc."""
        if self.shape.name == "angle":
            return kmc.Model(lambda p: 4 * np.cos(p["x"] - 2.8), parameters={"x": kmc.Angle()})
        return kmc.Model(self.shape.black_box(seed), self.shape.dim, noisy=self.shape.noisy)

    def quantities(self) -> Callable | None:
        """The function whose expectations are known: None for the parameters themselves."""
        if self.shape.name == "angle":
            return lambda p: np.array([np.cos(p["x"]), np.sin(p["x"])])
        return None

    @property
    def exact(self) -> tuple[Truth, dict[str, np.ndarray]]:
        """The truth with its standard errors, stored or from exact draws."""
        return _exact(self.shape.name)


@cache
def _exact(name):
    name = NOISY.get(name, name)
    if name in DENSITIES:
        return problem(name).truth, json.loads(REFERENCES.read_text())[name].get(
            "standard_error", {}
        )
    x = TARGETS[name].shape.density.sample(
        np.random.default_rng(40), 8_000_000 // TARGETS[name].shape.dim
    )
    mean, sd, n = x.mean(0), x.std(0), len(x)
    kurtosis = (((x - mean) / sd) ** 4).mean(0)
    low, middle, high = (np.quantile(x, TAILS + shift, axis=0) for shift in (-0.005, 0, 0.005))
    slopes = (high - low) / 0.01
    errors = {"mean": sd / n**0.5, "sd": sd * np.sqrt((kurtosis - 1) / 4 / n)}
    errors["quantiles"] = slopes * np.sqrt(TAILS * (1 - TAILS) / n)[:, None]
    return Truth(mean, sd, kurtosis, middle, slopes), errors


def narrow(sd: float) -> Density:
    """A normal density around (40, -3)."""
    center, constant = np.array([40.0, -3.0]), -2 * math.log(sd) - math.log(2 * math.pi)
    return Density(
        2,
        lambda x: constant - 0.5 * float(((x - center) / sd) @ ((x - center) / sd)),
        lambda rng, n: center + sd * rng.standard_normal((n, 2)),
    )


class Cosmology:
    """Eight distances in a flat universe: matter density and Hubble constant in the unit square."""

    dim = 2

    def __init__(self):
        self._redshift = np.linspace(0.1, 1.2, 8)
        noise = 0.3 * np.random.default_rng(1998).standard_normal(8)
        self._moduli = self._modulus(np.array([[0.3, 0.7]]))[0] + noise
        self._cells = 1000
        middles = (np.arange(self._cells) + 0.5) / self._cells
        self._grid = np.stack(np.meshgrid(middles, middles, indexing="ij"), axis=-1).reshape(-1, 2)
        logs = self._logs(self._grid)
        self._shares = np.exp(logs - logs.max())
        self.log_evidence = float(logs.max() + np.log(self._shares.mean()))

    def __call__(self, x) -> float:
        return (
            float(self._logs(np.asarray(x)[None])[0]) if x.min() > 0 and x.max() < 1 else -math.inf
        )

    def sample(self, rng, n) -> np.ndarray:
        """Independent draws (n, 2), uniform within the cells of a fine grid."""
        cells = rng.choice(len(self._grid), n, p=self._shares / self._shares.sum())
        return self._grid[cells] + (rng.random((n, 2)) - 0.5) / self._cells

    def _modulus(self, x):
        nodes, weights = np.polynomial.legendre.leggauss(8)
        z = 0.5 * self._redshift[:, None] * (nodes + 1)
        rate = np.sqrt(1 + x[:, :1, None] * ((1 + z) ** 3 - 1))
        distance = (1 + self._redshift) * 0.5 * self._redshift * (weights / rate).sum(2)
        return 5 * np.log10(distance / x[:, 1:])

    def _logs(self, x):
        return -0.5 * (((self._moduli - self._modulus(x)) / 0.3) ** 2).sum(1)


def _mass_of_schools() -> float:
    """log Z of the eight schools, centered or not: their effects in closed form, the rest by a
    grid.
    """
    mu, log_tau = np.linspace(-40, 50, 901)[:, None], np.linspace(-18, 12, 3001)
    tau2 = np.exp(2 * log_tau)
    logs = log_tau - np.log1p(tau2 / 25) - mu**2 / 50
    for effect, error in zip(EightSchools.effects, EightSchools.errors, strict=True):
        variance = error**2 + tau2
        logs = logs + 0.5 * (
            np.log(2 * np.pi * error**2 / variance) - (effect - mu) ** 2 / variance
        )
    return float(special.logsumexp(logs) + math.log(0.1 * 0.01))


def _relabeled() -> Mixture:
    """Two means, two log-sds and the logit of a weight, as of a mixture of two normals: each mode
    is the other's.
    """
    means = [[-1.5, 1.5, 0.0, -0.4, -0.4], [1.5, -1.5, -0.4, 0.0, 0.4]]
    sds = np.array([[0.2, 0.12, 0.15, 0.12, 0.25], [0.12, 0.2, 0.12, 0.15, 0.25]])
    return Mixture([0.5, 0.5], means, covariances=[np.diag(row**2) for row in sds])


def _targets() -> Iterator[Target]:
    def own(name, family, density, log_evidence, starts=None, **options):
        return Target(Shape(name, family, density, **options), log_evidence, starts)

    def exponential(rng, n):
        return rng.exponential(size=(n, 2))

    def wall(inside):
        return lambda x: -float(x.sum()) if inside(x) else -math.inf

    wedge = Density(2, wall(lambda x: x[1] > x[0] > 0), lambda r, n: np.sort(exponential(r, n)))
    yield own("wedge", "walls", wedge, math.log(0.5))
    yield own("exponential", "walls", Density(2, wall(lambda x: x.min() > 0), exponential), 0.0)
    yield own("box", "walls", box(2), math.log(1 / 3))
    edge = Density(
        2,
        lambda x: float(stats.norm.logpdf(x[0]) - x[1] + x[0]) if x[1] > x[0] else -math.inf,
        lambda r, n: np.cumsum(
            np.column_stack([r.standard_normal(n), r.exponential(size=n)]), axis=1
        ),
    )
    yield own("moving-edge", "walls", edge, 0.0)
    yield own("cosmology", "walls", cosmology := Cosmology(), cosmology.log_evidence, "spread")
    curved = integrate.quad(lambda x: stats.norm.pdf(x) * stats.norm.sf(0.5 * x * x - 0.5), -9, 9)[
        0
    ]
    log_normal = 3 * math.log(0.8 * math.sqrt(2 * math.pi))
    for name, log_evidence in (
        ("annulus", math.log(5 * math.pi)), ("curved-wall-2d", math.log(curved)),
        ("half-space-4d", math.log(0.5)), ("simplex-2d", math.log(0.5)),
        ("lognormal-3d", log_normal),
    ):  # fmt: skip
        yield Target(SHAPES[name], log_evidence, "spread")
    for sd in (1e-3, 1e-4):
        yield own(f"narrow-{sd:.0e}", "narrow", narrow(sd), 0.0)
    for name in (
        "student-t-5d",
        "log-gamma-5d",
        "banana-2d",
        "banana-2d-b.1",
        "ring",
        "funnel-5d-sd1",
        "gaussian-10d",
    ):
        density = DENSITIES[name]()
        yield own(
            name, "smooth", density, 0.0 if name == "banana-2d-b.1" else exact(name), "spread"
        )
    yield Target(SHAPES["laplace-2d"], math.log(4), "spread")
    yield Target(SHAPES["funnel-10d-sd3"], 5 * math.log(2 * math.pi) + math.log(3), "spread")
    for name in ("apart-2d-0.5", "apart-5d-0.3", "unequal-5d", "three-2d", "permuted-3d"):
        yield Target(SHAPES[name], 0.0, "cover")
    relabeled = _relabeled()
    yield own("relabeled-5d", "modes", relabeled, 0.0, "one", label=relabeled.label)
    schools, mass = problem("eight-schools"), _mass_of_schools()
    yield Target(SHAPES["eight-schools-centred"], mass, "spread")
    density = schools.log_density
    yield own("eight-schools", "hierarchy", density, mass, "spread", known=schools.truth)

    def directions(rng, n):
        angle = rng.vonmises(2.8, 4, n)
        return np.column_stack([np.cos(angle), np.sin(angle)])

    angle = Density(2, lambda x: 4 * float(x @ [math.cos(2.8), math.sin(2.8)]), directions)
    yield own("angle", "angle", angle, math.log(2 * math.pi * special.i0(4)))
    yield Target(SHAPES["varying-noise-2d"], 0.0, "spread")
    yield own(
        "noisy-banana-2d", "noisy", DENSITIES["banana-2d"](), 0.0, "spread", noise_sd=lambda x: 1.0
    )


TARGETS = {target.shape.name: target for target in _targets()}
