"""Common parts of the score estimators: reading samples, and methods of a fitted density."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol, Self, cast, runtime_checkable

import numpy as np

from kmc.arrays import as_array
from kmc.checks import check_number, check_samples
from kmc.estimator import Estimator, check_vector, check_weights, values_of
from kmc.scores import choice
from kmc.scores.densities import jit_parameters
from kmc.scores.sums import Samples
from kmc.source import gathered

REFIT_GROWTH = 1.05  # the system of a stream is solved again when it has grown by this factor


class FittedDensity(Protocol):
    """An unnormalized log-density with its derivatives, at the rows of x (n, d)."""

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return the log-densities, (n,)."""

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradients, (n, d)."""

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """Return the Laplacians, (n,)."""


@runtime_checkable
class WithHessian(Protocol):
    """What a density or a function may have besides."""

    def hessian(self, x: np.ndarray) -> np.ndarray:
        """Return the second derivatives (n, d, d) at points x (n, d)."""


class FittedExpansion(NamedTuple):
    """log q0(x) + f(x - center): a base density times the exponential of a fitted function."""

    center: np.ndarray  # (d,)
    base: Any  # q0, in the user's coordinates
    function: Any  # f, with values, gradient and laplacian at centered points

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return the log-densities, (n,)."""
        return self.base.log_density(x) + self.function.values(x - self.center)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradients, (n, d)."""
        return self.base.gradient(x) + self.function.gradient(x - self.center)

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """Return the Laplacians, (n,)."""
        return self.base.laplacian(x) + self.function.laplacian(x - self.center)

    def hessian(self, x: np.ndarray) -> np.ndarray:
        """Return (n, d, d); raise a TypeError if the base density or the function has none."""
        for part in (self.base, self.function):
            if not isinstance(part, WithHessian):
                raise TypeError(f"{type(part).__name__} has no Hessian")
        return self.base.hessian(x) + self.function.hessian(x - self.center)

    def jit_state(self) -> Any:
        """Return the density for jitted loops, or None.

        They know bases that are flat, Gaussian or Student-t, and kernels that are composed of
        built-in radial ones.
        """
        base = jit_parameters(self.base, len(self.center))
        try:
            return None if base is None else self.function.jit_state(base, self.center)
        except TypeError:  # another kernel
            return None


class ScoreEstimator(Estimator, ABC):
    """Base of the score estimators.

    ``_fit`` and ``_extend`` of a subclass set ``density_`` to a FittedDensity.
    """

    density_: FittedDensity
    n_samples_seen_: int
    _with_values: bool

    def fit(self, X: Any, y: Any = None, weights: Any = None) -> Self:
        """Fit to samples.

        Parameters
        ----------
        X : array_like (n, d), memory map, dask array, iterator of blocks (k, d), or list of these
            Samples of the density, n >= 2. They are collected in memory; :meth:`partial_fit` takes
            one block at a time.
        y : None
            Ignored, as scikit-learn's conventions ask for.
        weights : array_like (n,), or in blocks as X, optional
            Not negative; only their ratios matter.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Points are not finite or too few, a column is constant, or a parameter is out of its
            range; the message names it.
        """
        return self._fit_all(X, weights, None)

    def partial_fit(self, X: Any, y: Any = None, weights: Any = None) -> Self:
        """Fit to one more block of samples; the first call is a :meth:`fit`.

        Parameters and errors as in :meth:`fit`, except that a later block may have a single row.
        Weights are comparable across blocks, and default to ones. See the notes on the class for
        what is kept of a stream and when it is refitted.
        """
        return self._fit_block(X, weights, None)

    def _fit_all(self, X: Any, weights: Any, values: Any) -> Self:
        X, weights, values = gathered(X, weights, values)
        x = self._check_points(X, fitting=True, least=2)
        samples = self._read(x, values, weights)
        check_samples(x, self, samples.weights)
        self.n_samples_seen_, self._with_values = len(x), samples.values is not None
        self._fit(samples)
        return self

    def _fit_block(self, X: Any, weights: Any, values: Any) -> Self:
        if not self.__sklearn_is_fitted__():
            return self._fit_all(X, weights, values)
        block = self._read(self._check_points(X), values, weights)
        if (block.values is not None) != self._with_values:
            raise ValueError("values: give log-densities for every block of a stream, or for none")
        self.n_samples_seen_ += len(block.x)
        self._extend(block)
        return self

    def fix_choices(self) -> Self:
        """Replace "auto" as samplers do.

        The replacements are a Gaussian kernel, the median distance and a Gaussian base density.
        """
        for name in choice.open_names(self):
            setattr(self, name, choice.FIXED[name])
        return self

    def _checked_value_weight(self) -> float:
        return 0.0

    @abstractmethod
    def _fit(self, samples: Samples) -> None:
        """Fit to checked samples; ``n_samples_seen_`` is set."""

    @abstractmethod
    def _extend(self, block: Samples) -> None:
        """Add one more block; ``n_samples_seen_`` includes it already."""

    def _read(self, x: np.ndarray, values: Any, weights: Any) -> Samples:
        """Check data, and return them as samples with weights on their own scale."""
        w = check_weights(weights, len(x)) * (
            1.0 if weights is None else float(np.mean(as_array("weights", weights)))
        )
        y = None if values is None else check_vector(values, len(x), "values")
        return Samples(x, w @ x / w.sum(), w, y, self._checked_value_weight())

    def log_density(self, X: Any) -> np.ndarray:
        """Return the unnormalized log-density at the rows of X (n, d), shape (n,)."""
        x = self._check_points(X)
        return self.density_.log_density(x)

    def gradient(self, X: Any) -> np.ndarray:
        """Return the estimated score function ∇ log p at the rows of X (n, d), shape (n, d)."""
        x = self._check_points(X)
        return self.density_.gradient(x)

    def laplacian(self, X: Any) -> np.ndarray:
        """Return Δ log p at the rows of X (n, d), shape (n,)."""
        x = self._check_points(X)
        return self.density_.laplacian(x)

    def objective(self, X: Any) -> float:
        r"""Return the empirical score-matching objective on X (n, d); lower is better.

        .. math:: \hat J = \frac1n \sum_b \Delta \log p(X_b) + \tfrac12 |\nabla \log p(X_b)|^2

        of the whole density, its base included: the Fisher divergence from the truth up to a
        constant that depends only on the truth (Hyvärinen 2005, theorem 1). For a uniform base it
        is the :math:`\hat J(f)` of Sutherland, Strathmann, Arbel and Gretton (2018), section 2.1.
        """
        x = self._check_points(X)
        gradient = self.density_.gradient(x)
        return float(
            np.mean(self.density_.laplacian(x) + 0.5 * np.einsum("ij,ij->i", gradient, gradient))
        )

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the objective: higher is better, as scikit-learn's model selection needs."""
        return -self.objective(X)


