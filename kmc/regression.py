"""Hermite regression: least squares on values and gradients in a finite basis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from kmc import landmarks
from kmc.arrays import as_array
from kmc.bases import Basis, Contraction, FourierFeatures, KernelSections, Monomials
from kmc.bases.base import as_basis, is_basis
from kmc.checks import check_count, check_number
from kmc.errors import warn
from kmc.estimator import (
    DataConversionWarning,
    Estimator,
    as_points,
    check_vector,
    check_weights,
    values_of,
)
from kmc.forms import Forms, accumulate, accumulate_folds
from kmc.forms.stream import is_iterator
from kmc.kernels import median_distance
from kmc.linalg import ridge_solution
from kmc.seeds import Seed, as_generator
from kmc.selection import (
    Kernels,
    Numbers,
    Search,
    folds_of,
    held_out,
    kernel_candidates,
    numbers_or,
)
from kmc.source import SELECTION, Source, is_stream, look, open_source, unzipped

__all__ = ["HermiteRegression"]

REGULARIZATIONS = tuple(10.0 ** np.arange(-12.0, 1.0))
"""Candidates of ``regularization="cv"``, in units of 1 + gradient_weight / (median distance)²."""

BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Candidates of ``bandwidth="cv"``, in median distances between samples."""

BASES = ("sections", "fourier", "monomials")

JITTER = 1e-13
"""Added to the diagonal, in units of its mean: noiseless data are fitted to seven digits."""


