"""Estimators of the score function ∇ log p, and of the unnormalized log-density, from samples."""

from kmc.scores.autoencoder import DenoisingAutoencoder
from kmc.scores.full import FullKEF
from kmc.scores.gaussian import GaussianScore
from kmc.scores.lite_and_finite import FiniteKEF, LiteKEF
from kmc.scores.nystrom import NystromKEF

__all__ = ["DenoisingAutoencoder", "FiniteKEF", "FullKEF", "GaussianScore", "LiteKEF", "NystromKEF"]
