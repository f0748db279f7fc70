"""Hard shapes for ``shapes.py``: modes, walls, heavy tails, bends, hierarchies, many dimensions,
roughness.

Each shape has a log-density, independent draws (or a stored reference), and start policies. The
truth about a shape is computed from those draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from further_shapes import further
from hierarchies import GrowthCurves, LatentPoisson
from many_dimensions import Informed, LogisticColumns
from scipy.linalg import toeplitz
from scipy.special import logsumexp
from targets import Funnel, StudentT, problem

from kmc.model.toys import Banana, Gaussian, Ring

TAILS = np.array([0.05, 0.95])
STARTS = {"cover": 4, "box": 4, "many": 100, "one": 4, "spread": 4}
"""Number of starts of each policy (``cover``: at least two in each mode)."""


@dataclass(frozen=True)
class Truth:
    """The results of a perfect run, per coordinate and mode."""

    center: np.ndarray  # (d,) the mean; the median if there is no mean
    # (d,) the sd; if there is none, the 5-95 % width over 3.29, as for a Gaussian
    scale: np.ndarray
    quantiles: np.ndarray  # (2, d) at TAILS
    heavy: bool  # no second moment
    shares: np.ndarray  # (modes,)


@dataclass(frozen=True)
class Shape:
    """A target, with what the benchmark needs to know about it."""

    name: str
    family: str
    density: Any  # a callable with dim and, unless there is a truth, sample(rng, n)
    # points (n, d) to modes (n,); None: a single mode
    label: Callable[[np.ndarray], np.ndarray] | None = None
    heavy: bool = False
    noise_sd: Callable[[np.ndarray], float] | None = None  # of a noisy log-density, at a point
    known: Any = None  # moments, if there are no exact draws: mean, sd, quantiles

    @property
    def dim(self) -> int:
        """The number of parameters."""
        return self.density.dim

    @property
    def noisy(self) -> bool:
        """Whether samplers see only estimates of the density."""
        return self.noise_sd is not None

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the start policies."""
        return ("spread",) if self.label is None else ("cover", "box", "many", "one")

    def black_box(self, seed: int) -> Callable[[np.ndarray], float]:
        """The log-density for a sampler."""
        return (
            self.density
            if self.noise_sd is None
            else Varying(self, np.random.default_rng([seed, 1]))
        )

    @cached_property
    def draws(self) -> np.ndarray:
        """Exact independent draws (n, d), always the same."""
        return self.density.sample(np.random.default_rng(20), 200_000 if self.dim <= 20 else 40_000)

    @cached_property
    def labels(self) -> np.ndarray:
        """Modes of the draws."""
        return np.zeros(1, dtype=int) if self.label is None else self.label(self.draws)

    @cached_property
    def truth(self) -> Truth:
        """The truth, from the draws or from the stored reference."""
        if self.known is not None:
            k = self.known
            return Truth(k.mean, k.sd, k.quantiles, False, np.ones(1))
        quantiles = np.quantile(self.draws, TAILS, axis=0)
        shares = np.bincount(self.labels) / len(self.labels)
        if self.heavy:
            middle, scale = np.median(self.draws, axis=0), (quantiles[1] - quantiles[0]) / 3.29
        else:
            middle, scale = self.draws.mean(0), self.draws.std(0)
        return Truth(middle, scale, quantiles, self.heavy, shares)

    @cached_property
    def floors(self) -> np.ndarray:
        """For each mode, the log-density that all but 2 % of its own draws exceed: the edge of its
        bulk.
        """
        few = slice(0, 20_000)
        values = np.array([self.density(x) for x in self.draws[few]])
        return np.array(
            [
                np.quantile(values[self.labels[few] == k], 0.02)
                for k in range(len(self.truth.shares))
            ]
        )

    def evaluated(self, x: np.ndarray, values: np.ndarray) -> list[int]:
        """The modes with a point in their bulk, among evaluated points (n, d) and values (n,)."""
        if self.label is None:
            return [0]
        labels = self.label(x)
        return [k for k, floor in enumerate(self.floors) if np.any(values[labels == k] >= floor)]

    def initial(
        self, policy: str, rng: np.random.Generator, count: int | None = None
    ) -> np.ndarray:
        """Starts (k, d).

        "cover": exact draws of each mode, at least two of each. "box": uniform over the box of all
        modes. "many": a hundred of these. "one": exact draws of the first mode. "spread": center +
        2 sd, where the density is positive.
        """
        count = count or STARTS[policy]
        if policy in ("cover", "one"):
            modes = range(len(self.truth.shares) if policy == "cover" else 1)
            each = max(2, -(-count // len(modes)))
            rows = [
                rng.choice(np.flatnonzero(self.labels == k), each, replace=False) for k in modes
            ]
            return self.draws[np.concatenate(rows)]
        starts, wide = np.empty((0, self.dim)), 2.0
        while len(starts) < count:
            if policy == "spread":
                x = self.truth.center + wide * self.truth.scale * rng.standard_normal(
                    (count, self.dim)
                )
                wide *= 0.99  # behind walls in many dimensions hardly any point is two sds away
            else:
                low, high = np.quantile(self.draws, [0.001, 0.999], axis=0)
                x = low + (high - low) * rng.random((count, self.dim))
            starts = np.concatenate([starts, x[[math.isfinite(self.density(row)) for row in x]]])
        return starts[:count]


@dataclass(frozen=True)
class Varying:
    """A log-density plus normal noise whose sd depends on the point; the exponential of the noise
    has mean 1.
    """

    shape: Shape
    rng: np.random.Generator

    def __call__(self, x) -> float:
        sd = self.shape.noise_sd(x)
        return self.shape.density(x) + sd * self.rng.standard_normal() - 0.5 * sd * sd


# Modes


class Mixture:
    """Gaussians with these weights, means (k, d) and covariances (k, d, d); or sds (k,) for round
    ones.
    """

    def __init__(self, shares, means, sds=None, covariances=None):
        self.shares, self.means = np.asarray(shares, dtype=float), np.asarray(means, dtype=float)
        self.dim = self.means.shape[1]
        if covariances is None:
            covariances = [sd**2 * np.eye(self.dim) for sd in np.broadcast_to(sds, len(shares))]
        self._roots = np.linalg.cholesky(np.asarray(covariances))
        self._whiteners = np.linalg.inv(self._roots)
        scales = np.log(np.diagonal(self._roots, axis1=1, axis2=2)).sum(1)
        self._constants = np.log(self.shares) - scales - 0.5 * self.dim * math.log(2 * math.pi)

    def __call__(self, x) -> float:
        z = (self._whiteners @ (x - self.means)[:, :, None])[:, :, 0]
        parts = self._constants - 0.5 * (z * z).sum(1)
        top = parts.max()
        return float(top + math.log(np.exp(parts - top).sum()))

    def label(self, x) -> np.ndarray:
        """The most probable component of each row."""
        parts = []
        for mean, whitener, constant in zip(self.means, self._whiteners, self._constants):
            parts.append(constant - 0.5 * (((x - mean) @ whitener.T) ** 2).sum(1))
        return np.argmax(parts, axis=0)

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d)."""
        which = rng.choice(len(self.shares), n, p=self.shares)
        z = rng.standard_normal((n, self.dim))
        return self.means[which] + (self._roots[which] @ z[:, :, None])[:, :, 0]


class Shells:
    """Gaussian shells of equal mass and radius 2, with this width and centers 7 apart along the
    first axis.

    As in Feroz, Hobson and Bridges (2009), MultiNest, section 6.2, where the width is .1.
    """

    def __init__(self, dim, width=0.1, radius=2.0, count=2):
        self.dim, self.width, self.radius = dim, width, radius
        self.centers = np.zeros((count, dim))
        self.centers[:, 0] = 7.0 * (np.arange(count) - 0.5 * (count - 1))

    def __call__(self, x) -> float:
        r = np.sqrt(((x - self.centers) ** 2).sum(1))
        return float(logsumexp(-0.5 * ((r - self.radius) / self.width) ** 2))

    def label(self, x) -> np.ndarray:
        """The nearest center."""
        return np.argmin([((x - c) ** 2).sum(1) for c in self.centers], axis=0)

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d); the radius from a fine table of its distribution."""
        r = np.linspace(
            max(0.0, self.radius - 8 * self.width), self.radius + 8 * self.width, 20_001
        )
        share = np.cumsum(
            r ** (self.dim - 1) * np.exp(-0.5 * ((r - self.radius) / self.width) ** 2)
        )
        radius = np.interp(rng.random(n), share / share[-1], r)
        z = rng.standard_normal((n, self.dim))
        z *= (radius / np.linalg.norm(z, axis=1))[:, None]
        return z + self.centers[rng.integers(len(self.centers), size=n)]


def apart(dim, shares, distance=12.0):
    """Unit Gaussians, this far apart along the diagonal."""
    shift = 0.5 * distance / math.sqrt(dim)
    return Mixture(shares, [[-shift] * dim, [shift] * dim], 1.0)


def narrow(dim, offset):
    """A unit Gaussian of weight .6 and one of a tenth of its width of weight .4, this far away
    along the diagonal.
    """
    return Mixture([0.6, 0.4], [[0.0] * dim, [offset / math.sqrt(dim)] * dim], [1.0, 0.1])


def corners(dim, count):
    """Modes at this many corners, with different widths and directions, and weights from .4
    downwards.
    """
    rng = np.random.default_rng(count)
    means = np.zeros((count, dim))
    for k in range(count):
        means[k] = 6.0 * np.where((k >> (np.arange(dim) % 2)) & 1, 1, -1)
    roots = [
        np.diag(rng.uniform(0.5, 1.5, dim)) @ np.linalg.qr(rng.standard_normal((dim, dim)))[0]
        for _ in means
    ]
    shares = np.array([0.4, 0.3, 0.2, 0.1])[:count]
    return Mixture(shares / shares.sum(), means, covariances=[root.T @ root for root in roots])


# Walls: -inf that the parameters do not declare


class Cut:
    """A truncated density: -inf where ``inside`` (rows to booleans) is false."""

    def __init__(self, density, inside):
        self.density, self.inside, self.dim = density, inside, density.dim

    def __call__(self, x) -> float:
        return self.density(x) if self.inside(x[None])[0] else -math.inf

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d), by rejection."""
        found: list[np.ndarray] = []
        while sum(map(len, found)) < n:
            x = self.density.sample(rng, n)
            found.append(x[self.inside(x)])
        return np.concatenate(found)[:n]


class Simplex:
    """Uniform on the simplex of positive x that sum to less than 1."""

    def __init__(self, dim):
        self.dim = dim

    def __call__(self, x) -> float:
        return 0.0 if x.min() > 0 and x.sum() < 1 else -math.inf

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d)."""
        return rng.dirichlet(np.ones(self.dim + 1), n)[:, :-1]