class HermiteRegression(Estimator):
    r"""Ridge regression of a function on its values and, if known, its gradients.

    .. math:: \min_{c, \alpha}\; \frac1n \sum_k (f(x_k) - v_k)^2 + \mu\, |\nabla f(x_k) - t_k|^2
        + \lambda\, \alpha^\top P \alpha, \qquad f = c + \sum_i \alpha_i \varphi_i

    in p functions φ with Gram matrix P. For kernel sections at landmarks these are algorithms 4
    (dot-product kernels) and 5 (distance kernels) of Cabannes and Bach (2023), "The Galerkin method
    beats graph-based approaches for spectral algorithms", with weights, a penalty and an intercept;
    theirs are obtained by ``fit_intercept=False, gradient_weight=1, regularization=0``.

    Parameters
    ----------
    kernel : str, kernel or list of them
        A name as in :func:`kmc.kernels.kernel_of` or an object from :mod:`kmc.kernels`; from a
        list, the one with the smallest held-out loss is chosen. A dot-product kernel is not
        translation-invariant: subtract a common offset of X first.
    bandwidth : float, "median", "cv" or sequence of float
        In the units of X; "median" is the median distance between samples; "cv" and a sequence are
        candidates to choose from. A kernel object has its own scale: "median" keeps it, numbers
        multiply it.
    regularization : float, "cv" or sequence of float
        λ.
    gradient_weight : float
        μ, not negative, in the square of the units of X. If both are noisy, the best choice is the
        ratio of the variances of a value and of a component of a gradient.
    basis : {"sections", "fourier", "monomials"} or Basis
        Kernel sections at landmarks, random Fourier features of the kernel, all monomials up to
        ``degree`` in standardized coordinates, or an object from :mod:`kmc.bases`. The last two do
        not use a kernel. The penalty is the Gram matrix of the basis, or the identity if it has
        none.
    n_basis : int
        Number of landmarks or of features; all distinct samples if there are fewer.
    landmarks : {"uniform", "pivoted-cholesky", "k-means"} or array_like, shape (p, d)
    degree : int
        Degree of the monomials.
    fit_intercept : bool
        Whether to add an unpenalized constant c.
    cv : int
        Number of folds for the selection.
    random_state : int, Generator or None

    Attributes
    ----------
    basis_ : Basis
        φ.
    coefficients_ : ndarray, shape (p,)
        α.
    intercept_ : float
        c.
    landmarks_ : ndarray, shape (p, d)
        Landmarks of kernel sections.
    kernel_, bandwidth_, regularization_
        The chosen ones; the first two are None for a basis without a kernel.
    cv_results_ : dict of ndarray
        The candidates (kernel, bandwidth, regularization), their held-out loss ``objective`` and
        its ``std_error``; empty if there was nothing to choose.
    n_features_in_ : int

    Notes
    -----
    Assembly takes O(n p² + n p d) time for each bandwidth, in blocks of bounded memory, and the
    solution O(p³) for each regularization and fold. With more than 50,000 samples, 50,000 are used
    to choose landmarks, bandwidth and regularization, at random or, for an iterator, the first; the
    final fit uses all samples.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.regression import HermiteRegression
    >>> rng = np.random.default_rng(0)
    >>> X, test = rng.uniform(-2, 2, (40, 2)), rng.uniform(-2, 2, (500, 2))
    >>> noisy = np.sin(X).prod(axis=1) + 0.5 * rng.standard_normal(40)
    >>> slopes = np.cos(X) * np.sin(X[:, ::-1])  # where they are known exactly
    >>> plain = HermiteRegression(random_state=0).fit(X, noisy)
    >>> hermite = HermiteRegression(random_state=0).fit(X, noisy, slopes)
    >>> [round(model.score(test, np.sin(test).prod(axis=1)), 2) for model in (plain, hermite)]
    [0.71, 0.96]
    """

    _regressor = True
    _needs_y = True

    def __init__(
        self,
        kernel: Kernels = "gaussian",
        bandwidth: Numbers = "median",
        regularization: Numbers = "cv",
        gradient_weight: float = 1.0,
        basis: Any = "sections",
        n_basis: int = 100,
        landmarks: Any = "uniform",
        degree: int = 3,
        fit_intercept: bool = True,
        cv: int = 5,
        random_state: Seed = None,
    ):
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.gradient_weight = gradient_weight
        self.basis = basis
        self.n_basis = n_basis
        self.landmarks = landmarks
        self.degree = degree
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,
        gradients: Any = None,
        weights: Any = None,
        *,
        values: Any = None,
    ) -> Self:
        """Fit to samples.

        Parameters
        ----------
        X : array_like (n, d), memory map, dask array, iterator of blocks (k, d), or list of these
            Points, n >= 2. Without y, an iterator of tuples of blocks: points and values, or
            points, values and gradients.
        y, values : array_like (n,), or in blocks as X
            Values of the function at these points, under either name.
        gradients : array_like (n, d), or in blocks as X, optional
            Its gradients there; without them this is kernel ridge regression.
        weights : array_like (n,), or in blocks as X, optional
            Not negative; only their ratios matter.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Points, values or gradients are not finite or have inconsistent shapes, or a parameter
            is out of its range; the message names it.
        """
        source = self._read(X, values_of(y, values), gradients, weights)
        check_number(self, "gradient_weight", 0, ends="[)")
        check_count(self, "cv", 2)
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise TypeError(f"fit_intercept={self.fit_intercept!r}: expected True or False")
        self._select(source)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the values f at the rows of X (n, d), shape (n,)."""
        x = self._check_points(X)
        return self.intercept_ + self._function().values(x)

    def gradient(self, X: Any) -> np.ndarray:
        """Return the gradients ∇f at the rows of X (n, d), shape (n, d)."""
        x = self._check_points(X)
        return self._function().gradient(x)

    def score(self, X: Any, y: Any, weights: Any = None) -> float:
        """Return R², the coefficient of determination, of values y (n,) at X (n, d).

        The best value is 1, and that of the mean is 0.
        """
        predicted = self.predict(X)
        return _determination(predicted, self._values(y, len(predicted)), weights)

    def _read(self, X, values, gradients, weights) -> Source:
        if values is None and is_iterator(X):
            X, values, gradients = _unzipped(X, gradients)
        if values is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        source = open_source(self, X, weights)
        if is_stream(X):
            return source.beside(values, gradients)
        x = source.x
        return source.beside(
            self._values(values, len(x)),
            None if gradients is None else _gradients(gradients, x.shape),
        )

    def _values(self, y, n):
        shape = as_array("y", y).shape
        if len(shape) == 2 and shape[1] == 1:
            warn(
                "A column-vector y was passed when a 1d array was expected: use y.ravel()",
                DataConversionWarning,
            )
            y = np.asarray(y).ravel()
        return check_vector(y, n, "y")

    def _select(self, source):
        """Choose open parameters by the held-out loss, and set the fitted attributes."""
        rng = as_generator(self.random_state)
        samples, source = look(source, SELECTION, rng)
        self.n_features_in_ = samples.x.shape[1]
        median = median_distance(samples.x)
        unit = 1.0 + (0.0 if samples.gradients is None else self.gradient_weight / median**2)
        search = Search(
            numbers_or("regularization", self.regularization, unit * np.array(REGULARIZATIONS))
        )
        compared = settings(self, samples.x, median, rng)
        labels = np.zeros(len(samples.x), int)
        open_choice = len(compared) * len(search.regularizations) > 1
        if open_choice:
            for k, fold in enumerate(folds_of(len(labels), self.cv, rng)):
                labels[fold] = k
        for setting in compared:
            parts = self._losses(setting, samples, labels)
            total = sum(parts[1:], parts[0])
            if open_choice:
                losses = _held_out(parts, total, setting.penalty(), search.regularizations)
                search.add(setting.candidate, losses, (setting, total))
        best, total = search.best() if open_choice else (compared[0], total)
        if source.has_more_than(samples):
            (total,) = self._losses(best, source)
        self._set(best, total, search.regularization)
        self.cv_results_ = search.table()

    def _losses(self, setting, samples, labels=None):
        """List the losses over each fold, or the one over all samples, from one pass."""
        forms: tuple[str, ...] = ("mass", "values")
        if samples.gradients is not None:
            forms = (*forms, "dirichlet", "gradients")
        data = {
            "weights": samples.weights,
            "values": samples.values,
            "gradients": samples.gradients,
        }
        if labels is None:
            sums = [accumulate(setting.basis, samples.x, forms, **data)]
        else:
            sums = accumulate_folds(setting.basis, samples.x, forms, labels, **data)
        return [
            HermiteLoss(one, float(self.gradient_weight), bool(self.fit_intercept)) for one in sums
        ]

    def _set(self, setting, loss, regularization):
        self.kernel_, self.basis_, self.regularization_ = (
            setting.kernel,
            setting.basis,
            regularization,
        )
        self.bandwidth_ = None if setting.kernel is None else setting.candidate.bandwidth
        self.coefficients_, self.intercept_ = loss.solution(setting.penalty(), regularization)

    def _function(self):
        return Contraction(self.basis_, self.coefficients_)


def _held_out(parts, total, penalty, regularizations):
    """Return the loss (parts, l) of each part at the others' solution, for each regularization."""
    return np.array(
        [
            [part(*rest.solution(penalty, r)) for r in regularizations]
            for rest, part in held_out(parts, total)
        ]
    )


