"""Targets with several modes, and searches for them without a run."""

from types import SimpleNamespace

import numpy as np
from scipy.special import logsumexp

from kmc.mcmc.base import SamplerSetup
from kmc.mcmc.history import GIVEN, History
from kmc.mcmc.modes import ModeSearch
from kmc.mcmc.proposal_mixture import ProposalMixture
from kmc.mcmc.surrogate_transition import InnerChainOptions
from kmc.surrogates import FitOptions, fit_surrogate


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


def plan_for(target, x, rng):
    values = np.array([target(row) for row in x])
    surrogate = fit_surrogate(x, values, x[:200], rng=rng, options=FitOptions(n_basis=30))
    z = surrogate.coordinates(x)
    return ProposalMixture(surrogate, x, z, 0.1, 1.0, InnerChainOptions(0.3, 2.0, 0.1, 0.4), 2, 4, 0.1, 0.1)


def searching(target, x, initial, budget=4000, given=None):
    """A search at its first step, after a warm-up with evaluations at x (n, d) that ended in the second mode.

    ``given``: points and values from elsewhere.
    """
    rng = np.random.default_rng(7)
    plan = plan_for(target, x[rng.permutation(len(x))], rng)
    states = x[target.labels(x) == 1]
    history = History(target.dim)
    if given is not None:
        history.extend(*given, source=GIVEN)
    history.extend(x, np.array([target(row) for row in x]))
    trainer = SimpleNamespace(history=history, states=lambda: states[:100])
    made = []

    def another(setup, cloud, least):
        made.append((setup, cloud))
        return SimpleNamespace(trainer=SimpleNamespace(history=History(target.dim)))

    main = SimpleNamespace(mixture=plan._replace(archive_z=plan.archive_z[:100]), trainer=trainer, another=another)
    values = np.array([target(row) for row in initial])
    setup = SamplerSetup(target.dim, 4, initial, values, None, None, budget, np.random.SeedSequence(1))
    return ModeSearch(setup, main, spent=len(x), budget=budget, share=0.1, rng=rng), made
