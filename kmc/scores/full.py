"""The full kernel exponential family: the minimizer over the whole reproducing-kernel space."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kmc.checks import check_choice, check_number
from kmc.errors import warn
from kmc.kernels import median_distance
from kmc.scores.base import REFIT_GROWTH, FittedDensity, FittedExpansion, KernelScoreEstimator
from kmc.scores.full_system import FullSystem
from kmc.scores.in_basis import (
    ScoreSetting,
    candidate_regularizations,
    candidate_settings,
    check_folds,
    check_smooth,
)
from kmc.scores.sums import Samples
from kmc.seeds import Seed, as_generator
from kmc.selection import Kernels, Numbers, Search, folds_of

PRODUCTS = 1000
"""Largest number of products with the matrix for a fit."""

SELECTION = 1000
"""Largest number of samples on which candidates are compared."""

SELECTION_TOLERANCE, SELECTION_PRODUCTS = 1e-3, 100
"""Limit on conjugate gradients while candidates are compared.

A λ that needs more, and all lower ones, are skipped.
"""


class FullKEF(KernelScoreEstimator):
    r"""Score estimator in the whole reproducing-kernel space of a kernel.

    The density is :math:`p \propto q_0\, e^f` with

    .. math:: f = -\frac{\hat\xi}{\lambda}
        + \sum_{a=1}^n \sum_{i=1}^d \beta_{(a,i)}\, \partial_i k(X_a, \cdot), \qquad
        (G + n \lambda I)\, \beta = h / \lambda ,

    the minimizer of Ĵ(f) + ½ λ |f|² over all f: equations 2 to 4 of Sutherland, Strathmann, Arbel
    and Gretton (2018), "Efficient and principled score estimation with Nyström kernel exponential
    families", after Sriperumbudur, Fukumizu, Gretton, Hyvärinen and Kumar (2017). The paper's
    Gaussian kernel exp(-|x - y|²/σ) is kmc's with σ = 2 bandwidth².

    Parameters
    ----------
    kernel : str, kernel or list of them
        "auto" is "gaussian" or "inverse-multiquadric"; also "matern52", "matern72", "polynomial" or
        an object from :mod:`kmc.kernels`. From a list, the one with the best held-out objective is
        chosen.
    bandwidth : float, "auto", "median", "cv" or sequence of float
        In the units of X; "median" is the median distance between samples, "auto" this, half or
        twice of it; "cv" and a sequence are candidates to choose from. A kernel object has its own
        scale: "auto" and "median" keep it, numbers multiply it.
    regularization : float, "cv" or sequence of float
        λ, positive.
    base : str, density or list of them
        The q0: "gaussian" and "student-t" are fitted, "uniform" is flat over all space, "auto" is
        one of these, with a covariance that is shrunk as far as it is noise; or an object with
        ``log_density`` and ``gradient``.
    solver : {"auto", "dense", "cg"}
        "dense" factorizes the matrix; "cg" runs conjugate gradients, with a Nyström preconditioner,
        on products with a matrix that is never formed; "auto" is "dense" for n d <= 1000 unknowns.
    tolerance : float
        For "cg": bound on the relative error, root mean square over the samples, of the gradient of
        f.
    value_weight : float
        γ of the value terms, when ``fit`` is given values.
    cv : int
        Number of folds for the selection.
    random_state : int, Generator or None

    Attributes
    ----------
    coefficients_ : ndarray, shape (n, d)
        β.
    kernel_, bandwidth_, regularization_, base_density_, solver_
        The chosen ones.
    cv_results_ : dict of ndarray
        The candidates (kernel, bandwidth, base, penalty, regularization), their held-out
        ``objective`` and its ``std_error``; empty if there was nothing to choose. NaN where "cg"
        needs more than 100 products, at low λ.
    n_iter_ : int
        Number of products with the matrix in "cg", 0 for "dense".
    n_features_in_, n_samples_seen_ : int

    Warns
    -----
    KmcWarning
        "cg" ends before it reaches the tolerance.

    Notes
    -----
    For "auto" see :class:`NystromKEF`.

    With p = n d unknowns (n (d + 1) with values) "dense" takes O(p³) time and 8 p² bytes, three
    times that to choose the regularization; "cg" O(n² d) time for each of ten to a hundred
    products, twice that for kernels that are not composed of the radial ones in :mod:`kmc.kernels`,
    and O(n d) memory plus a few (3 √p)². A gradient at a point takes O(n d).

    The full estimator does not stream: its function needs every sample, so all are kept. The system
    is solved from scratch when they have grown by 5 % since the last time, and all choices are made
    again when they have doubled.

    Candidates are compared by K-fold cross-validation, on 1000 random samples if there are more;
    the best λ for n₁ of n samples becomes λ (n₁/n)^{1/3}, the slowest decay in theorem 2 of the
    paper.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.scores import FullKEF
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> estimator = FullKEF(base="uniform", random_state=0).fit(X)
    >>> bool(np.abs(estimator.gradient([[1.0, 0.0]]) - [[-1.0, 0.0]]).max() < 0.3)
    True
    """

    _seen: Samples
    _choice: Choice
    _n_chosen: int
    _n_solved: int

    def __init__(
        self,
        kernel: Kernels = "auto",
        bandwidth: Numbers = "auto",
        regularization: Numbers = "cv",
        base: Any = "auto",
        solver: str = "auto",
        tolerance: float = 1e-7,
        value_weight: float = 1.0,
        cv: int = 5,
        random_state: Seed = None,
    ):
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.base = base
        self.solver = solver
        self.tolerance = tolerance
        self.value_weight = value_weight
        self.cv = cv
        self.random_state = random_state

    def _fit(self, samples: Samples) -> None:
        """Choose open parameters, and solve."""
        check_choice(self, "solver", ("auto", "dense", "cg"))
        check_number(self, "tolerance", 0, 1)
        self._solve(samples, choose(self, _counted(samples)))
        self._n_chosen = len(samples.x)

    def _extend(self, block: Samples) -> None:
        seen = self._seen.joined(block)
        if len(seen.x) >= 2 * self._n_chosen:
            self._fit(seen)
        elif len(seen.x) >= REFIT_GROWTH * self._n_solved:
            self._solve(seen, self._choice)
        self._seen = seen

    def _solve(self, seen: Samples, choice: Choice) -> None:
        system = FullSystem(choice.kernel, _counted(seen), choice.base)
        solved = next(
            system.path(self.solver, np.array([choice.regularization]), self.tolerance, PRODUCTS)
        )
        if not solved.converged:
            warn(_unfinished(solved, self.tolerance, choice))
        self._seen, self._choice, self._n_solved = seen, choice, len(seen.x)
        (
            self.kernel_,
            self.bandwidth_,
            self.base_density_,
            self.regularization_,
            self.cv_results_,
        ) = choice
        self.solver_, self.n_iter_ = system.solver(self.solver), solved.iterations
        self.center_, self.coefficients_ = seen.center, solved.coefficients
        self.density_ = FittedExpansion(seen.center, choice.base, solved.function)


class Choice(NamedTuple):
    """The chosen parameters."""

    kernel: Any
    bandwidth: float
    base: Any
    regularization: float
    table: dict[str, np.ndarray]  # cv_results_


def choose(model: Any, samples: Samples) -> Choice:
    """Choose a FullKEF's open parameters for samples of positive weight.

    With more than ``SELECTION`` samples, candidates are compared on a random subset of that size;
    the best λ for n₁ of n samples becomes λ (n₁/n)^(1/3), the slowest decay of Sutherland,
    Strathmann, Arbel and Gretton (2018), theorem 2.
    """
    check_folds(model.cv)
    rng, median = as_generator(model.random_state), median_distance(samples.x)
    search = Search(_regularizations(model.regularization, median))
    settings = list(candidate_settings(model, samples, median, rng))
    for setting in settings:
        check_smooth(setting.kernel, 4)
    chosen, shrinkage = settings[0], 1.0
    if len(settings) * len(search.regularizations) > 1:
        n = len(samples.x)
        shrinkage = min(SELECTION / n, 1.0) ** (1.0 / 3.0)
        some = (
            samples
            if n <= SELECTION
            else samples.take(np.sort(rng.choice(n, SELECTION, replace=False)))
        )
        chosen = _best(model, some, settings, search, rng)
    regularization = shrinkage * search.regularization
    return Choice(
        chosen.kernel, chosen.candidate.bandwidth, chosen.base, regularization, search.table()
    )


def held_out_objective(density: FittedDensity, samples: Samples) -> float:
    """Return the mean objective of a density on samples, value terms included.

    See :class:`kmc.scores.sums.Sums`.
    """
    share = samples.weights / samples.weights.sum()
    gradient = density.gradient(samples.x)
    total = share @ (density.laplacian(samples.x) + 0.5 * np.einsum("nd,nd->n", gradient, gradient))
    if samples.values is not None:
        residual = samples.values - density.log_density(samples.x)
        total += 0.5 * samples.value_weight * (share @ (residual - share @ residual) ** 2)
    return float(total)


def _unfinished(solved, tolerance, choice):
    return (
        f"the conjugate gradients of FullKEF ended after {solved.iterations} products at a "
        f"relative error of up to {solved.error:.1e} in the gradient, tolerance={tolerance:g}: use "
        f"a regularization above {choice.regularization:.1e}, a smaller bandwidth than "
        f"{choice.bandwidth:.3g}, or solver='dense'"
    )


def _counted(samples):
    """Return the samples of positive weight."""
    return samples if np.all(samples.weights > 0) else samples.take(samples.weights > 0)


def _regularizations(regularization, median):
    found = candidate_regularizations(regularization, median)
    if not np.all(found > 0):
        raise ValueError(
            f"regularization={regularization!r}: expected positive numbers: the full estimator "
            "divides by λ, and does not exist with zero"
        )
    return found


def _best(model, samples, settings, search, rng) -> ScoreSetting:
    """Return the setting with the best held-out objective; ``search`` keeps its regularization."""
    folds = folds_of(len(samples.x), model.cv, rng)
    for setting in settings:
        search.add(
            setting.candidate,
            _held_out(model, samples, setting, folds, search.regularizations),
            setting,
        )
    return search.best()


def _held_out(model, samples, setting, folds, regularizations):
    """Return the objective (folds, l) of each fold under the fits to the others.

    It is NaN where they take too long.
    """
    descending = np.argsort(-regularizations)
    out = np.full((len(folds), len(regularizations)), np.nan)
    for k, fold in enumerate(folds):
        rest = np.ones(len(samples.x), bool)
        rest[fold] = False
        system, part = (
            FullSystem(setting.kernel, samples.take(rest), setting.base),
            samples.take(fold),
        )
        path = system.path(
            model.solver,
            regularizations[descending],
            max(model.tolerance, SELECTION_TOLERANCE),
            SELECTION_PRODUCTS,
        )
        for j, solved in zip(descending, path, strict=True):
            if not solved.converged:
                break
            out[k, j] = held_out_objective(
                FittedExpansion(samples.center, setting.base, solved.function), part
            )
    return out
