"""Diffusion maps: the spectrum of a density's Langevin generator, from samples."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from kmc.bases.base import centers_of
from kmc.checks import check_choice, check_number
from kmc.errors import warn
from kmc.estimator import check_vector
from kmc.kernels import Kernel, kernel_of, median_distance
from kmc.seeds import Seed, as_generator
from kmc.selection import Numbers
from kmc.source import SELECTION, Sample, Source, look, open_source
from kmc.spectral import generator_selection
from kmc.spectral.eigenfunctions import EigenfunctionMap
from kmc.spectral.sections import (
    candidates,
    check_section_parameters,
    draw_landmarks,
    orthonormal_features,
    orthonormal_representers,
    whitened_sections,
)
from kmc.spectral.tails import Reach, is_flat, is_heavy
from kmc.spectral.trial import TrialSpace, orthonormal, penalized_modes
from kmc.spectral.uncertainty import Uncertainty

SAMPLES_PER_FUNCTION = 10
"""A minimum: more functions could give false modes of eigenvalue zero.

They could jump across every gap between samples.
"""

MOST_FOR_SHAPES = 2_000
"""Samples by which the shapes of the modes are judged."""

SAMPLES_PER_LANDMARK = 4
"""A minimum: samples at landmarks cannot be held out."""

BASES = ("nystrom", "fourier", "representer")
METHODS = ("ritz", "penalized")


class DiffusionMap(EigenfunctionMap):
    r"""Eigenfunctions of the Langevin generator.

    The generator is :math:`L f = -\Delta f - \langle \nabla\log p, \nabla f\rangle`.

    Parameters
    ----------
    n_components : int
        Number of modes, without the constant.
    kernel : str or Kernel
        A name or an object of :mod:`kmc.kernels`.
    bandwidth : {"cv", "median"}, float or sequence of float
        In the units of x; for a kernel object, factors of its own lengths. "cv" compares 1/8, 1/4,
        1/2, 1 and 2 median distances.
    regularization : "cv", float or sequence of float
        ε, in mean eigenvalues of the Dirichlet form; "cv" compares nine values from 1e-10 to 1. The
        λ of the paper for ``method="penalized"``.
    n_basis : int
        Number of landmarks or features p; at most one landmark for four distinct samples.
    basis : {"nystrom", "fourier", "representer"}
        Sections of the kernel at landmarks; random Fourier features; or sections and their
        derivatives at all samples, n (1 + d) functions, for small n.
    landmarks : {"uniform", "pivoted-cholesky", "k-means"} or array_like, shape (m, d)
    score_function : callable or object with ``gradient``, optional
        ∇log p, points (n, d) to (n, d): the target's own or a score estimator (fitted to X if it is
        not fitted yet). Where residuals of L f = λ f on held-out samples confirm them, the
        eigenvalues are those of the generator applied at each sample, which is exact if the
        eigenfunctions are in the basis. Otherwise they are those of the samples alone
        (``cv_results_`` says which).
    normals : callable, optional
        Points (n, d) to unit normals (n, d), or to c orthonormal ones (n, d, c), of a manifold that
        contains the data: only tangential gradients count.
    method : {"ritz", "penalized"}
        "ritz": eigenvalues without the bias of the regularization, and only modes that held-out
        samples confirm. "penalized": the paper's algorithms 1 and 2 and, for
        ``basis="representer"``, its equation 17, to the letter; see the notes.
    tolerance : float
        Cutoff for eigenvalues of the kernel matrix between landmarks, relative to the largest:
        functions below it are left out. Values below 1e-8 let in rounding errors and spurious
        modes.
    random_state : int, Generator or None

    Attributes
    ----------
    eigenvalues_ : ndarray, shape (k,)
        Without the constant's zero, the slowest mode first; in 1 / (unit of x)².
    std_errors_ : ndarray, shape (k,)
        Of the eigenvalues: by jackknife over four folds, half of the difference between the Ritz
        value and the Rayleigh quotient on held-out samples, and, unless a score confirms them, the
        error of an energy to which few samples contribute, the change with the bandwidth, and how
        far functions of the mode stay below its energy.
    n_components_ : int
        Number k of modes that the samples support; zero, with a warning, if there is none.
    spectral_gap_, poincare_constant_ : float
        The smallest eigenvalue, and its inverse; NaN if no mode is supported.
    rank_ : int
        Number of functions used: those of p that the kernel matrix distinguishes, at most one for
        ten samples.
    bandwidth_, regularization_ : float
    kernel_ : Kernel
    landmarks_ : ndarray, shape (m, d)
        None for Fourier features.
    coefficients_ : ndarray, shape (p, k)
        Coefficients of the modes in ``basis_``.
    basis_ : Basis
    score_ : object
        The score that was used, if any.
    cv_results_ : dict of ndarray
        ``bandwidth``, ``regularization``, ``rank``, ``pointwise`` (whether the generator was
        applied at each sample), ``n_modes`` (how many of the requested modes are accepted), the
        ``criterion`` to be maximized, the held-out sum of 1/λ over them (in squared median
        distances), and ``residual``, which decides between nearly equal ones where there is a
        score.
    n_features_in_ : int

    Notes
    -----
    The estimator is that of Pillaud-Vivien and Bach (2023), "Kernelized diffusion maps", algorithms
    1 and 2, with forms by matrix products as in Cabannes and Bach (2023), algorithms 2 and 3.
    Instead of penalized eigenvalues it reports the geometric mean of Ritz values, which are too
    small in the samples that they were fitted to, and of Rayleigh quotients on held-out samples,
    which are too large by as much.

    Time is O(n p²) and memory O(block p + p²) in addition to the samples, for any n: ``fit`` takes
    arrays, memory maps, lists of arrays, dask arrays and iterators of blocks. Landmarks and
    bandwidth are chosen on at most 50,000 random rows (of an iterator, the first ones: shuffle it,
    or give landmarks), then all rows are read once.

    At most one function for ten samples is used, those with the largest eigenvalues of the kernel
    matrix (but at least as many as there are components). A mode is accepted if the relative
    standard error of its eigenvalue is at most 0.2 + 2 / √n, if the eigenvalue agrees within a
    factor of 1.5 with the Rayleigh quotient on held-out samples and with the one in half of the
    functions, and if it lives on twenty samples or more, (Σ f²)² / Σ f⁴, of at most 5,000 (fewer of
    a small sample, or with a score). Samples at landmarks are never held out: kernel sections have
    no gradient at their own center. If fewer than ``n_components`` modes are accepted, fewer are
    returned, with a :class:`kmc.KmcWarning`. If there is none, or if another setting shows a much
    slower one, a warning says that the samples hardly support any.

    A warning names the eigenvalues that are known badly: those with a relative standard error above
    0.33, which may be off by a factor of 1.5 or more. Most are those of narrow wells with few
    samples between them.

    ``method="penalized"`` finds :math:`\Sigma\psi = \mu (L + \lambda I) \psi` with the sums Σ of
    φφᵀ and L of <∇φ, ∇φᵀ> over the samples, neither centered nor divided by n, and as many
    functions as ``n_basis``, up to one for each distinct sample. I is the identity between
    coefficients, as in algorithms 1 and 2, or for ``basis="representer"`` the kernel's norm, as in
    equation 11, where λ is divided by n. ``eigenvalues_`` are 1/μ. The first function approximates
    the constant, so the gap is the second eigenvalue. All ``n_components`` are returned, with mean
    square one over the samples; nothing is chosen or refused, and ``std_errors_`` are NaN. The
    bandwidth is a number or "median", λ a number, and there is no ``score_function``.

    What samples cannot show: regions without samples (samples that are all in one of two wells have
    the spectrum of that well). Densities with exponential tails have a continuous spectrum, and
    those with heavier tails no gap: the values are those of modes that the samples resolve, and
    there is a warning where the slowest mode lives in such a tail.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral import DiffusionMap
    >>> X = np.random.default_rng(0).standard_normal((2000, 2))
    >>> dm = DiffusionMap(n_components=2, n_basis=50, random_state=0).fit(X)
    >>> bool(np.allclose(dm.eigenvalues_, [1.0, 1.0], atol=0.1))
    True
    >>> dm.transform(X).shape
    (2000, 2)
    """

    cv_results_: dict[str, np.ndarray]
    n_components_: int
    std_errors_: np.ndarray

    def __init__(
        self,
        n_components: int = 10,
        kernel: str | Kernel = "gaussian",
        bandwidth: Numbers = "cv",
        regularization: Numbers = "cv",
        n_basis: int = 200,
        basis: str = "nystrom",
        landmarks: Any = "uniform",
        score_function: Any = None,
        normals: Any = None,
        method: str = "ritz",
        tolerance: float = 2e-8,
        random_state: Seed = None,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.n_basis = n_basis
        self.basis = basis
        self.landmarks = landmarks
        self.score_function = score_function
        self.normals = normals
        self.method = method
        self.tolerance = tolerance
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, weights: Any = None) -> Self:
        """Estimate the spectrum.

        Parameters
        ----------
        X : array_like (n, d), memory map, dask array, iterator of blocks (k, d), or list of these
            Samples.
        y : ignored
        weights : array_like (n,), or in blocks as X, optional
            Not negative; only their ratios matter.

        Raises
        ------
        ValueError, TypeError
            Points are not finite, too few or all equal; weights are negative or all zero; or a
            parameter is out of its range.

        Warns
        -----
        KmcWarning
            The samples support fewer modes than ``n_components``, or hardly any; eigenvalues are
            uncertain; or the slowest mode lives in a tail that is exponential or heavier.
        """
        check_section_parameters(self)
        check_choice(self, "basis", BASES)
        check_choice(self, "method", METHODS)
        if self.score_function is not None and self.normals is not None:
            raise ValueError(
                "score_function and normals: give one of them, a generator on a manifold needs "
                "its curvature as well"
            )
        if self.normals is not None and not callable(self.normals):
            raise TypeError(
                f"normals={self.normals!r}: expected None or a callable of points (n, d)"
            )
        penalized = self.method == "penalized"
        if penalized:
            check_number(self, "regularization", 0)
            if self.score_function is not None:
                raise ValueError("score_function: method='penalized' uses none, leave it out")
        regularizations = generator_selection.regularizations(self.regularization)
        rng = as_generator(self.random_state)
        source = open_source(self, X, weights)
        score = self._fit_score(source)
        sample, source = look(source, SELECTION, rng)
        self.n_features_in_ = sample.x.shape[1]
        unit = median_distance(sample.counted())
        if penalized:
            self._fit_penalized(source, sample, rng, regularizations[0])
        else:
            self._fit_ritz(source, sample, rng, regularizations, score, unit)
        self._reach = None if self.landmarks_ is None else Reach.of(self.landmarks_, sample.x, unit)
        return self

    def _fit_ritz(
        self,
        source: Source,
        sample: Sample,
        rng: np.random.Generator,
        regularizations: list[float],
        score: Any,
        unit: float,
    ) -> None:
        """Choose the setting, and judge its modes."""
        search = generator_selection.GeneratorSearch(
            int(self.n_components), regularizations, sample, unit
        )
        seed = int(rng.integers(2**63))  # the same random numbers for all candidates
        for bandwidth in sorted(candidates(self, sample), reverse=True):
            space = self._space(sample, bandwidth, score, np.random.default_rng(seed))
            search.add(space, bandwidth)
        if source.has_more_than(sample):
            search.use_all(source)
        self._keep(search, unit)
        if self.n_components_:
            self._judge(search, sample)

    def schrodinger(self, X: Any, log_density: Any) -> tuple[np.ndarray, np.ndarray]:
        r"""Return eigenpairs of the Schrödinger operator for V = -log p.

        The operator is :math:`-\Delta + |\nabla V|^2/4 - \Delta V/2`. It is conjugate to L: its
        eigenvalues are those of L, and its eigenfunctions :math:`\sqrt{p} f_j`, the ground state
        :math:`\sqrt p` first (Pillaud-Vivien and Bach 2023, section 2.2, whose potential has the
        other sign).

        Parameters
        ----------
        X : array_like, shape (n, d)
            Points at which the eigenfunctions are evaluated.
        log_density : callable, object with ``log_density``, or array_like, shape (n,)
            log p. The functions have norm one on R^d if p is normalized.

        Returns
        -------
        eigenvalues : ndarray, shape (k + 1,)
            Zero first. With ``method="penalized"`` there are k, since the modes begin with the
            constant's.
        functions : ndarray, shape (n, k + 1)
        """
        modes = self._modes_at(X)
        log_p = getattr(log_density, "log_density", log_density)
        log_p = check_vector(
            log_p(np.asarray(X, dtype=float)) if callable(log_p) else log_p,
            len(modes),
            "log_density",
        )
        if self.method == "penalized":  # the constant is among the modes
            return self.eigenvalues_, np.exp(0.5 * log_p)[:, None] * modes
        functions = np.exp(0.5 * log_p)[:, None] * np.column_stack([np.ones(len(modes)), modes])
        return np.append(0.0, self.eigenvalues_), functions

    def _eigenfunctions(self, x: np.ndarray) -> np.ndarray:
        if self._reach is not None:
            self._reach.check(x)
        return super()._eigenfunctions(x)

    def gradient(self, X: Any) -> np.ndarray:
        """Return the gradients (n, k, d) of the eigenfunctions at the rows of X (n, d).

        They are tangential if normals are given.
        """
        gradients = super().gradient(X)
        if self.normals is None:
            return gradients
        normals = orthonormal(self.normals, self._check_points(X))
        return gradients - np.einsum("nkd,ndc,nec->nke", gradients, normals, normals, optimize=True)

    def _space(
        self, sample: Sample, bandwidth: float, score: Any, rng: np.random.Generator
    ) -> TrialSpace:
        """Build the trial functions of one candidate."""
        kernel, points, penalized = (
            kernel_of(self.kernel, bandwidth),
            sample.counted(),
            self.method == "penalized",
        )
        distinct, least = _distinct(points), self.n_components + 2
        if self.basis == "fourier":
            basis, matrix = orthonormal_features(kernel, self.n_basis, points, self.tolerance, rng)
        elif self.basis == "representer":
            basis, matrix = orthonormal_representers(kernel, points, self.tolerance)
        else:
            most = distinct if penalized else max(distinct // SAMPLES_PER_LANDMARK, least)
            centers = draw_landmarks(self, sample, bandwidth, rng, most)
            whitened = whitened_sections(self.kernel, bandwidth, centers, self.tolerance)
            basis, matrix = whitened.basis, whitened.matrix
        if penalized:
            return TrialSpace(
                basis,
                matrix if self.basis == "representer" else np.eye(basis.size),
                None,
                self.normals,
            )
        most = max(distinct // SAMPLES_PER_FUNCTION, least)
        return TrialSpace(basis, matrix[:, :most], score, self.normals)

    def _fit_score(self, source: Source) -> Any:
        """∇log p as a function; an estimator is fitted first if necessary."""
        given = self.score_function
        if given is None:
            return None
        self.score_ = given
        if hasattr(given, "fit") and not getattr(given, "__sklearn_is_fitted__", lambda: True)():
            if not isinstance(source.x, np.ndarray):
                raise ValueError(
                    "score_function is not fitted: fit it first, where X is not an array in memory"
                )
            self.score_ = copy.deepcopy(given).fit(source.x, weights=source.weights)
        gradient = getattr(self.score_, "gradient", self.score_)
        if not callable(gradient):
            raise TypeError(
                f"score_function={given!r}: expected a callable, or an object with a method "
                f"gradient"
            )
        return gradient

    def score(self, X: Any, y: Any = None) -> float:
        """Return the criterion for scikit-learn's model selection.

        It is the sum over modes of variance / mean squared gradient on X. Larger is better; it is
        the held-out criterion for bandwidth and regularization. (A score function, the gradient of
        a log-density, is the parameter ``score_function``.)
        """
        modes, gradients = self._modes_at(X), self.gradient(X)
        return float(np.sum(modes.var(axis=0) / np.mean(np.sum(gradients**2, axis=2), axis=0)))

    def _judge(self, search: generator_selection.GeneratorSearch, sample: Sample) -> None:
        """Add what the shapes of the modes say to the errors of the eigenvalues.

        Also warn of the eigenvalues that are known badly.
        """
        row, judged, space, _ = search.best
        every = -(-len(sample.x) // MOST_FOR_SHAPES)
        x = sample.x[::every]
        weights = np.ones(len(x)) if sample.weights is None else sample.weights[::every]
        modes, squares = super()._eigenfunctions(x), np.sum(self.gradient(x) ** 2, axis=2)
        if not row.pointwise:
            between, change = (
                self.std_errors_ / self.eigenvalues_,
                search.sensitivity()[: self.n_components_],
            )
            known = Uncertainty.of(between, change, modes, squares, weights, len(sample.x) / len(x))
            self.std_errors_ = self.eigenvalues_ * known.total()
            if sentence := known.sentence(self.eigenvalues_):
                warn(
                    sentence
                    + ("" if judged.confirmed() else "; the score does not confirm it either")
                )
        if row.pointwise and space.score is not None:
            no_gap = is_flat(x, modes[:, 0], space.score(x), weights)
        else:
            no_gap = is_heavy(x, modes[:, 0], squares[:, 0], weights)
        if no_gap:
            warn(
                f"the slowest mode (eigenvalue {self.eigenvalues_[0]:.4g}) lives in a tail that is "
                "exponential or heavier: such a density may have no gap, and its eigenvalues fall "
                "as samples are added"
            )

    def _fit_penalized(
        self, source: Source, sample: Sample, rng: np.random.Generator, regularization: float
    ) -> None:
        """Fit the modes of the penalized problem."""
        bandwidth, *others = candidates(self, sample)
        if others:
            raise ValueError(
                f"bandwidth={self.bandwidth!r}: method='penalized' expects a number or 'median'"
            )
        space = self._space(sample, bandwidth, None, rng)
        mu, vectors, rank = penalized_modes(space, source, regularization, int(self.n_components))
        if self.n_components > rank:
            warn(f"n_components={self.n_components}: there are {rank} functions, and so many modes")
        self.means_, self.std_errors_ = np.zeros(len(mu)), np.full(len(mu), np.nan)
        gap = 1.0 / mu[1] if len(mu) > 1 else np.nan  # the first function is the constant's
        self._set(space, vectors, 1.0 / mu, gap, bandwidth, regularization)
        self.rank_, self.cv_results_ = rank, {}

    def _keep(self, search: generator_selection.GeneratorSearch, unit: float) -> None:
        """Set the fitted attributes."""
        row, judged, space, mean = search.best
        hardly = judged.accepted == 0
        judged = judged.first(judged.plausible if hardly else judged.accepted)
        if not judged.accepted:
            warn(
                f"no mode is supported by held-out samples (bandwidth={row.bandwidth:.3g}, rank "
                f"{row.rank}), so there is none: use a wider kernel or more samples"
            )
        elif hardly:
            error = np.max(judged.std_errors / judged.eigenvalues)
            warn(
                f"the samples hardly support a mode: the {judged.accepted} in eigenvalues_ (of "
                f"n_components={self.n_components}) have relative standard errors up to "
                f"{error:.2g} or rest on few samples (rank {row.rank}, bandwidth "
                f"{row.bandwidth:.3g})"
            )
        elif judged.accepted < self.n_components:
            warn(
                f"{judged.accepted} of n_components={self.n_components} modes are supported by the "
                f"samples (rank {row.rank}, bandwidth {row.bandwidth:.3g}): there are no more in "
                "eigenvalues_"
            )
        eigenvalues = judged.eigenvalues / unit**2
        gap = eigenvalues[0] if judged.accepted else np.nan
        self._set(space, judged.modes.vectors, eigenvalues, gap, row.bandwidth, row.regularization)
        self.std_errors_, self.means_ = judged.std_errors / unit**2, mean @ self.coefficients_
        self.rank_, self.cv_results_ = row.rank, search.table()

    def _set(
        self,
        space: TrialSpace,
        vectors: np.ndarray,
        eigenvalues: np.ndarray,
        gap: float,
        bandwidth: float,
        regularization: float,
    ) -> None:
        """Set the attributes of modes with these coefficients (r, k) in a trial space."""
        self.basis_, self.kernel_ = space.basis, kernel_of(self.kernel, bandwidth)
        self.landmarks_ = centers_of(space.basis)
        self.bandwidth_, self.regularization_ = bandwidth, regularization
        coefficients = space.matrix @ vectors
        peak = np.abs(coefficients).argmax(axis=0)
        self.coefficients_ = coefficients * np.sign(coefficients[peak, np.arange(len(peak))])
        self.n_components_, self.eigenvalues_ = len(eigenvalues), eigenvalues
        self.spectral_gap_, self.poincare_constant_ = float(gap), 1.0 / float(gap)


def _distinct(points: np.ndarray) -> int:
    """Return the number of different rows."""
    if len(np.unique(points[:, 0])) == len(points):
        return len(points)
    return len(np.unique(points, axis=0))
