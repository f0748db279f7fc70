"""The estimator of Pillaud-Vivien and Bach (2023), literally: loops over samples, matrix square
roots.
"""

import numpy as np
from scipy import linalg

from kmc.kernels import kernel_derivative


def eigenvalues(kernel, x, weights, landmarks, regularization, count, tolerance, unit):
    """Ritz values in the span of the top eigenvectors of M^-1/2 P M^-1/2, their equation 11 with
    P + L in place of L.

    In sections orthonormal in the kernel's space, and lengths in ``unit``.
    """
    s, v = np.linalg.eigh(kernel_derivative(kernel, "k", landmarks, landmarks))
    whiten = (v / np.sqrt(np.maximum(s, 1e-300)))[:, s > tolerance * s.max()]
    size, total = whiten.shape[1], weights.sum()
    mean, square, energy = np.zeros(size), np.zeros((size, size)), np.zeros((size, size))
    for point, weight in zip(x, weights):
        phi = kernel_derivative(kernel, "k", point[None], landmarks)[0] @ whiten
        gradients = np.einsum(
            "ad,ar->rd", kernel_derivative(kernel, "x", point[None], landmarks)[0], whiten
        )
        mean += weight / total * phi
        square += weight / total * np.outer(phi, phi)
        energy += weight / total * unit**2 * gradients @ gradients.T
    mass = square - np.outer(mean, mean)
    system = energy + mass + regularization * np.trace(energy) / size * np.eye(size)
    root = np.linalg.inv(np.real(linalg.sqrtm(system)))
    _, top = np.linalg.eigh(root @ mass @ root)
    a = root @ top[:, -count:]
    return np.sort(np.real(linalg.eigvals(a.T @ energy @ a, a.T @ mass @ a))) / unit**2


def algorithm_1(x, landmarks, bandwidth, regularization):
    """Algorithm 1, and the functions it ends with: μ descending (p,), and Ψ (p, p); Gaussian
    kernel.

    Ψ_k solves Σ_p Ψ = μ (L_p + λ I_p) Ψ, so that ψ_k = (L_p + λ I_p)^1/2 Ψ_k are orthonormal.
    """
    (n, d), p = x.shape, len(landmarks)
    s, derivatives = np.empty((n, p)), np.empty((n * d, p))
    for i in range(n):
        for a in range(p):
            s[i, a] = np.exp(-np.sum((x[i] - landmarks[a]) ** 2) / (2 * bandwidth**2))
            for j in range(d):
                derivatives[i * d + j, a] = -(x[i, j] - landmarks[a, j]) / bandwidth**2 * s[i, a]
    root = np.linalg.inv(
        np.real(linalg.sqrtm(derivatives.T @ derivatives + regularization * np.eye(p)))
    )
    mu, psi = np.linalg.eigh(root @ s.T @ s @ root)
    return mu[::-1], root @ psi[:, ::-1]


def equation_17(x, bandwidth, regularization):
    """The largest μ of equation 17 (n + n d functions), its sums not divided by n; Gaussian kernel.

    The operators of equation 9 are sums of k_x ⊗ k_x and ∂_j k_x ⊗ ∂_j k_x. With the inner products
    G of all k_x and ∂_j k_x, those of (Σ, L + λ I) have the matrices G E G and G F G + λ G, where E
    and F select the first n functions and the others.
    """
    n, d = x.shape
    size = n + n * d
    inner = np.empty((size, size))
    for i in range(n):
        for j in range(n):
            apart, k = x[i] - x[j], np.exp(-np.sum((x[i] - x[j]) ** 2) / (2 * bandwidth**2))
            rows, columns = slice(n + i * d, n + i * d + d), slice(n + j * d, n + j * d + d)
            inner[i, j] = k
            inner[i, columns], inner[rows, j] = apart / bandwidth**2 * k, -apart / bandwidth**2 * k
            inner[rows, columns] = (
                np.eye(d) / bandwidth**2 - np.outer(apart, apart) / bandwidth**4
            ) * k
    s, v = np.linalg.eigh(inner)
    root = (v * np.sqrt(np.maximum(s, 0.0))) @ v.T  # coordinates in which G is the identity
    sigma, energy = root[:, :n] @ root[:n], root[:, n:] @ root[n:]
    return linalg.eigh(sigma, energy + regularization * np.eye(size), eigvals_only=True)[::-1]
