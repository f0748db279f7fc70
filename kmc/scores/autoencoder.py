"""The denoising autoencoder, a neural baseline of the kernel score estimators, and its network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

from kmc import jitted
from kmc.arrays import as_array
from kmc.checks import check_count
from kmc.njit import njit
from kmc.scores.base import REFIT_GROWTH, ScoreEstimator
from kmc.scores.sums import Samples
from kmc.seeds import Seed, as_generator
from kmc.selection import Search, folds_of

LEVELS = (100.0, 10.0, 1.0)
"""Noise levels of the training, in this order, in units of the final noise σ."""

NOISES = (0.02, 0.05, 0.1, 0.2, 0.5)
"""Candidates of ``noise="cv"``, in units of the columns' root-mean-square standard deviation."""

AUTOMATIC = 0.5
"""``noise="auto"``, in the same units. With 500 samples of N(0, I2) the squared error is .06 of the
score's mean square (.48 at .2, 4.6 at .1), and .3 of it for N(0, I10).
"""

HIDDEN = (10, 30, 100)
"""Candidates of ``n_hidden="cv"``."""

_BLOCK = 512  # rows of a loss at a time: their codes fit in the cache
_MOST = 1e100  # largest noise: its square and the inverse of that do not overflow


class DenoiserCandidate(NamedTuple):
    """A setting that is compared; the fields are columns of the table."""

    n_hidden: Any
    noise: Any


