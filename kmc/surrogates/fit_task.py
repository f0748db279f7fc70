"""The data of a fit: evaluated values with their depths, and the same in whitened coordinates with their trend."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.surrogates.depth import edge_of
from kmc.surrogates.fit_options import FitOptions
from kmc.surrogates.necks import NO_NECKS, Necks
from kmc.surrogates.noise import highest
from kmc.surrogates.slopes import Slopes
from kmc.surrogates.surrogate import Surrogate
from kmc.surrogates.terms import TermExpansion
from kmc.surrogates.trend import Trend
from kmc.surrogates.whitening import Whitening
from kmc.surrogates.wide_trend import is_wide, terms_of, values_for_any, values_for_structure

_LEAST_VALUES = 100, 10  # for a first fit: constant, per dimension
_VALUES_PER_TERM = 1.15  # values per term of a quadratic, in a first fit
_FEW_PER_TERM, _FEW_SHARE = 1.5, 0.6  # the same, and fraction of the values, if these are few (tried: small budgets)
_HEAVY_PER_TERM = 1.1  # fewest values of full weight per term of a quadratic (tried: Gaussian 50-d)


class FitTask(NamedTuple):
    """Data shared by the steps of a fit: the values, their properties, and the options."""

    x: np.ndarray  # (n, d)
    log_density: np.ndarray  # (n,)
    states: np.ndarray  # (k, d)
    options: FitOptions
    rng: np.random.Generator
    previous: Surrogate | None
    levels: np.ndarray | None  # (l,) of the chains' recent states
    gradients: np.ndarray | None = None  # (n, d) of the log-density; rows of NaN where they are not known
    only_terms: bool = False
    roughness_sd: float = 0.0  # of exact values
    necks: Necks = NO_NECKS  # known ones: depths are those of heights
    few_values: bool = False  # there are hardly more than terms of a quadratic
    # Set together with the depths:
    depth: np.ndarray = np.empty(0)  # (n,) below the top
    edge: float = 0.0
    top: float = 0.0  # the highest value, without noise
    noise_sd: float | None = None  # as far as it is known; None: there is no noise

    @property
    def noisy(self) -> bool:
        """Whether the values are estimates."""
        return self.noise_sd is not None

    @property
    def noise(self) -> float:
        """The sd of noise or roughness, below which no error need be."""
        return self.noise_sd or self.roughness_sd

    @property
    def sparse(self) -> bool:
        """Whether terms of few coordinates explain all: then in coordinates of the user, without a full quadratic."""
        previous = self.previous
        known = previous is not None and isinstance(previous.expansion, TermExpansion)
        return is_wide(self.x.shape[1]) and (self.only_terms or known)

    def with_depths(self, smooth: np.ndarray, noise_sd: float | None) -> FitTask:
        """A copy with depths, edge and top from values (n,) without their noise."""
        top = float(smooth.max()) if noise_sd is None else highest(smooth)
        depth = top - smooth
        edge = edge_of(top - self.levels if self.levels is not None else np.empty(0), self.x.shape[1])
        edge = max(edge, _depth_of_enough(self.x, depth, self.gradients, few=self.few_values))
        return self._replace(depth=depth, edge=edge, top=top, noise_sd=noise_sd)


class WeightedValues(NamedTuple):
    """Values to be fitted, in whitened coordinates."""

    whitening: Whitening
    z: np.ndarray  # (n, d)
    y: np.ndarray  # (n,)
    weights: np.ndarray  # (n,), summing to one
    trend: Trend
    slopes: Slopes | None = None  # the known gradients


def values_needed(dim: int) -> int:
    """Evaluations before a first fit makes sense: enough to determine a quadratic."""
    least, each = _LEAST_VALUES
    return int(max(each * dim + least, _VALUES_PER_TERM * terms_of(dim)))


def _depth_of_enough(x: np.ndarray, depth: np.ndarray, gradients: np.ndarray | None, *, few: bool = False) -> float:
    """The depth above which there are enough distinct points for a quadratic; LinAlgError if there are hardly any.

    A gradient counts as so many values as it has components. ``few``: as many as are hardly enough.
    """
    dim = x.shape[1]
    _, unique = np.unique(x, axis=0, return_index=True)
    finite = np.sort(depth[unique][np.isfinite(depth[unique])])
    if len(finite) < 2:
        raise np.linalg.LinAlgError("a fit needs two distinct points of positive density")
    enough = max(values_needed(dim) // 2, int(_HEAVY_PER_TERM * terms_of(dim)))
    if few:
        enough = min(enough, int(max(_FEW_PER_TERM * terms_of(dim), _FEW_SHARE * len(finite))))
    if is_wide(dim) and len(finite) < values_for_any(dim):  # too few for any quadratic: those near the bulk count
        enough = values_for_structure(dim)
    if gradients is None:
        return float(finite[min(len(finite), enough) - 1])
    known = unique[np.isfinite(depth[unique])]
    known = known[np.argsort(depth[known])]
    counts = np.cumsum(1 + dim * ~np.isnan(gradients[known, 0]))
    return float(finite[min(int(np.searchsorted(counts, enough)), len(finite) - 1)])
