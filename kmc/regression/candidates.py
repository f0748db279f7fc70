"""The bases that Hermite regression compares."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kmc import landmarks
from kmc.bases import Basis, FourierFeatures, KernelSections, Monomials
from kmc.bases.base import as_basis, is_basis
from kmc.checks import check_count
from kmc.selection import kernel_candidates

BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Candidates of ``bandwidth="cv"``, in median distances between samples."""

BASES = ("sections", "fourier", "monomials")


class HermiteCandidate(NamedTuple):
    """A setting for which regularizations are compared; the fields are columns of the table."""

    kernel: Any
    bandwidth: float


class HermiteSetting(NamedTuple):
    """A candidate, with its kernel, or None, and its basis."""

    candidate: HermiteCandidate
    kernel: Any
    basis: Basis

    def penalty(self) -> np.ndarray:
        """The Gram matrix (p, p) of the basis, or the identity if it has none."""
        gram = self.basis.gram()
        return np.eye(self.basis.size) if gram is None else gram


def settings(model: Any, x: np.ndarray, median: float, rng: np.random.Generator) -> list[HermiteSetting]:
    """All settings that the parameters of an estimator leave open; sets its ``landmarks_`` if there are any."""
    if is_basis(model.basis):
        return [_without_kernel(as_basis(model.basis))]
    if not isinstance(model.basis, str) or model.basis not in BASES:
        raise ValueError(f"basis={model.basis!r}: expected {', '.join(map(repr, BASES))} or an object of kmc.bases")
    if model.basis == "monomials":
        check_count(model, "degree", 1)
        return [_without_kernel(Monomials.about(x, model.degree))]
    check_count(model, "n_basis", 1)
    found = kernel_candidates(model, median, BANDWIDTHS)
    candidates = [HermiteCandidate(kernel, bandwidth) for kernel, bandwidth, _ in found]
    kernels = [built for _, _, built in found]
    bases: list[Basis]
    if model.basis == "sections":
        model.landmarks_ = landmarks.choose(model.landmarks, x, model.n_basis, rng, kernels[0])
        bases = [KernelSections(kernel, model.landmarks_) for kernel in kernels]
    else:
        seed = int(rng.integers(2**63))  # the same draw, rescaled, for every bandwidth
        bases = [FourierFeatures.draw(kernel, model.n_basis, x.shape[1], seed) for kernel in kernels]
    return [HermiteSetting(*parts) for parts in zip(candidates, kernels, bases, strict=True)]


def _without_kernel(basis):
    return HermiteSetting(HermiteCandidate(None, np.nan), None, basis)