def _unzipped(X, gradients):
    """Return points, values and gradients, each in blocks."""
    expected = "expected y, or tuples of blocks (X, values) or (X, values, gradients)"
    parts = unzipped(iter(X), expected)
    if len(parts) not in (2, 3):
        raise ValueError(f"X is an iterator of tuples of {len(parts)}: {expected}")
    if len(parts) == 3 and gradients is not None:
        raise ValueError("gradients: they are in the blocks of X already")
    return (*parts, gradients)[:3]


def _gradients(gradients, shape):
    t = as_points(gradients, name="gradients")
    if t.shape != shape:
        raise ValueError(f"gradients has shape {t.shape}: expected {shape}, as X")
    return t


def _determination(predicted, true, weights):
    """Return 1 - Σ w |predicted - true|² / Σ w |true - mean|².

    For constant truth, return 1 if it is met and 0 if not.
    """
    w = check_weights(weights, len(true))
    columns, errors = true.reshape(len(true), -1), (predicted - true).reshape(len(true), -1)
    error = np.sum(w @ errors**2)
    spread = np.sum(w @ (columns - w @ columns / w.sum()) ** 2)
    if spread == 0.0:
        return float(error == 0.0)
    return float(1.0 - error / spread)


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
        """Return the Gram matrix (p, p) of the basis, or the identity if it has none."""
        gram = self.basis.gram()
        return np.eye(self.basis.size) if gram is None else gram