def half_space(dim):
    """A correlated Gaussian without the lower half of the sum."""
    return Cut(Gaussian(dim, correlation=0.5, spread=2.0), lambda x: x.sum(1) > 0)


def box(dim):
    """A correlated Gaussian, restricted to positive parameters."""
    return Cut(Gaussian(dim, correlation=0.5, spread=1.0), lambda x: (x > 0).all(1))


def curved(dim):
    """A round Gaussian above a parabola through its bulk."""
    return Cut(
        Gaussian(dim, correlation=0.0, spread=1.0), lambda x: x[:, 1] > 0.5 * x[:, 0] ** 2 - 0.5
    )


# Heavy tails, bends, funnels, roughness


class CorrelatedT:
    """Student-t with correlations .7^|i-j|."""

    def __init__(self, dim, freedom=2.0):
        self.dim, self.freedom = dim, freedom
        self._root = np.linalg.cholesky(toeplitz(0.7 ** np.arange(dim)))
        self._whitener = np.linalg.inv(self._root)

    def __call__(self, x) -> float:
        z = self._whitener @ x
        return -0.5 * (self.freedom + self.dim) * math.log1p(float(z @ z) / self.freedom)

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d)."""
        return StudentT(self.dim, self.freedom).sample(rng, n) @ self._root.T


class Cauchys:
    """Independent standard Cauchy variables."""

    def __init__(self, dim):
        self.dim = dim

    def __call__(self, x) -> float:
        return -float(np.log1p(x * x).sum())

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d)."""
        return rng.standard_cauchy((n, self.dim))