class DenoisingAutoencoder(ScoreEstimator):
    r"""Score estimator by a network that is trained to remove noise from the samples.

    The network has two layers, a code of tanh units and a linear decoder, :math:`r(x) = W_2
    \tanh(W_1 x + b_1) + b_2`, and minimizes :math:`E |r(x + \sigma\varepsilon) - x|^2` for standard
    normal ε. Then (r(x) - x)/σ² estimates the score (Alain and Bengio 2014, "What regularized
    auto-encoders learn from the data-generating distribution", theorem 1). It is trained by L-BFGS
    with noise 100 σ, 10 σ and σ in turn, each time from the previous weights: the baseline in
    section 5 of Sutherland, Strathmann, Arbel and Gretton (2018).

    Parameters
    ----------
    n_hidden : int, "cv" or sequence of int
        Size of the code. "cv" compares 10, 30 and 100.
    noise : float, "auto", "cv" or sequence of float
        σ, in the units of X and the same for all columns: standardize columns with different units
        first. It acts like a bandwidth, and matters as much: a good value is the width of the
        narrowest structure, or a little less. "auto" is half the root mean square of the columns'
        standard deviations, "cv" compares .02, .05, .1, .2 and .5 of it.
    max_iter : int
        Iterations of L-BFGS at each of the three levels of noise.
    n_corruptions : int
        Number of noisy copies of each sample, drawn once for each level, in pairs of noise ε and
        -ε.
    tied : bool
        Whether :math:`W_2 = W_1^\top`. Then the estimate is the gradient of a function, and
        ``log_density`` exists; otherwise the network is more flexible, ``log_density`` raises a
        ValueError, and ``gradient``, ``laplacian`` (the divergence of the field), ``objective`` and
        ``score`` are available.
    cv : int
        Number of folds for the selection, which compares the held-out score-matching objective.
    random_state : int, Generator or None

    Attributes
    ----------
    density_ : Denoiser
        The trained network.
    n_hidden_, noise_
        The chosen ones.
    cv_results_ : dict of ndarray
        The candidates (n_hidden, noise), their held-out ``objective`` and its ``std_error`` over
        folds; empty if there was nothing to choose.
    loss_ : float
        Mean of :math:`|r(x + \sigma\varepsilon) - x|^2 / \sigma^2` over the noisy copies at the
        end. For a network that returns its input, this is d.
    n_iter_ : int
        Iterations of L-BFGS, over the three levels.
    n_features_in_, n_samples_seen_ : int

    Notes
    -----
    All samples of a stream are kept, O(n d) memory: when they have grown by 5 % since the last
    training, training continues from the current weights, with noise σ only and on all samples so
    far; when they have doubled, everything is redone, including the choice of ``n_hidden`` and
    ``noise``.

    An iteration takes 6 n n_corruptions n_hidden d multiplications and one tanh per code unit; a
    selection trains once for each candidate and fold, and once more.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.scores import DenoisingAutoencoder
    >>> X = np.random.default_rng(0).standard_normal((300, 1))
    >>> estimator = DenoisingAutoencoder(n_hidden=5, noise=0.3, max_iter=100, random_state=0).fit(X)
    >>> bool(np.abs(estimator.gradient([[1.0], [-1.0]]) - [[-1.0], [1.0]]).max() < 0.3)
    True
    """

    density_: Denoiser
    _n_fitted: int  # samples at the last fit, and at the last training
    _n_trained: int

    def __init__(
        self,
        n_hidden: Any = 100,
        noise: Any = "auto",
        max_iter: int = 1000,
        n_corruptions: int = 10,
        tied: bool = False,
        cv: int = 5,
        random_state: Seed = None,
    ):
        self.n_hidden = n_hidden
        self.noise = noise
        self.max_iter = max_iter
        self.n_corruptions = n_corruptions
        self.tied = tied
        self.cv = cv
        self.random_state = random_state

    def _fit(self, samples: Samples) -> None:
        self._check_parameters()
        self._seen, self._rng = _counted(samples), as_generator(self.random_state)
        self._fit_seen()

    def _extend(self, block: Samples) -> None:
        self._seen = self._seen.joined(_counted(block))
        if self.n_samples_seen_ >= 2 * self._n_fitted:
            self._fit_seen()
        elif self.n_samples_seen_ >= REFIT_GROWTH * self._n_trained:
            self._n_trained = self.n_samples_seen_
            self._set(*self._train(self._seen, self.n_hidden_, self.noise_, self.density_))

    def jit_state(self) -> DenoiserState:
        """Return the estimate for jitted loops, see :mod:`kmc.jitted`.

        Its value is 0 everywhere if ``tied=False``.
        """
        self._check_fitted()
        return self.density_.state()

    def _check_parameters(self):
        for name, least in (("max_iter", 1), ("n_corruptions", 1), ("cv", 2)):
            check_count(self, name, least)
        if not isinstance(self.tied, (bool, np.bool_)):
            raise TypeError(f"tied={self.tied!r}: expected True or False")

    def _fit_seen(self):
        """Fit to all samples seen."""
        self._n_fitted = self._n_trained = self.n_samples_seen_
        self._choose(self._seen)
        self._set(*self._train(self._seen, self.n_hidden_, self.noise_))

    def _choose(self, samples):
        """Set ``n_hidden_``, ``noise_`` and ``cv_results_``."""
        candidates = [
            DenoiserCandidate(h, s)
            for h in _sizes(self.n_hidden)
            for s in _noises(self.noise, samples)
        ]
        search = Search()
        if len(candidates) > 1:
            folds = folds_of(len(samples.x), self.cv, self._rng)
            for candidate in candidates:
                search.add(
                    candidate,
                    np.array([[self._held_out(samples, fold, *candidate)] for fold in folds]),
                )
        self.cv_results_ = search.table()
        self.n_hidden_, self.noise_ = search.best() if len(candidates) > 1 else candidates[0]

    def _held_out(self, samples, fold, n_hidden, noise):
        rest = np.setdiff1d(np.arange(len(samples.x)), fold)
        density, _, _ = self._train(samples.take(rest), n_hidden, noise)
        part = samples.take(fold)
        gradient = density.gradient(part.x)
        objective = density.laplacian(part.x) + 0.5 * np.einsum("ij,ij->i", gradient, gradient)
        return float(part.weights @ objective / part.weights.sum())

    def _train(self, samples, n_hidden, noise, start: Denoiser | None = None):
        """Return (Denoiser, loss, iterations).

        If ``start`` is given, only the last level is trained, from it.
        """
        dim = samples.x.shape[1]
        if start is None:
            center, scale = _center_and_scale(self._seen)
            network = initial(dim, n_hidden, self.tied, self._rng)
        else:
            center, scale, network = start.center, start.scale, start.network
        clean, weights = (samples.x - center) / scale, samples.weights / samples.weights.sum()
        parameters, iterations = flatten(network, self.tied), 0
        for level in LEVELS if start is None else LEVELS[-1:]:
            parameters, value, count = self._descend(
                parameters, clean, weights, level * noise / scale
            )
            iterations += count
        return (
            Denoiser(unflatten(parameters, dim, self.tied), center, scale, noise, self.tied),
            value,
            iterations,
        )

    def _descend(self, parameters, clean, weights, noise):
        """Minimize the loss in units of the noise by L-BFGS: its value is near d for any noise."""
        k = self.n_corruptions
        half = self._rng.standard_normal(((k + 1) // 2, *clean.shape))
        noises = np.concatenate([half, -half])[:k]
        corrupted = (clean + noise * noises).reshape(-1, clean.shape[1])
        repeated, shares = np.tile(clean, (k, 1)), np.tile(weights / (k * noise**2), k)
        found = optimize.minimize(
            loss,
            parameters,
            args=(corrupted, repeated, shares, self.tied),
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": self.max_iter,
                "maxfun": 2 * self.max_iter + 20,
                "ftol": 1e-12,
                "gtol": 1e-9,
            },
        )
        return found.x, float(found.fun), int(found.nit)

    def _set(self, density, value, iterations):
        if not np.isfinite(value):
            raise ValueError(
                f"noise={self.noise_:g}: the training diverged to a loss of {value}, because the "
                f"noise is too far from the scale of the samples, {density.scale:g}"
            )
        self.density_, self.loss_, self.n_iter_ = density, value, iterations


def _counted(samples):
    """Return the samples of positive weight."""
    return samples.take(samples.weights > 0)


def _center_and_scale(samples):
    share = samples.weights / samples.weights.sum()
    center = share @ samples.x
    r = samples.x - center
    return center, float(np.sqrt(share @ np.einsum("ij,ij->i", r, r) / samples.x.shape[1]))


def _sizes(n_hidden):
    expected = "expected 'cv', a whole number of at least 1 or a sequence of them"
    if isinstance(n_hidden, str):
        if n_hidden != "cv":
            raise ValueError(f"n_hidden={n_hidden!r}: {expected}")
        return list(HIDDEN)
    try:
        sizes = np.atleast_1d(np.asarray(n_hidden))
    except (TypeError, ValueError) as error:  # for example lists of unequal length
        raise TypeError(f"n_hidden={n_hidden!r}: {expected}") from error
    if sizes.ndim != 1 or not sizes.size or sizes.dtype.kind not in "iu":
        raise TypeError(f"n_hidden={n_hidden!r}: {expected}")
    if np.any(sizes < 1):
        raise ValueError(f"n_hidden={n_hidden!r}: {expected}")
    return [int(size) for size in sizes]


def _noises(noise, samples):
    expected = "expected 'auto', 'cv', a positive finite number or a sequence of them"
    if isinstance(noise, str):
        if noise not in ("auto", "cv"):
            raise ValueError(f"noise={noise!r}: {expected}")
        scale = _center_and_scale(samples)[1]
        return [factor * scale for factor in (NOISES if noise == "cv" else (AUTOMATIC,))]
    try:
        noises = np.atleast_1d(as_array("noise", noise))
    except (TypeError, ValueError) as error:
        raise TypeError(f"noise={noise!r}: {expected}") from error
    if noises.ndim != 1 or not noises.size or noise is None or isinstance(noise, bool):
        raise TypeError(f"noise={noise!r}: {expected}")
    if not np.all((noises >= 1 / _MOST) & (noises <= _MOST)):
        raise ValueError(f"noise={noise!r}: {expected} between {1 / _MOST:g} and {_MOST:g}")
    return [float(sigma) for sigma in noises]


class Network(NamedTuple):
    """r(z) = decoder tanh(encoder z + code_bias) + bias, a map of R^d to itself."""

    encoder: np.ndarray  # (h, d)
    code_bias: np.ndarray  # (h,)
    decoder: np.ndarray  # (d, h): the encoder's transpose if the weights are tied
    bias: np.ndarray  # (d,)

    def code(self, z: np.ndarray) -> np.ndarray:
        """Return tanh(encoder z + code_bias) at the rows of z (n, d), shape (n, h)."""
        code = z @ self.encoder.T
        code += self.code_bias
        return np.tanh(code, out=code)


@dataclass(frozen=True, eq=False)
class Denoiser:
    r"""The score field of a denoising autoencoder, in the units of x.

    A network r that reconstructs z = (x - center) / scale from z plus noise of standard deviation σ
    / scale has (scale r(z) + center - x) / σ² near ∇ log p(x), and (tr ∇r(z) - d) / σ² near Δ log
    p(x) (Alain and Bengio 2014, theorem 1).

    If its weights are tied, that field is the gradient of

    .. math:: \frac{s^2}{\sigma^2}
        \Bigl(\sum_j \log\cosh(w_j \cdot z + b_j) + c \cdot z - \tfrac12 |z|^2\Bigr)

    with encoder w, code bias b, bias c and scale s. Otherwise it is in general not a gradient.
    """

    network: Network
    center: np.ndarray  # (d,)
    scale: float
    noise: float  # σ
    tied: bool

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return log-densities, (n,); raise a ValueError if the weights are not tied."""
        if not self.tied:
            raise ValueError(
                "log_density: the field of an autoencoder with tied=False is not a gradient, so it "
                "has no density; use DenoisingAutoencoder(tied=True), or only gradient, laplacian "
                "and objective"
            )
        z = self._standard(x)
        inner = np.abs(z @ self.network.encoder.T + self.network.code_bias)
        potential = np.sum(inner + np.log1p(np.exp(-2.0 * inner)) - np.log(2.0), axis=1)  # log cosh
        potential += z @ self.network.bias - 0.5 * np.einsum("ij,ij->i", z, z)
        return (self.scale / self.noise) ** 2 * potential

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradients, (n, d)."""
        z = self._standard(x)
        r = self.network.code(z) @ self.network.decoder.T
        return (r + self.network.bias - z) * (self.scale / self.noise**2)

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """Return the field's divergence (n,), (Σ_j (1 - tanh²) <decoder_j, encoder_j> - d) / σ²."""
        slopes = 1.0 - self.network.code(self._standard(x)) ** 2
        along = np.einsum("hd,dh->h", self.network.encoder, self.network.decoder)
        return (slopes @ along - x.shape[1]) / self.noise**2

    def state(self) -> DenoiserState:
        """Return the field for jitted loops."""
        network = Network(*(np.ascontiguousarray(array) for array in self.network))
        return DenoiserState(*network, self.center, self.scale, self.noise, self.tied)

    def _standard(self, x):
        return (x - self.center) / self.scale


def initial(dim: int, n_hidden: int, tied: bool, rng: np.random.Generator) -> Network:
    """Draw random weights for standardized points.

    They neither saturate the code of such points nor expand the points in decoding.
    """
    if tied:
        encoder = rng.standard_normal((n_hidden, dim)) / np.sqrt(max(n_hidden, dim))
        return Network(encoder, np.zeros(n_hidden), encoder.T, np.zeros(dim))
    encoder = rng.standard_normal((n_hidden, dim)) / np.sqrt(dim)
    decoder = rng.standard_normal((dim, n_hidden)) / np.sqrt(n_hidden)
    return Network(encoder, np.zeros(n_hidden), decoder, np.zeros(dim))


def flatten(network: Network, tied: bool) -> np.ndarray:
    """Return the parameters of a network as one vector, without the decoder if it is tied."""
    arrays = (network.encoder, network.code_bias, network.bias) if tied else network
    return np.concatenate([array.ravel() for array in arrays])


def unflatten(parameters: np.ndarray, dim: int, tied: bool) -> Network:
    """Return the network of a vector of parameters; its arrays are views of the vector."""
    n_hidden = (len(parameters) - dim) // (dim + 1 if tied else 2 * dim + 1)
    encoder, rest = (
        parameters[: n_hidden * dim].reshape(n_hidden, dim),
        parameters[n_hidden * dim :],
    )
    decoder = encoder.T if tied else rest[n_hidden:-dim].reshape(dim, n_hidden)
    return Network(encoder, rest[:n_hidden], decoder, rest[-dim:])


def loss(
    parameters: np.ndarray,
    corrupted: np.ndarray,
    clean: np.ndarray,
    weights: np.ndarray,
    tied: bool,
) -> tuple[float, np.ndarray]:
    """Return Σ_b w_b |r(corrupted_b) - clean_b|² and its gradient in the parameters.

    Parameters
    ----------
    parameters : ndarray
        See :func:`flatten`.
    corrupted, clean : ndarray, shape (n, d)
    weights : ndarray, shape (n,)
    tied : bool
    """
    network = unflatten(parameters, clean.shape[1], tied)
    total, slope = 0.0, np.zeros_like(parameters)
    into = unflatten(slope, clean.shape[1], tied)
    decoder = np.zeros(network.decoder.shape)
    for start in range(0, len(clean), _BLOCK):
        part = slice(start, start + _BLOCK)
        code = network.code(corrupted[part])
        residual = code @ network.decoder.T
        residual += network.bias
        residual -= clean[part]
        weighted = weights[part, None] * residual
        total += np.vdot(weighted, residual)
        weighted *= 2.0
        decoder += weighted.T @ code
        into.bias[:] += weighted.sum(axis=0)
        code *= code
        np.subtract(1.0, code, out=code)  # the derivative of tanh
        code *= weighted @ network.decoder
        into.code_bias[:] += code.sum(axis=0)
        into.encoder[:] += code.T @ corrupted[part]
    into.decoder[:] += decoder  # if tied, this is a view of the encoder
    return float(total), slope


class DenoiserState(NamedTuple):
    """A :class:`Denoiser` inside jitted loops.

    The value is the log-density if the weights are tied, and 0 if not.
    """

    encoder: np.ndarray  # (h, d)
    code_bias: np.ndarray  # (h,)
    decoder: np.ndarray  # (d, h)
    bias: np.ndarray  # (d,)
    center: np.ndarray  # (d,)
    scale: float
    noise: float
    tied: bool


@njit()
def _workspace(state):
    h, d = state.encoder.shape
    return np.empty((2, d)), np.empty(h)


@njit()
def _value_and_gradient(state, x, gradient, work):
    vectors, code = work
    z, r = vectors[0], vectors[1]
    for i in range(x.size):
        z[i] = (x[i] - state.center[i]) / state.scale
    np.dot(state.encoder, z, code)
    value = 0.0
    for j in range(code.size):
        inner = code[j] + state.code_bias[j]
        fading = np.exp(-2.0 * abs(inner))
        slope = (1.0 - fading) / (1.0 + fading)
        code[j] = slope if inner > 0.0 else -slope
        if state.tied:
            value += abs(inner) + np.log1p(fading) - np.log(2.0)
    np.dot(state.decoder, code, r)
    for i in range(x.size):
        value += z[i] * (state.bias[i] - 0.5 * z[i])
        gradient[i] = (r[i] + state.bias[i] - z[i]) * (state.scale / state.noise**2)
    return value * (state.scale / state.noise) ** 2 if state.tied else 0.0


jitted.register(DenoiserState, _workspace, _value_and_gradient)
