"""The denoising autoencoder one number at a time: Alain and Bengio (2014), theorem 1, with the
network of paper 004.
"""

from __future__ import annotations

import math


def reconstruction(z, encoder, code_bias, decoder, bias):
    """r(z) = W2 tanh(W1 z + b1) + b2, a list of d numbers."""
    dim, n_hidden = len(z), len(code_bias)
    code = [
        math.tanh(sum(encoder[j][i] * z[i] for i in range(dim)) + code_bias[j])
        for j in range(n_hidden)
    ]
    return [sum(decoder[i][j] * code[j] for j in range(n_hidden)) + bias[i] for i in range(dim)]


def loss(corrupted, clean, weights, *network):
    """Σ_b w_b |r(corrupted_b) - clean_b|²."""
    total = 0.0
    for noisy, x, w in zip(corrupted, clean, weights):
        total += w * sum((a - b) ** 2 for a, b in zip(reconstruction(noisy, *network), x))
    return total


def score(x, noise, center, scale, *network):
    """(r(x) - x) / σ², where the network sees z = (x - center) / scale and its output is scaled
    back.
    """
    z = [(a - c) / scale for a, c in zip(x, center)]
    return [
        (c + scale * r - a) / noise**2 for a, c, r in zip(x, center, reconstruction(z, *network))
    ]


def log_density(x, noise, center, scale, encoder, code_bias, bias):
    """(Σ_j log cosh(w_j z + b_j) + c z - |z|²/2) scale² / σ², for tied weights."""
    z = [(a - c) / scale for a, c in zip(x, center)]
    total = 0.0
    for w, b in zip(encoder, code_bias):
        total += math.log(math.cosh(sum(wi * zi for wi, zi in zip(w, z)) + b))
    total += sum(c * zi - 0.5 * zi * zi for c, zi in zip(bias, z))
    return total * scale**2 / noise**2