class SideBySide:
    """Independent copies of a density, each with its own coordinates."""

    def __init__(self, part, count):
        self.part, self.count, self.dim = part, count, part.dim * count

    def __call__(self, x) -> float:
        return sum(self.part(row) for row in x.reshape(self.count, -1))

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d)."""
        return self.part.sample(rng, n * self.count).reshape(n, -1)


class TwoDrivers:
    """Two log scales v ~ N(0, 1.5²); half of the others have sd exp(v_1 / 2), the other half
    exp(v_2 / 2).

    With ``product``: all others have sd exp((v_1 + v_2) / 2).
    """

    def __init__(self, dim, product=False):
        self.dim, self.half, self.product = dim, (dim - 2) // 2, product

    def __call__(self, x) -> float:
        v, rest = x[:2], x[2:]
        if np.abs(v).max() > 300:
            return -math.inf
        logs = self._logs(v[None])[0]
        return -0.5 * float((v @ v) / 2.25 + np.sum(rest**2 * np.exp(-logs) + logs))

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d)."""
        x = rng.standard_normal((n, self.dim))
        x[:, :2] *= 1.5
        x[:, 2:] *= np.exp(0.5 * self._logs(x[:, :2]))
        return x

    def _logs(self, v):
        if self.product:
            return np.repeat(v.sum(1, keepdims=True), self.dim - 2, axis=1)
        return np.repeat(v, [self.half, self.dim - 2 - self.half], axis=1)


