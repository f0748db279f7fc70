"""Likelihoods of data given a simulator's outputs: ``kmc.Model(simulator=..., likelihood=...)``."""

from kmc.likelihoods.base import Likelihood
from kmc.likelihoods.continuous import LogNormal, MultivariateNormal, Normal, StudentT
from kmc.likelihoods.counts import Bernoulli, Binomial, NegativeBinomial, Poisson
from kmc.likelihoods.custom import Custom

__all__ = [
    "Bernoulli",
    "Binomial",
    "Custom",
    "Likelihood",
    "LogNormal",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "Poisson",
    "StudentT",
]
