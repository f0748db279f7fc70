"""The estimator of Pillaud-Vivien and Bach (2023), literally: loops over samples, matrix square roots."""

import numpy as np
from scipy import linalg

from kmc.kernels import kernel_derivative


def eigenvalues(kernel, x, weights, landmarks, regularization, count, tolerance, unit):
    """Ritz values in the span of the top eigenvectors of M^-1/2 P M^-1/2, their equation 11 with P + L in place of L.

    In sections orthonormal in the kernel's space, and lengths in ``unit``.
    """
    s, v = np.linalg.eigh(kernel_derivative(kernel, "k", landmarks, landmarks))
    whiten = (v / np.sqrt(np.maximum(s, 1e-300)))[:, s > tolerance * s.max()]
    size, total = whiten.shape[1], weights.sum()
    mean, square, energy = np.zeros(size), np.zeros((size, size)), np.zeros((size, size))
    for point, weight in zip(x, weights):
        phi = kernel_derivative(kernel, "k", point[None], landmarks)[0] @ whiten
        gradients = np.einsum("ad,ar->rd", kernel_derivative(kernel, "x", point[None], landmarks)[0], whiten)
        mean += weight / total * phi
        square += weight / total * np.outer(phi, phi)
        energy += weight / total * unit**2 * gradients @ gradients.T
    mass = square - np.outer(mean, mean)
    system = energy + mass + regularization * np.trace(energy) / size * np.eye(size)
    root = np.linalg.inv(np.real(linalg.sqrtm(system)))
    _, top = np.linalg.eigh(root @ mass @ root)
    a = root @ top[:, -count:]
    return np.sort(np.real(linalg.eigvals(a.T @ energy @ a, a.T @ mass @ a))) / unit**2