class EightSchoolsCentered:
    """Rubin's eight schools, centered: x = (mu, log tau, theta); mu ~ N(0, 5²), tau ~
    half-Cauchy(5). Or others.
    """

    effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def __init__(self, others=0):
        if others:
            rng = np.random.default_rng(5)
            self.errors = np.exp(rng.normal(2.0, 0.3, others))
            self.effects = (
                3.0 + 4.0 * rng.standard_normal(others) + self.errors * rng.standard_normal(others)
            )
        self.count = len(self.effects)
        self.dim = self.count + 2

    def __call__(self, x) -> float:
        mu, log_tau, theta = float(x[0]), float(x[1]), x[2:]
        if abs(log_tau) > 300:
            return -math.inf
        z, e = (theta - mu) * math.exp(-log_tau), (self.effects - theta) / self.errors
        prior = log_tau - math.log1p(math.exp(2 * log_tau) / 25) - mu * mu / 50
        return prior - self.count * log_tau - 0.5 * float(z @ z + e @ e)

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d): log tau by quadrature; given it, the rest is Gaussian."""
        grid = np.linspace(-16, 8, 40_001)
        tau2 = np.exp(2 * grid)
        precision = 1 / (self.errors[:, None] ** 2 + tau2)
        total = precision.sum(0) + 1 / 25
        center = (precision * self.effects[:, None]).sum(0) / total
        log_p = grid - np.log1p(tau2 / 25) + 0.5 * np.log(precision).sum(0) - 0.5 * np.log(total)
        log_p += 0.5 * total * center**2 - 0.5 * (precision * self.effects[:, None] ** 2).sum(0)
        share = np.cumsum(np.exp(log_p - log_p.max()))
        log_tau = np.interp(rng.random(n), share / share[-1], grid)
        tau2 = np.exp(2 * log_tau)[:, None]
        precision = 1 / (self.errors**2 + tau2)
        total = precision.sum(1) + 1 / 25
        mu = (precision @ self.effects) / total + rng.standard_normal(n) / np.sqrt(total)
        inner = 1 / tau2 + 1 / self.errors**2
        mean = (mu[:, None] / tau2 + self.effects / self.errors**2) / inner
        theta = mean + rng.standard_normal((n, self.count)) / np.sqrt(inner)
        return np.column_stack([mu, log_tau, theta])


class Rough:
    """A density times exp(height sin(frequency <1, x / scales> / sqrt(d)))."""

    def __init__(self, density, height, scales, frequency=25.0):
        self.density, self.height, self.dim = density, height, density.dim
        self._direction = frequency / np.asarray(scales) / math.sqrt(density.dim)

    def __call__(self, x) -> float:
        return self.density(x) + self.height * math.sin(float(x @ self._direction))

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d), by rejection."""
        found: list[np.ndarray] = []
        while sum(map(len, found)) < n:
            x = self.density.sample(rng, n)
            found.append(x[np.log(rng.random(n)) < self.height * (np.sin(x @ self._direction) - 1)])
        return np.concatenate(found)[:n]


def _noise(x) -> float:
    """.5 in the bulk, up to 3 in the tail of a standard normal distribution."""
    return float(np.clip(0.5 + 0.8 * (np.linalg.norm(x) - 1.5), 0.5, 3.0))


# The list