def settings(
    model: Any, x: np.ndarray, median: float, rng: np.random.Generator
) -> list[HermiteSetting]:
    """List all settings that an estimator leaves open; set its ``landmarks_`` if there are any."""
    if is_basis(model.basis):
        return [_without_kernel(as_basis(model.basis))]
    if not isinstance(model.basis, str) or model.basis not in BASES:
        raise ValueError(
            f"basis={model.basis!r}: expected {', '.join(map(repr, BASES))} or an object of "
            f"kmc.bases"
        )
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
        bases = [
            FourierFeatures.draw(kernel, model.n_basis, x.shape[1], seed) for kernel in kernels
        ]
    return [HermiteSetting(*parts) for parts in zip(candidates, kernels, bases, strict=True)]


def _without_kernel(basis):
    return HermiteSetting(HermiteCandidate(None, np.nan), None, basis)


# The least-squares loss on values and gradients, as a quadratic of the coefficients.


@dataclass(frozen=True)
class HermiteLoss:
    r"""E[(f - y)²] + μ E[|∇f - t|²] of f = c + αᵀφ over weighted samples, from their forms.

    With M and v the covariances of φ with itself and with y, D = E[<∇φ, ∇φᵀ>] and g = E[<∇φ, t>],
    the best α solves (M + μ D) α = v + μ g. Without an intercept c, M and v are raw second moments:
    that is A α = b of Cabannes and Bach (2023), appendix B.4, where μ = 1.

    Attributes
    ----------
    forms : Forms
        mass and values; also dirichlet and gradients if there are gradients.
    gradient_weight : float
        μ.
    fit_intercept : bool
    """

    forms: Forms
    gradient_weight: float
    fit_intercept: bool

    def __add__(self, other: HermiteLoss) -> HermiteLoss:
        return replace(self, forms=self.forms + other.forms)

    def __sub__(self, other: HermiteLoss) -> HermiteLoss:
        return replace(self, forms=self.forms - other.forms)

    def system(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the matrix (p, p) and the right side (p,) of the normal equations."""
        forms = self.forms
        if self.fit_intercept:
            matrix, target = forms.centered_mass(), forms.centered_values()
        else:
            matrix, target = forms.get("mass") / forms.weight, forms.get("values") / forms.weight
        if forms.gradients is not None:
            matrix = matrix + self.gradient_weight / forms.weight * forms.get("dirichlet")
            target = target + self.gradient_weight / forms.weight * forms.gradients
        return matrix, target

    def solution(self, penalty: np.ndarray, regularization: float) -> tuple[np.ndarray, float]:
        """Solve for α (p,) and c that minimize the loss + λ αᵀPα; c is 0 without an intercept."""
        matrix, target = self.system()
        jitter = JITTER * np.trace(matrix) / len(matrix)
        coefficients = ridge_solution(matrix, target, penalty, regularization, jitter)
        return coefficients, self._mean_residual(coefficients) if self.fit_intercept else 0.0

    def __call__(self, coefficients: np.ndarray, intercept: float) -> float:
        """Return the loss of the f with these coefficients α (p,) and this intercept c."""
        forms = self.forms
        bias = self._mean_residual(coefficients) - intercept
        spread = coefficients @ (
            forms.centered_mass() @ coefficients - 2.0 * forms.centered_values()
        )
        loss = bias**2 + forms.value_variance() + spread
        if forms.gradients is not None:
            square = coefficients @ (forms.get("dirichlet") @ coefficients - 2.0 * forms.gradients)
            loss += self.gradient_weight / forms.weight * (square + forms.get("gradient_square"))
        return float(loss)

    def _mean_residual(self, coefficients):
        """Return E[y - αᵀφ]."""
        return float(
            (self.forms.get("value_sum") - self.forms.get("mean") @ coefficients)
            / self.forms.weight
        )
