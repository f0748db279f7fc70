"""The models that are compared, with the paper's settings, and the choice of their parameters.

As in the paper: uniform q0, Gaussian kernel, 1e-5 on the diagonal of the Nyström system. A
bandwidth here is that of exp(-|x - y|² / (2 bandwidth²)); the paper's σ is 2 bandwidth².
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kmc.kernels import kernel_of
from kmc.scores import DenoisingAutoencoder, FullKEF, LiteKEF, NystromKEF
from kmc.scores.base import FittedExpansion
from kmc.scores.densities import Flat
from kmc.scores.full_system import FullSystem
from kmc.scores.in_basis import fit, solve
from kmc.scores.sums import Samples

REGULARIZATIONS = tuple(10.0**k for k in range(-7, 1))
JITTER = 1e-5


@dataclass(frozen=True)
class Model:
    """A score estimator with its candidate settings.

    Attributes
    ----------
    make : callable
        ``make(seed, dim, **setting)`` is an estimator.
    path : callable
        ``path(make, x, setting, regularizations)`` yields fitted densities, one for each
        regularization.
    subsample : int
        Number of samples that it uses; 0 for all.
    select : bool
        Whether its own cross-validation is measured, too.
    """

    make: Callable[..., Any]
    path: Callable[..., Iterator[Any]]
    subsample: int = 0
    select: bool = False

    def samples(self, x: np.ndarray) -> np.ndarray:
        """The samples of x (n, d) that it uses."""
        return x[: self.subsample] if self.subsample else x


def best(
    model: Model, x: np.ndarray, bandwidths, seed: int, loss: Callable[[Any], float]
) -> tuple[float, dict]:
    """The smallest loss of a fitted density (with ``gradient`` and ``laplacian``) over the grid,
    and its setting.
    """
    make = partial(model.make, seed, x.shape[1])
    found: tuple[float, dict] = (np.inf, {})
    for setting, regularizations in grid(model, bandwidths):
        path = model.path(make, model.samples(x), setting, regularizations)
        for regularization, density in zip(regularizations, path, strict=True):
            if (value := loss(density)) < found[0]:
                found = (
                    value,
                    setting
                    | ({} if regularization is None else {"regularization": regularization}),
                )
    return found


def grid(model: Model, bandwidths) -> list[tuple[dict, list]]:
    """Settings, each with the regularizations that share its assembly."""
    if model.path is single:
        return [({"noise": noise, "n_hidden": n}, [None]) for noise in NOISES for n in HIDDEN]
    return [({"bandwidth": float(b)}, list(REGULARIZATIONS)) for b in bandwidths]


def in_basis(make, x, setting, regularizations) -> Iterator[Any]:
    """Fits in a finite basis: one assembly, a solution for each regularization."""
    estimator = make(**setting, regularization=regularizations[0])
    samples = unweighted(estimator._check_points(x, fitting=True))
    total = fit(estimator, samples)
    for regularization in regularizations:
        estimator.regularization_ = regularization
        solve(estimator, total)
        yield estimator.density_


def in_all(make, x, setting, regularizations) -> Iterator[Any]:
    """Full fits, as accurate as the comparison needs; all regularizations in one system, each
    started from the last.
    """
    samples = unweighted(x)
    system = FullSystem(kernel_of("gaussian", setting["bandwidth"]), samples, Flat())
    descending = np.sort(regularizations)[::-1]
    for solved in reversed(list(system.path("auto", descending, tolerance=1e-3, most=300))):
        yield FittedExpansion(samples.center, Flat(), solved.function)


def unweighted(x) -> Samples:
    """Samples of weight one without values."""
    return Samples(x, x.mean(axis=0), np.ones(len(x)), None, 0.0)


def single(make, x, setting, regularizations) -> Iterator[Any]:
    """A fit."""
    yield make(**setting).fit(x)


def nystrom(m, d_count=None):
    """Theorem 1 with m landmarks; with ``d_count``, d_count times d random components of them."""

    def make(seed, dim, **setting):
        components = None if d_count is None else d_count * dim
        basis = {"n_basis": m, "components": components}
        return NystromKEF(base="uniform", jitter=JITTER, random_state=seed, **basis, **setting)

    return make


def lite(m, penalty):
    """Lemma 4 with m landmarks."""

    def make(seed, dim, **setting):
        return LiteKEF(base="uniform", n_basis=m, penalty=penalty, random_state=seed, **setting)

    return make


def full(seed, dim, **setting):
    """Equations 2 to 4."""
    return FullKEF(base="uniform", random_state=seed, **setting)


def autoencoder(seed, dim, **setting):
    """The baseline of Alain and Bengio (2014)."""
    return DenoisingAutoencoder(random_state=seed, **setting)


NOISES, HIDDEN = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8), (50,)

FULL = Model(full, in_all)
AUTOENCODER = Model(autoencoder, single)


def nystrom_model(m: int, select: bool = True) -> Model:
    """m landmarks among the samples."""
    return Model(nystrom(m), in_basis, select=select)


def subsampled_model(m: int, n: int) -> Model:
    """The paper's "nyström D": m d of the components of all n samples."""
    return Model(nystrom(n, m), in_basis)


def lite_model(m: int) -> Model:
    """Sections at m landmarks, all samples, λK."""
    return Model(lite(m, "norm"), in_basis, select=True)


def original_lite_model(n: int) -> Model:
    """The original: only n samples, all of them landmarks, λ(K + I)."""
    return Model(lite(n, "norm+coefficients"), in_basis, subsample=n, select=n == 500)
