"""Means under a frozen surrogate, from any number of draws."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import islice, tee
from typing import NamedTuple

import numpy as np

from kmc.control_variates.annealing import ISLANDS, Mass, mass_of
from kmc.control_variates.chain_means import ChainMeans, SteinControls
from kmc.control_variates.domain import EVERYWHERE, Domain, Nearby, Region, check_modes
from kmc.control_variates.replicate import Replicate
from kmc.samplers.inner_chains import InnerChainOptions, inner_chains
from kmc.samplers.local_mixture import local_mixture
from kmc.samplers.tuning import Trials, with_step_size
from kmc.surrogate.covariance import terms_of
from kmc.surrogate.density import Component

# particles; more of them in many dimensions, for control variates
_ANNEALED, _MOST_ANNEALED = 4096, 8192
_PER_TERM = 14  # particles for each term of a quadratic
CHAINS = 32
_MOVES = 8  # between draws: about two trajectories, and six draws from a mixture
_BURN_IN = 50  # draws
_FOR_CONTROLS = 32  # draws that only choose the control variates
_FOR_REGION = 250  # draws that only say how much mass is outside a region
_ARCHIVE = 1000
_OPTIONS = InnerChainOptions(
    step_size=0.1, trajectory_length=2.5, independence_probability=0.8, small_step_probability=0.2
)


class Means(NamedTuple):
    """Means of m functions.

    Attributes
    ----------
    mean : ndarray, shape (m,)
    covariance : ndarray, shape (m, m)
        Covariance of the error.
    """

    mean: np.ndarray
    covariance: np.ndarray


class SurrogateMeans:
    """Draws from a replicate's density, and k functions there.

    Parameters
    ----------
    chains : list of SurrogateChains
        On each mode; see :func:`chains_of`.
    functions : callable
        (n, d) -> (n, k).
    rng : Generator
    masses : list of Mass
        Of the modes; if there are several, they are estimated by default.

    Attributes
    ----------
    weights : ndarray
        Weights of the surrogate's modes.
    length : int
        Number of draws of each chain.
    seconds : float
        Time spent on them.
    """

    def __init__(
        self,
        chains: Sequence[SurrogateChains],
        functions: Callable[[np.ndarray], np.ndarray],
        rng: np.random.Generator,
        masses: Sequence[Mass] = (),
    ):
        self._functions, self._rng = functions, rng
        self._chains = [own.twin() for own in chains]
        self._means = [ChainMeans() for _ in self._chains]
        self._controls: list[SteinControls | None] = [None for _ in self._chains]
        self.weights, self._errors = np.ones(1), np.zeros(1)
        if len(self._chains) > 1:
            masses = masses or [mass_by(own, rng) for own in self._chains]
            log_masses = np.array([mass.log_mass for mass in masses])
            self.weights = np.exp(log_masses - log_masses.max())
            self.weights /= self.weights.sum()
            self._errors = np.array([mass.se for mass in masses])

        self.length, self.seconds = 0, 0.0

    @property
    def size(self) -> int:
        """Numbers that are kept for one draw of each mode."""
        controls = sum(0 if own is None else own.size for own in self._controls)
        return len(self._means) * self._means[0].values[0].shape[2] + controls

    @property
    def n_draws(self) -> int:
        """Number of draws of all chains."""
        return CHAINS * len(self._chains) * self.length

    def extend(self, n: int) -> None:
        """Make n more draws of each chain."""
        began = time.perf_counter()
        for i, (chains, means) in enumerate(zip(self._chains, self._means, strict=True)):
            # means of control variates are zero only without a region
            if not self.length and chains.are_everywhere:
                others = chains.draws(_FOR_CONTROLS)
                self._controls[i] = SteinControls.of(
                    chains.component, others.reshape(-1, chains.dim), self._rng
                )
            z = chains.draws(n)
            controls = self._controls[i]
            means.extend(self._functions(chains.back(z)), None if controls is None else controls(z))
        self.length += n
        self.seconds += time.perf_counter() - began

    def outside(self, domain: Domain) -> float:
        """Make further draws of the first mode, and return the fraction outside a region."""
        z = self._chains[0].draws(_FOR_REGION)
        return 1.0 - float(domain.parts[0].contains(z.reshape(-1, z.shape[2])).mean())

    def mean(self, of: Callable[[np.ndarray], np.ndarray]) -> Means:
        """Return means of functions of the k numbers: ``of`` maps (..., k) to (..., m)."""
        by_chain = [own.by_chain(of) for own in self._means]
        means = [own.mean(axis=0) for own in by_chain]
        covariances = [np.atleast_2d(np.cov(own.T)) / CHAINS for own in by_chain]
        mean = self.weights @ np.array(means)
        covariance = np.tensordot(self.weights**2, np.array(covariances), 1)
        for weight, error, part in zip(self.weights, self._errors, means):
            covariance = covariance + (weight * error) ** 2 * np.outer(part - mean, part - mean)
        return Means(mean, covariance)

    def drawn(self) -> list[np.ndarray]:
        """Return the k numbers at all draws of each mode, a list of (chains, n, k)."""
        return [np.concatenate(own.values, axis=1) for own in self._means]

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Choose n draws independently, by the weights of the modes; return the numbers (n, k)."""
        parts = [part.reshape(-1, part.shape[2]) for part in self.drawn()]
        weights = np.concatenate(
            [np.full(len(part), w / len(part)) for part, w in zip(parts, self.weights)]
        )
        return np.concatenate(parts)[rng.choice(len(weights), n, p=weights / weights.sum())]

    def sorted(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the i-th number at all draws in ascending order and its distribution function."""
        by_mode = [
            np.concatenate([part[..., i].ravel() for part in own.values]) for own in self._means
        ]
        weights = np.concatenate(
            [np.full(len(v), w / len(v)) for v, w in zip(by_mode, self.weights)]
        )
        values = np.concatenate(by_mode)
        order = np.argsort(values, kind="stable")
        ends = np.cumsum(weights[order])
        return values[order], (ends - 0.5 * weights[order]) / ends[-1]


def chains_of(
    replicate: Replicate, rng: np.random.Generator, domain: Domain | None = None
) -> list[SurrogateChains]:
    """Return chains on the surrogate of each mode, in a region.

    Raises
    ------
    UnknownMode
        A mode has too few draws to start them from.
    """
    states = replicate.draws.reshape(-1, replicate.draws.shape[2])
    components = replicate.density.components
    home = np.argmax([component.log_density(states) for component in components], axis=0)
    check_modes(home, len(components))
    regions = [None] * len(components) if domain is None else domain.parts
    return [
        SurrogateChains(part, states[home == k], rng, nearby)
        for k, (part, nearby) in enumerate(zip(components, regions, strict=True))
    ]


def mass_by(chains: SurrogateChains, rng: np.random.Generator) -> Mass:
    """Estimate the mass of a mode's surrogate in the region of chains, by annealing their draws."""
    chains = chains.twin()
    particles = min(max(_ANNEALED, _PER_TERM * terms_of(chains.dim)), _MOST_ANNEALED)
    others = chains.draws(_FOR_CONTROLS).reshape(-1, chains.dim)
    z = chains.draws(particles // CHAINS * 4)[:, ::4]
    z = z.reshape(-1, z.shape[2])
    z = z[: len(z) // ISLANDS * ISLANDS]
    return mass_of(
        chains.component, z, chains.options.step_size, rng, others=others, region=chains.region
    )


class SurrogateChains:
    """Chains on one surrogate; see :mod:`kmc.samplers.inner_chains`.

    They make the same moves as the proposals, from the same places, so they cannot enter a region
    of the surrogate that no proposal reaches.

    Parameters
    ----------
    component : Component
    states : ndarray, shape (k, d)
        Draws from the target that belong to this surrogate's mode.
    rng : Generator
    nearby : Nearby, optional
        A region that holds the states, and that the chains do not leave: where their moves end
        outside, they stay.
    """

    def __init__(
        self,
        component: Component,
        states: np.ndarray,
        rng: np.random.Generator,
        nearby: Nearby | None = None,
    ):
        self.component, self._nearby = component, nearby
        z = component.coordinates(states)
        if nearby is not None:
            z = z[nearby.contains(z)]
        self._mixture = local_mixture(rng.permutation(np.unique(z, axis=0))[:_ARCHIVE])
        self._z = z[rng.integers(len(z), size=CHAINS)]
        self.options = with_step_size(
            Trials(component.jit_state, self._z, self._mixture), _OPTIONS, rng
        )
        self._draws = tee(self._moving(rng.spawn(CHAINS)), 1)[0]
        self.draws(_BURN_IN)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self._z.shape[1]

    @property
    def are_everywhere(self) -> bool:
        """Whether no region confines them."""
        return self._nearby is None

    def twin(self) -> SurrogateChains:
        """Return chains whose next draws are those of these, which are made once for both."""
        other = copy(self)
        other._draws = copy(self._draws)
        return other

    @property
    def region(self) -> Region:
        """The region that the chains do not leave."""
        return EVERYWHERE if self._nearby is None else self._nearby.region

    def draws(self, n: int) -> np.ndarray:
        """Make the next n draws of each chain, in the coordinates z: (chains, n, d)."""
        return np.stack(list(islice(self._draws, n)), axis=1)

    def _moving(self, rngs) -> Iterator[np.ndarray]:
        """Yield one draw (chains, d) after the other."""
        z, powers, lengths = self._z, np.ones(CHAINS), [_MOVES] * CHAINS
        while True:
            found = inner_chains(
                self.component.jit_state,
                z,
                lengths,
                powers=powers,
                rngs=rngs,
                options=self.options,
                mixture=self._mixture,
            ).position
            if self._nearby is not None:
                found = np.where(self._nearby.contains(found)[:, None], found, z)
            yield (z := np.ascontiguousarray(found))

    def back(self, z: np.ndarray) -> np.ndarray:
        """Return the points x of draws z (chains, n, d), in the same shape."""
        return self.component.back(z.reshape(-1, z.shape[2])).reshape(z.shape)
