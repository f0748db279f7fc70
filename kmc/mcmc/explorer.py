"""What is known of one mode: a warm-up there, what its surrogate explains, and how much mass it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from scipy.special import logsumexp

from kmc.mcmc.base import SamplerSetup, Step
from kmc.mcmc.proposal_mixture import ProposalMixture
from kmc.mcmc.surrogate_trainer import SurrogateTrainer
from kmc.surrogates import Surrogate
from kmc.surrogates.wall_jit_state import WalledState

# Set by hand.
_ERROR_TOLERANCE = 3.0  # times (1 nat + the surrogate's error): a value may exceed the surrogate by this ...
_DEPTH_TOLERANCE = 0.3  # ... plus this fraction of its depth below the bulk
_DEPTH_TOLERANCE_KNOWN = 0.05  # the same, if the values are quadratic: their extrapolation is right
_QUADRATIC = 0.1  # nats by which a quadratic may miss them
_MASS_DRAWS = 1000  # draws from which masses are estimated
_MASS_SPREAD = 1.3  # their covariance, relative to that of the states


class Explorer(Protocol):
    """A warm-up of one mode: a state of the sampler before its freeze."""

    @property
    def mixture(self) -> ProposalMixture:
        """Its current mixture of moves."""

    @property
    def trainer(self) -> SurrogateTrainer:
        """The trainer of its surrogate."""

    @property
    def frozen(self) -> bool:
        """Whether all adaptation has ended."""

    def propose(self) -> np.ndarray:
        """Points whose values the next sweep needs."""

    def propose_again(self) -> np.ndarray:
        """The same points."""

    def relearn(self, x: np.ndarray, values: np.ndarray) -> None:
        """Add evaluations (n, d) and refit."""

    def advance(self, values: np.ndarray) -> Step | None:
        """Take the values; NaN for a point that belongs to another mode."""

    def another(self, setup: SamplerSetup, cloud: np.ndarray, least: int) -> Explorer:
        """A warm-up of another mode."""

    def finish(self) -> None:
        """Freeze now."""

    def state(self) -> tuple[np.ndarray, float]:
        """A state (d,) and its value, after the freeze."""


def unexplained(explorers: Sequence[Explorer], x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Whether the values (n,) of points (n, d) are far above what any of the surrogates predicts, (n,)."""
    if not len(x):
        return np.zeros(0, bool)
    unknown = np.ones(len(x), bool)
    for explorer in explorers:
        surrogate, top = explorer.mixture.surrogate, explorer.trainer.history.log_density.max()
        assert surrogate is not None
        beyond = np.maximum(top - values - surrogate.edge, 0.0)
        known_shape = surrogate.trend_sd < _QUADRATIC
        part = _DEPTH_TOLERANCE_KNOWN if known_shape else _DEPTH_TOLERANCE
        tolerance = error_tolerance(surrogate) + part * beyond
        unknown &= values > surrogate.log_density(x) - _past_cap(surrogate, x) + tolerance
    return unknown


def error_tolerance(surrogate: Surrogate) -> float:
    """Nats by which values may differ from a surrogate where it has data."""
    return _ERROR_TOLERANCE * (1.0 + surrogate.error_sd)


def log_mass(mixture: ProposalMixture, rng: np.random.Generator) -> float:
    """log of the integral of a mixture's surrogate over (2 pi)^(d/2), by importance sampling from a wide Gaussian."""
    surrogate = mixture.surrogate
    assert surrogate is not None
    z = mixture.archive_z
    dim = z.shape[1]
    covariance = _MASS_SPREAD * (np.atleast_2d(np.cov(z.T)) + 1e-9 * np.eye(dim))
    root = np.linalg.cholesky(covariance)
    unit = rng.standard_normal((_MASS_DRAWS, dim))
    smooth, wall = surrogate.parts(np.ascontiguousarray(z.mean(axis=0) + unit @ root.T))
    log_ratio = smooth + wall + 0.5 * np.sum(unit**2, axis=1) + np.log(np.diag(root)).sum()
    volume = np.linalg.slogdet(surrogate.whitening.inverse)[1]
    return float(logsumexp(log_ratio) - np.log(_MASS_DRAWS) + volume)


def _past_cap(surrogate: Surrogate, x: np.ndarray) -> np.ndarray:
    """How much deeper a Gaussian trend without its cap would be at points (n, d), in nats.

    The cap keeps paths of a wrong trend finite. Far away it also hides narrow modes: deep as they are there, they are
    far above the tail of the mode that is known.
    """
    trend, state = surrogate.trend, surrogate.jit_state
    if isinstance(state, WalledState) or trend.dof > 0:
        return np.zeros(len(x))
    r = surrogate.coordinates(x) - trend.location
    excess = np.maximum(0.5 * np.einsum("ij,ij->i", r @ trend.precision, r) - state.cap, 0.0)
    return excess - state.tail * np.log1p(excess / state.tail)
