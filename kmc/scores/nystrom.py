"""The Nyström kernel exponential family: gradients of kernel sections at landmarks as the basis."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.bases import Basis, Contraction, KernelExpansion, KernelGradients
from kmc.bases.base import as_basis
from kmc.checks import is_number, is_whole
from kmc.scores.in_basis import BasisEstimator, check_smooth, draw_landmarks
from kmc.scores.sums import Samples
from kmc.seeds import Seed
from kmc.selection import Kernels, Numbers


class NystromKEF(BasisEstimator):
    r"""Score estimator in gradients of a kernel at landmarks.

    The density is :math:`p \propto q_0\, e^f` with :math:`f = \sum_{a,i} \beta_{(a,i)}\, \partial_i
    k(Y_a, \cdot)` and :math:`\beta = -(\tfrac1n B^\top B + \lambda G)^{-1} h`: theorem 1 (equations
    5 to 9) of Sutherland, Strathmann, Arbel and Gretton (2018), "Efficient and principled score
    estimation with Nyström kernel exponential families". The paper's Gaussian kernel exp(-|x -
    y|²/σ) is kmc's with σ = 2 bandwidth².

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
        The λ of the paper, in (BᵀB/n + λG) β = -h.
    n_basis : int
        Number of landmarks m; all distinct samples if there are fewer.
    landmarks : {"uniform", "pivoted-cholesky", "k-means"} or array_like, shape (m, d)
    components : int, float or sequence of int, optional
        Use only some of the m d components, drawn at random: the total number (the paper's "nyström
        D", with n_basis = n), the probability of each, or the number for each landmark (a sequence
        of m numbers, or of one for all). Default: all.
    base : str, density or list of them
        The q0: "gaussian" and "student-t" are fitted, "uniform" is flat over all space, "auto" is
        one of these, with a covariance that is shrunk as far as it is noise; or an object with
        ``log_density`` and ``gradient``.
    jitter : float or "auto"
        Added to the diagonal of the system; "auto" is 1e-9 of the mean diagonal.
    value_weight : float
        γ of the value terms, when ``fit`` is given values.
    cv : int
        Number of folds for the selection.
    random_state : int, Generator or None
    basis : Basis, optional
        Functions of X in place of the gradients at landmarks, any of :mod:`kmc.bases` or an object
        with ``size``, ``values``, ``gradients`` and ``laplacians``: lemma 4 of the paper. G is its
        ``gram()``, or the identity if that is None. Leave ``n_basis``, ``landmarks`` and
        ``components`` out then; kernel and bandwidth only matter for the choice of an open base
        density.

    Attributes
    ----------
    landmarks_ : ndarray, shape (m, d)
        Without ``basis``; likewise:
    components_ : ndarray of int
        Indices a d + i of the components used.
    coefficients_ : ndarray, shape (len(components_),), or (p,) with a basis of p functions
        β.
    kernel_, bandwidth_, regularization_, base_density_
        The chosen ones.
    cv_results_ : dict of ndarray
        The candidates (kernel, bandwidth, base, penalty, regularization), their held-out
        ``objective`` and its ``std_error``; empty if there was nothing to choose.
    n_features_in_, n_samples_seen_ : int

    Notes
    -----
    What is "auto" is chosen before the fit, all of it together, by the held-out objective of fits
    in 40 kernel sections to a third of the samples (300 to 2,000), in four folds. Something other
    than a Gaussian kernel with the median distance and a Gaussian base has to be better by half a
    standard error. These are what "auto" means for fewer than 60 samples, with values, with a
    number as regularization, and in samplers, which whiten their states.

    Assembly takes O(n m² d²) time in blocks of bounded memory, the solution O(m³ d³) for each
    regularization and fold, memory O(m² d²). With 500 functions or more, regularizations are tried
    from the largest on, and those that are far too small are left out (NaN in ``cv_results_``).

    In a stream, a block's forms are added to the earlier ones, O(block) work, and the system is
    solved again once the stream has grown by 5 % since the last time; landmarks, bandwidth,
    regularization and base density are chosen again when it has doubled, from all of its samples,
    which are kept in O(n d) memory. So the work per sample does not grow with their number, on
    average between two doublings; in :class:`FiniteKEF`, whose features do not follow the samples,
    not for a single block either, except where the system is solved.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.scores import NystromKEF
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> estimator = NystromKEF(n_basis=20, base="uniform", random_state=0).fit(X)
    >>> bool(np.abs(estimator.gradient([[1.0, 0.0]]) - [[-1.0, 0.0]]).max() < 0.3)
    True

    A normal distribution in polynomials of degree two, up to the penalty:

    >>> from kmc.bases import Monomials
    >>> quadratic = NystromKEF(basis=Monomials(2, 2), base="uniform", regularization=1e-6).fit(X)
    >>> bool(np.abs(quadratic.gradient([[1.0, 0.0]]) - [[-1.0, 0.0]]).max() < 0.2)
    True
    """

    def __init__(
        self,
        kernel: Kernels = "auto",
        bandwidth: Numbers = "auto",
        regularization: Numbers = "cv",
        n_basis: int = 100,
        landmarks: Any = "uniform",
        components: Any = None,
        base: Any = "auto",
        jitter: Any = "auto",
        value_weight: float = 1.0,
        cv: int = 5,
        random_state: Seed = None,
        basis: Any = None,
    ):
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.n_basis = n_basis
        self.landmarks = landmarks
        self.components = components
        self.base = base
        self.jitter = jitter
        self.value_weight = value_weight
        self.cv = cv
        self.random_state = random_state
        self.basis = basis

    @property
    def _basis_follows_data(self) -> bool:  # type: ignore[override]
        return self.basis is None

    def _read(self, x: np.ndarray, values: Any, weights: Any) -> Samples:
        samples = super()._read(x, values, weights)
        # functions of X itself
        return samples if self.basis is None else samples._replace(center=np.zeros(x.shape[1]))

    def _draw(self, samples: Samples, kernel: Any, rng: np.random.Generator) -> None:
        if self.basis is not None:
            uniform = isinstance(self.landmarks, str) and self.landmarks == "uniform"
            defaults = {
                "n_basis": self.n_basis == 100,
                "landmarks": uniform,
                "components": self.components is None,
            }
            for name, default in defaults.items():
                if not default:
                    raise ValueError(
                        f"{name}={getattr(self, name)!r} has no effect with a basis: leave it out"
                    )
            return
        draw_landmarks(self, samples, kernel, rng)
        self.components_ = draw_components(
            self.components, len(self.landmarks_), self.n_features_in_, rng
        )

    def _basis(self, kernel: Any) -> Basis:
        if self.basis is not None:
            return as_basis(self.basis, needs=("values", "gradients", "laplacians"))
        check_smooth(kernel, 3)
        components = None if len(self.components_) == self.landmarks_.size else self.components_
        return KernelGradients(kernel, self.landmarks_ - self.center_, components)

    def _penalties(self, basis: Any) -> dict[str, np.ndarray]:
        gram = basis.gram()
        return {"norm": np.eye(basis.size) if gram is None else gram}

    def _function(self, basis: Any, coefficients: np.ndarray) -> KernelExpansion | Contraction:
        if self.basis is not None:
            return Contraction(basis, coefficients)
        gradients = np.zeros(basis.centers.size)
        gradients[self.components_] = coefficients
        gradients = gradients.reshape(basis.centers.shape)
        used = np.any(gradients != 0.0, axis=1)
        # f = 0, from a kernel so narrow that its derivatives vanish at the samples, needs a term
        # too
        used[0] = True
        return KernelExpansion(basis.kernel, basis.centers[used], gradients=gradients[used])


def draw_components(components: Any, m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the sorted indices a d + i of the components that are used.

    Sutherland et al. (2018), section 3, "Dimension subsampling"; its [n] × [d] is [m] × [d].

    Parameters
    ----------
    components : int, float, sequence of int or None
        The total number; the probability of each, in (0, 1]; the number for each landmark, a
        sequence of m numbers, or of one number for all; None for all components.
    m, d : int
        Number of landmarks, and dimension.
    rng : Generator
    """
    if components is None:
        return np.arange(m * d)
    if isinstance(components, (bool, str, np.timedelta64)):
        raise TypeError(f"components={components!r}: {_expected(m, d)}")
    if is_whole(components):
        if not components >= 1:
            raise ValueError(f"components={components!r}: {_expected(m, d)}")
        return np.sort(rng.choice(m * d, min(int(components), m * d), replace=False))
    if is_number(components):
        if not 0 < components <= 1:
            raise ValueError(f"components={components!r}: {_expected(m, d)}")
        chosen = np.flatnonzero(rng.random(m * d) < components)
        return chosen if len(chosen) else rng.integers(m * d, size=1)
    try:
        counts = np.atleast_1d(np.asarray(components))
    except (TypeError, ValueError) as error:  # for example lists of unequal length
        raise ValueError(f"components={components!r}: {_expected(m, d)}") from error
    if counts.shape not in ((1,), (m,)) or counts.dtype.kind not in "iu":
        raise ValueError(f"components={components!r}: {_expected(m, d)}")
    if counts.min() < 0 or counts.max() > d or counts.max() == 0:
        raise ValueError(f"components={components!r}: {_expected(m, d)}")
    order = np.argsort(rng.random((m, d)), axis=1)
    kept = np.argsort(order, axis=1) < np.broadcast_to(counts, m)[:, None]
    return np.flatnonzero(kept.ravel())


def _expected(m, d):
    return (
        f"expected a count from 1 to {m * d} of components, a probability in (0, 1], or the number "
        f"for each landmark: a sequence of {m} whole numbers (or of one) between 0 and {d}, not "
        "all of them zero"
    )
