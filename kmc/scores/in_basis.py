"""Common parts of the estimators in a finite basis: fits, streams, and the choice of landmarks."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc import landmarks
from kmc.bases import Basis
from kmc.checks import check_count
from kmc.scores import ridge
from kmc.scores.base import REFIT_GROWTH, FittedExpansion, KernelScoreEstimator
from kmc.scores.sums import Samples, Sums, accumulate_sums


class BasisEstimator(KernelScoreEstimator):
    """Base of the estimators that are linear in a finite basis; see :class:`kmc.scores.ridge.RidgeModel`."""

    _basis_follows_data = True

    center_: np.ndarray
    landmarks_: np.ndarray
    basis_: Basis
    base_density_: Any
    density_: FittedExpansion

    def _fit(self, samples: Samples) -> None:
        self._stream = _Stream(samples, ridge.fit(self, samples), self._basis_follows_data)

    def _extend(self, block: Samples) -> None:
        self._stream.add(self, block)

    def jit_state(self) -> Any:
        """Return the estimated log-density for jitted loops, see :mod:`kmc.jitted`.

        It is None unless the base density is flat, Gaussian or Student-t, and the kernel composed of built-in radial
        ones: without it, samplers call the estimator's methods.
        """
        self._check_fitted()
        return self.density_.jit_state()


class _Stream:
    """The blocks so far: as samples if the basis will depend on them, and as sums.

    The work per sample does not grow with their number: a block's sums are added; the system is solved once n has grown
    by a factor, and samples that are kept are joined, and fitted anew, once it has doubled.
    """

    def __init__(self, samples: Samples, total: Sums, keep: bool):
        self.n = self.n_solved = self.n_chosen = len(samples.x)
        self.samples = samples if keep else None
        self._blocks: list[Samples] = []  # those that followed
        # O(p²) memory that a single fit does not need: summed again if the stream continues
        self.total: Sums | None = None if keep else total

    def add(self, model: Any, block: Samples) -> None:
        total = self.total
        if total is None:
            assert self.samples is not None
            total = accumulate_sums(model.basis_, self.samples, model.base_density_)
        self.n += len(block.x)
        if self.samples is not None:
            self._blocks.append(block)
            if self.n >= 2 * self.n_chosen:
                self.samples, self._blocks = self.samples.joined(*self._blocks), []
                self.total = ridge.fit(model, self.samples)
                self.n_solved = self.n_chosen = self.n
                return
        self.total = total + accumulate_sums(model.basis_, block._replace(center=model.center_), model.base_density_)
        if self.n >= REFIT_GROWTH * self.n_solved:
            ridge.solve(model, self.total)
            self.n_solved = self.n


def draw_landmarks(model: Any, samples: Samples, kernel: Any, rng: np.random.Generator) -> None:
    """Set ``landmarks_`` (m, d), in the user's coordinates."""
    check_count(model, "n_basis", 1)
    if isinstance(model.landmarks, str):
        model.landmarks_ = samples.center + landmarks.choose(model.landmarks, samples.z, model.n_basis, rng, kernel)
    else:
        model.landmarks_ = landmarks.choose(model.landmarks, samples.x, model.n_basis, rng)


def check_smooth(kernel: Any, derivatives: int) -> None:
    """ValueError for a kernel whose sections have fewer derivatives than the estimator needs."""
    if kernel.differentiability < derivatives:
        raise ValueError(
            f"kernel={kernel!r} has {kernel.differentiability:g} derivatives at coincident points: this "
            f"estimator needs {derivatives}, use 'gaussian', 'inverse-multiquadric', 'matern52' "
            "or 'matern72'"
        )
