"""What is known of a model with a simulator, as arrays that jitted loops read: priors, transforms and data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.surrogate.coordinates.noncentered import NonCentered
from kmc.surrogate.splines import Splines
from kmc.surrogate.transforms import Transforms

_DRAWS = 2000  # of the prior, for its scales


class Parameters(NamedTuple):
    """The parameters θ_i, each a function of one coordinate x_i, and the log-density that does not need the simulator.

    That is the prior with the log-Jacobian. It is a sum of functions of one number each, of x_i or of u_i =
    (x_i - m_i) / s_i, where a hierarchical prior has the mean m_i and the standard deviation s_i.
    """

    transforms: Transforms
    means: np.ndarray  # (d,) of int, as the next two see :class:`kmc.surrogate.coordinates.noncentered.NonCentered`
    sds: np.ndarray  # (d,) of int
    numbers: np.ndarray  # (d, 2)
    known: Splines  # of u
    quantiles: np.ndarray  # (d, k) of u in the prior, from 0 to 1 at equal distances

    @property
    def noncentered(self) -> NonCentered:
        """The map from x to u."""
        return NonCentered(self.transforms, self.means, self.sds, self.numbers)

    @property
    def scales(self) -> np.ndarray:
        """About the standard deviations of x in the prior, (d,)."""
        quantiles = self.quantiles
        if self.noncentered.size:
            quantiles = np.sort(self.draw(np.random.default_rng(0), _DRAWS), axis=0).T
        levels = np.linspace(0.0, 1.0, quantiles.shape[1])
        return np.array([0.5 * np.diff(np.interp([0.16, 0.84], levels, own))[0] for own in quantiles])

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw points x (n, d) from the prior, about."""
        levels = np.linspace(0.0, 1.0, self.quantiles.shape[1])
        u = np.column_stack([np.interp(rng.random(n), levels, own) for own in self.quantiles])
        return self.noncentered.back(u)


class Data(NamedTuple):
    """Data y, and their distribution, see :mod:`kmc.surrogate.emulator.observations`.

    Variances are sums of constants and of squares of parameters. ``shapes`` are degrees of freedom, dispersions, or
    numbers of trials. Of the columns, -1 means none.
    """

    kinds: np.ndarray  # (n,) of int
    observed: np.ndarray  # (n,)
    constants: np.ndarray  # (n,), of the log-likelihood
    variances: np.ndarray  # (n,)
    scales: np.ndarray  # (n, k), columns of θ
    relative: np.ndarray  # (n,), variances relative to the square of the output
    relative_scales: np.ndarray  # (n, l), columns of θ
    shapes: np.ndarray  # (n,)
    shape_columns: np.ndarray  # (n,), columns of θ, or -1
    repeats: np.ndarray  # (n,), how often the term -log(2π variance)/2 of normal data is repeated

    def at(self, rows: np.ndarray) -> Data:
        """Return some of the data."""
        return Data(*(column[rows] for column in self))


class Structure(NamedTuple):
    """A model with a simulator."""

    inputs: np.ndarray  # (k,) of int: the coordinates on which the outputs depend
    parameters: Parameters
    data: Data
