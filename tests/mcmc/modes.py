"""Targets with several modes."""

import numpy as np
from scipy.special import logsumexp


class Mixture:
    """Spherical normal distributions with given weights, centers and widths."""

    def __init__(self, weights, centers, widths):
        self.centers, self.widths = np.array(centers, float), np.array(widths, float)
        self.weights = np.array(weights)
        self.dim = self.centers.shape[1]
        self.n = 0

    def parts(self, x):
        squares = np.sum((np.asarray(x)[..., None, :] - self.centers) ** 2, axis=-1)
        return np.log(self.weights) - self.dim * np.log(self.widths) - 0.5 * squares / self.widths**2

    def __call__(self, x):
        self.n += 1
        return float(logsumexp(self.parts(x)))

    def labels(self, x):
        return np.argmax(self.parts(x), axis=-1)


def far(dim, weights=(0.3, 0.7), widths=(1.0, 1.0), apart=12.0):
    center = 0.5 * apart * np.ones(dim) / np.sqrt(dim)
    return Mixture(weights, [center, -center], widths)


def starts(target, rng, per_mode=2):
    rows = [c + w * rng.standard_normal((per_mode, target.dim)) for c, w in zip(target.centers, target.widths)]
    return np.vstack(rows)
