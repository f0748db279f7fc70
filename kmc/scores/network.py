"""The two-layer network of the denoising autoencoder: its reconstruction, the score it implies, and its loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kmc import jitted
from kmc.njit import njit

_BLOCK = 512  # rows of a loss at a time: their codes fit in the cache


class Network(NamedTuple):
    """r(z) = decoder tanh(encoder z + code_bias) + bias, a map of R^d to itself."""

    encoder: np.ndarray  # (h, d)
    code_bias: np.ndarray  # (h,)
    decoder: np.ndarray  # (d, h): the encoder's transpose if the weights are tied
    bias: np.ndarray  # (d,)

    def code(self, z: np.ndarray) -> np.ndarray:
        """tanh(encoder z + code_bias) at the rows of z (n, d), shape (n, h)."""
        code = z @ self.encoder.T
        code += self.code_bias
        return np.tanh(code, out=code)


@dataclass(frozen=True, eq=False)
class Denoiser:
    r"""The score field of a denoising autoencoder, in the units of x.

    A network r that reconstructs z = (x - center) / scale from z plus noise of standard deviation σ / scale has
    (scale r(z) + center - x) / σ² near ∇ log p(x), and (tr ∇r(z) - d) / σ² near Δ log p(x) (Alain and Bengio 2014,
    theorem 1).

    If its weights are tied, that field is the gradient of

    .. math:: \frac{s^2}{\sigma^2} \Bigl(\sum_j \log\cosh(w_j \cdot z + b_j) + c \cdot z - \tfrac12 |z|^2\Bigr)

    with encoder w, code bias b, bias c and scale s. Otherwise it is in general not a gradient.
    """

    network: Network
    center: np.ndarray  # (d,)
    scale: float
    noise: float  # σ
    tied: bool

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n,), or a ValueError if the weights are not tied."""
        if not self.tied:
            raise ValueError(
                "log_density: the field of an autoencoder with tied=False is not a gradient, so it has no "
                "density; use DenoisingAutoencoder(tied=True), or only gradient, laplacian and objective"
            )
        z = self._standard(x)
        inner = np.abs(z @ self.network.encoder.T + self.network.code_bias)
        potential = np.sum(inner + np.log1p(np.exp(-2.0 * inner)) - np.log(2.0), axis=1)  # log cosh
        potential += z @ self.network.bias - 0.5 * np.einsum("ij,ij->i", z, z)
        return (self.scale / self.noise) ** 2 * potential

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """(n, d)."""
        z = self._standard(x)
        r = self.network.code(z) @ self.network.decoder.T
        return (r + self.network.bias - z) * (self.scale / self.noise**2)

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """Return the divergence of the field, (Σ_j (1 - tanh²) <decoder_j, encoder_j> - d) / σ², shape (n,)."""
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
    """Random weights that neither saturate the code of standardized points nor expand them in decoding."""
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
    encoder, rest = parameters[: n_hidden * dim].reshape(n_hidden, dim), parameters[n_hidden * dim :]
    decoder = encoder.T if tied else rest[n_hidden:-dim].reshape(dim, n_hidden)
    return Network(encoder, rest[:n_hidden], decoder, rest[-dim:])


def loss(
    parameters: np.ndarray, corrupted: np.ndarray, clean: np.ndarray, weights: np.ndarray, tied: bool
) -> tuple[float, np.ndarray]:
    """Σ_b w_b |r(corrupted_b) - clean_b|² and its gradient in the parameters.

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
    """A :class:`Denoiser` inside jitted loops: the value is the log-density if the weights are tied, and 0 if not."""

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
