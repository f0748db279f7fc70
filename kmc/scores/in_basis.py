"""What the estimators in a finite basis share: fits, streams, and the choice of landmarks."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from kmc import landmarks
from kmc.bases import Basis
from kmc.checks import check_count
from kmc.estimator import values_of
from kmc.scores import ridge
from kmc.scores.base import FittedExpansion, ScoreEstimator
from kmc.scores.sums import Samples, Sums, accumulate_sums

SOLVE_GROWTH = 1.05  # a stream is solved anew when it has grown by this factor since it was solved last


class BasisEstimator(ScoreEstimator):
    """Base of the estimators that are linear in a finite basis; see :class:`kmc.scores.ridge.Model`."""

    _basis_follows_data = True

    centre_: np.ndarray
    landmarks_: np.ndarray
    basis_: Basis
    base_density_: Any
    density_: FittedExpansion

    def fit(self, X: Any, y: Any = None, weights: Any = None, *, values: Any = None) -> Self:
        """Fit to samples.

        Parameters
        ----------
        X : array_like, shape (n, d)
            Samples of the density, n >= 2.
        y, values : array_like, shape (n,), optional
            Log-density at the samples, up to a constant, where it is known, under either name: the objective then also
            asks that the model agrees with them.
        weights : array_like, shape (n,), optional
            Not negative; only their ratios matter.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For points that are not finite or too few, a constant column, or a parameter out of its range; the message
            names it.
        """
        x = self._check_points(X, fitting=True, least=2)
        samples = ridge.read_samples(self, x, values_of(y, values), weights)
        self._stream = _Stream(samples, ridge.fit(self, samples), self._basis_follows_data)
        self.n_samples_seen_ = self._stream.n
        return self

    def partial_fit(self, X: Any, y: Any = None, weights: Any = None, *, values: Any = None) -> Self:
        """Fit to one more block of a stream; the first call, or a :meth:`fit`, begins it.

        Parameters and errors as in :meth:`fit`. The forms of a block are added to those so far, O(block) work, and the
        system is solved anew once the stream has grown by 5 % since the last time. Where the basis follows the data,
        landmarks, bandwidth, regularisation and base density are chosen again at each doubling of the stream, from all
        of it: it is kept, O(n d) memory. For random features they are those of the first block, and memory does not
        grow.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, weights, values=values)
        self._stream.add(self, ridge.read_samples(self, self._check_points(X), values_of(y, values), weights))
        self.n_samples_seen_ = self._stream.n
        return self

    def point(self) -> Any:
        """The estimated log-density for jitted loops, see :mod:`kmc.points`; None if it has no such form."""
        self._check_fitted()
        return self.density_.point()


class _Stream:
    """The blocks so far: as samples where the basis will follow them, and as sums."""

    def __init__(self, samples: Samples, total: Sums, keep: bool):
        self.n = self.n_solved = self.n_chosen = len(samples.x)
        self.with_values = samples.values is not None
        self.samples: Any = samples if keep else None
        self.total: Sums | None = (
            None if keep else total
        )  # O(p²) memory that a fit alone does not need: summed again if it goes on

    def add(self, model: Any, block: Samples) -> None:
        if (block.values is not None) != self.with_values:
            raise ValueError("values: give log-densities for every block of a stream, or for none")
        total = accumulate_sums(model.basis_, self.samples, model.base_density_) if self.total is None else self.total
        self.n += len(block.x)
        if self.samples is not None:
            self.samples = self.samples.joined(block)
            if self.n >= 2 * self.n_chosen:
                self.total = ridge.fit(model, self.samples)
                self.n_solved = self.n_chosen = self.n
                return
        self.total = total + accumulate_sums(model.basis_, block._replace(centre=model.centre_), model.base_density_)
        if self.n >= SOLVE_GROWTH * self.n_solved:
            ridge.solve(model, self.total)
            self.n_solved = self.n


def draw_landmarks(model: Any, samples: Samples, kernel: Any, rng: np.random.Generator) -> None:
    """Set ``landmarks_`` (m, d), in the user's coordinates."""
    check_count(model, "n_basis", 1)
    if isinstance(model.landmarks, str):
        model.landmarks_ = samples.centre + landmarks.choose(model.landmarks, samples.z, model.n_basis, rng, kernel)
    else:
        model.landmarks_ = landmarks.choose(model.landmarks, samples.x, model.n_basis, rng)


def check_smooth(kernel: Any, derivatives: int) -> None:
    """ValueError for a kernel whose sections have fewer derivatives than the estimator takes."""
    if kernel.differentiability < derivatives:
        raise ValueError(
            f"kernel={kernel!r} has {kernel.differentiability:g} derivatives at coincident points: this "
            f"estimator takes {derivatives}, use 'gaussian', 'rational-quadratic', 'inverse-multiquadric', 'matern52' "
            "or 'matern72'"
        )