def _multimodal():
    for dim in (2, 5, 10):
        for share in (0.5, 0.3):
            yield f"apart-{dim}d-{share}", apart(dim, [share, 1 - share])
    for dim in (2, 5, 10):
        means = [[3.0] * dim, [-3.0] * dim]
        yield f"unequal-{dim}d", Mixture([0.3, 0.7], means, [1.0, 0.5])
    for dim in (2, 5, 10):
        yield f"narrow-in-{dim}d", narrow(dim, 0.0)
        yield f"narrow-beside-{dim}d", narrow(dim, 6.0)
    for dim in (2, 5):
        yield f"three-{dim}d", corners(dim, 3)
        yield f"four-{dim}d", corners(dim, 4)
        yield f"shells-{dim}d", Shells(dim)
    for dim in (2, 5):
        yield (
            f"near-{dim}d",
            Mixture([0.5, 0.5], [[-3 / math.sqrt(dim)] * dim, [3 / math.sqrt(dim)] * dim], 1.0),
        )


def _plain():
    """Name, family, density and options of :class:`Shape`."""
    walls, bends, funnels = "walls", "bends and hierarchies", "bends and hierarchies"
    for dim in (4, 10, 20):
        yield f"half-space-{dim}d", walls, half_space(dim), {}
    for dim in (2, 6, 12):
        yield f"simplex-{dim}d", walls, Simplex(dim), {}
    for dim in (2, 4, 8):
        yield f"curved-wall-{dim}d", walls, curved(dim), {}
    yield "box-wall-5d", walls, box(5), {}
    for dim in (2, 6, 12):
        yield f"t2-{dim}d", "heavy tails", CorrelatedT(dim), {"heavy": True}
    for dim in (1, 3, 6):
        yield f"cauchy-{dim}d", "heavy tails", Cauchys(dim), {"heavy": True}
    for count in (2, 5, 10):
        yield f"bananas-{2 * count}d", bends, SideBySide(Banana(2, b=0.1), count), {}
    for dim in (6, 10, 20):
        yield f"two-drivers-{dim}d", funnels, TwoDrivers(dim), {}
    yield "two-drivers-product-6d", funnels, TwoDrivers(6, product=True), {}
    yield "eight-schools-centred", funnels, EightSchoolsCentered(), {}
    yield "latent-poisson-13d", funnels, LatentPoisson(), {}
    yield "growth-curves-29d", funnels, GrowthCurves(), {}
    for dim in (50, 100):
        yield f"gaussian-{dim}d", "many dimensions", Gaussian(dim), {}
    yield "informed-100d", "many dimensions", Informed(), {}
    yield "logistic-100d", "many dimensions", LogisticColumns(), {}
    yield "schools-60d-centred", "many dimensions", EightSchoolsCentered(58), {}
    for height in (0.3, 1.0):
        yield (
            f"rough-gaussian-5d-{height}",
            "roughness",
            Rough(Gaussian(5, 0, 1), height, np.ones(5)),
            {},
        )
        yield f"rough-banana-2d-{height}", "roughness", Rough(Banana(2), height, [10.0, 1.0]), {}
    for dim in (2, 3, 5):
        yield f"varying-noise-{dim}d", "roughness", Gaussian(dim, 0, 1), {"noise_sd": _noise}
    for name, density in (
        ("banana-2d", Banana(2)),
        ("banana-8d", Banana(8)),
        ("gaussian-10d", Gaussian(10)),
        ("student-t-5d", StudentT()),
        ("ring", Ring()),
        ("funnel-5d-sd1", Funnel(1.0)),
    ):
        yield name, "controls", density, {}


def _all():
    shapes = [Shape(name, "multimodal", density, density.label) for name, density in _multimodal()]
    shapes += [
        Shape(name, family, density, **options) for name, family, density, options in _plain()
    ]
    for name, density, options, several in further(Mixture, Funnel, Gaussian, Shells):
        shapes.append(
            Shape(name, "further", density, density.label if several else None, **options)
        )
    return {shape.name: shape for shape in shapes}


SHAPES = _all()
STORED = ("logistic",)
"""Controls whose truth is in references.json."""

FAMILIES = tuple(dict.fromkeys(shape.family for shape in SHAPES.values()))


def shape(name: str) -> Shape:
    """The shape of that name."""
    if name in STORED:
        task = problem(name)
        return Shape(name, "controls", task.log_density, known=task.truth)
    return SHAPES[name]


NAMES = (*SHAPES, *STORED)