class KernelScoreEstimator(ScoreEstimator):
    """Base of the estimators fitted to samples and, where they are known, to log-densities."""

    value_weight: Any

    def fit(self, X: Any, y: Any = None, weights: Any = None, *, values: Any = None) -> Self:
        """Fit to samples, and to log-densities if they are given.

        Parameters
        ----------
        X : array_like (n, d), memory map, dask array, iterator of blocks (k, d), or list of these
            Samples of the density, n >= 2. They are collected in memory; :meth:`partial_fit` takes
            one block at a time.
        y, values : array_like (n,), or in blocks as X, optional
            Log-density at the samples, up to a constant, if known, under either name. They enter
            the objective with the weight ``value_weight``.
        weights : array_like (n,), or in blocks as X, optional
            Not negative; only their ratios matter.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Points are not finite or too few, a column is constant, or a parameter is out of its
            range; the message names it.
        """
        return self._fit_all(X, weights, values_of(y, values))

    def partial_fit(
        self, X: Any, y: Any = None, weights: Any = None, *, values: Any = None
    ) -> Self:
        """Fit to one more block of samples; the first call is a :meth:`fit`.

        Parameters and errors as in :meth:`fit`, except that a later block may have a single row.
        Weights are comparable across blocks, and default to ones. Log-densities are given for every
        block of a stream, or for none.
        """
        return self._fit_block(X, weights, values_of(y, values))

    def hessian(self, X: Any) -> np.ndarray:
        """Return the second derivatives (n, d, d) of the log-density at the rows of X (n, d).

        Only for radial kernels and random features, and for a basis with derivatives of order two;
        TypeError otherwise.
        """
        x, density = self._check_points(X), cast(WithHessian, self.density_)
        return density.hessian(x)

    def _checked_value_weight(self) -> float:
        check_number(self, "value_weight", 0)
        return float(self.value_weight)
