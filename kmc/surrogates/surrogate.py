"""A fitted surrogate: coordinates, trend, expansion, and the arrays for jitted loops."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from kmc.kernels import Gaussian
from kmc.surrogates import jit_state
from kmc.surrogates.expansion import Expansion
from kmc.surrogates.in_coordinates import InCoordinates
from kmc.surrogates.necks import NO_NECKS, Necks
from kmc.surrogates.noise import beyond_noise
from kmc.surrogates.scale_group import ScaleGroup
from kmc.surrogates.terms import TermExpansion
from kmc.surrogates.transport import Identity, Transport
from kmc.surrogates.trend import Trend
from kmc.surrogates.wall_jit_state import WalledState
from kmc.surrogates.walls import Wall, walled
from kmc.surrogates.whitening import Whitening, whiten_states

# Set by hand.
_PAST_EDGE = 36.0  # nats below the edge, from which the trend decreases as a logarithm; deeper than values that count
QUARTICS_IN_SUM = 600  # largest number of centers of polynomials that are not summed beforehand
_REACH = 0.95  # quantile of the centers' distances: the region with data


@dataclass(frozen=True)
class Surrogate(InCoordinates):
    """A fitted surrogate log s of the log-density, including the latter's constant.

    Attributes
    ----------
    whitening : Whitening
        Between the transported coordinates u and those of the fit, z.
    jit_state : SurrogateJitState or WalledState
        The surrogate of the density of u, in z, for jitted loops; with its wall, if it has one.
    loo_sd, trend_sd : float
        Weighted sd of the leave-one-out residuals, and of the residuals of the trend alone.
    edge : float
        Depth below the highest value down to which values have full weight.
    top : float
        The highest value, of the density of u; for noisy values, without noise.
    noise_sd : float
        Estimated sd of the noise of the values, or of the roughness of exact ones; 0 if they are smooth.
    transport : Transport
        Between the user's coordinates x and u.
    wall : Wall, optional
        The boundary of the region of zero density, in u.
    necks : Necks
        What turns values, of the density of u, into heights, from which ``edge`` and ``top`` are counted.
    """

    whitening: Whitening
    jit_state: jit_state.SurrogateJitState | WalledState
    trend: Trend
    expansion: Expansion | TermExpansion
    loo_sd: float
    trend_sd: float
    edge: float
    n_values: int
    top: float
    noise_sd: float = 0.0
    transport: Transport = field(default_factory=Identity)
    wall: Wall | None = None
    necks: Necks = NO_NECKS

    @property
    def error_sd(self) -> float:
        """``loo_sd`` without the noise or roughness of the values."""
        return beyond_noise(self.loo_sd, self.noise_sd)

    @property
    def scale_groups(self) -> tuple[ScaleGroup, ...]:
        """Groups of parameters with a common scale that were found, in the user's coordinates."""
        expansion = self.expansion
        if not isinstance(expansion, TermExpansion) or not isinstance(self.transport, Identity):
            return ()
        return expansion.terms.groups

    @cached_property
    def metric_spread(self) -> float:
        """Largest over smallest mean square of the surrogate's gradient along a direction: large on a curved ridge."""
        return float(np.linalg.cond(self.expansion.metric) ** 2)

    def facts(self) -> dict[str, Any]:
        """Summary for the results' attributes."""
        facts = {
            "surrogate_loo_sd": self.loo_sd,
            "surrogate_trend_sd": self.trend_sd,
            "surrogate_metric_spread": self.metric_spread,
            "surrogate_driver": self.transport.driver,
            "surrogate_bandwidth_factor": self.expansion.factor,
            "surrogate_n_values": self.n_values,
        }
        return facts if self.wall is None else facts | self.wall.facts(bent=bool(self.transport.size))

    def with_expansion(self, expansion: Expansion | TermExpansion) -> Surrogate:
        """The surrogate with another kernel part."""
        return self._with(self.whitening, self.trend, expansion)

    def with_wall(self, wall: Wall | None) -> Surrogate:
        """The surrogate behind a wall; unchanged if there is none."""
        if wall is None:
            return self
        smooth = self.jit_state.smooth if isinstance(self.jit_state, WalledState) else self.jit_state
        return replace(self, wall=wall, jit_state=walled(smooth, wall, self.whitening))

    def rewhitened(self, draws: np.ndarray) -> Surrogate:
        """The surrogate in coordinates in which ``draws`` (n, d), given in the present ones, are white."""
        step = whiten_states(draws)
        inverse = step.inverse
        expansion = self.expansion.rewhitened(step)
        trend = self.trend._replace(
            location=step(self.trend.location[None])[0], precision=inverse.T @ self.trend.precision @ inverse
        )
        origin = self.whitening.back(step.origin[None])[0]
        whitening = Whitening.of(origin, step.matrix @ self.whitening.matrix)
        return self._with(whitening, trend, expansion)

    def _with(self, whitening: Whitening, trend: Trend, expansion: Expansion | TermExpansion) -> Surrogate:
        known = {"edge": self.edge, "ceiling": self.jit_state.ceiling, "top": self.top, "noise_sd": self.noise_sd}
        new = assemble(whitening, trend, expansion, **known, necks=self.necks)
        return replace(new, transport=self.transport).with_wall(self.wall)


def assemble(
    whitening: Whitening,
    trend: Trend,
    expansion: Expansion | TermExpansion,
    *,
    edge: float,
    ceiling: float,
    top: float,
    noise_sd: float = 0.0,
    necks: Necks = NO_NECKS,
) -> Surrogate:
    """Combine the parts; ``ceiling`` is an upper limit of the surrogate's height."""
    state = make_jit_state(trend, edge, expansion, ceiling=ceiling)
    if len(necks.drivers):
        slopes, offsets = necks.in_coordinates(whitening)
        state = state._replace(neck_slopes=slopes, neck_offsets=offsets)
    return Surrogate(
        whitening=whitening,
        jit_state=state,
        trend=trend,
        expansion=expansion,
        loo_sd=expansion.loo_sd,
        trend_sd=trend.residual_sd,
        edge=edge,
        n_values=len(expansion.residuals),
        top=top,
        noise_sd=noise_sd,
        necks=necks,
    )


def make_jit_state(
    trend: Trend, edge: float, expansion: Expansion | TermExpansion | None = None, *, ceiling: float = np.inf
) -> jit_state.SurrogateJitState:
    """The trend alone, or the whole surrogate, as arrays for the jitted loops."""
    dim = len(trend.location)
    cap = edge + _PAST_EDGE
    common = (
        np.ascontiguousarray(trend.location),
        np.ascontiguousarray(trend.precision),
        trend.dof,
        cap,
        dim / 2 + 2.0,  # the scale of the logarithm
    )
    if expansion is None:
        no_sections = (np.eye(dim), np.zeros(dim), np.zeros((dim, 1)), np.zeros(1), 1.0)
        return jit_state.SurrogateJitState(trend.constant, *common, *no_sections)
    constant = trend.constant + expansion.offset
    reach = float(np.quantile(np.linalg.norm(expansion.centers, axis=1), _REACH))
    if isinstance(expansion, TermExpansion):
        terms = expansion.terms
        none = (np.ascontiguousarray(terms.matrix), terms.shift, np.zeros((dim, 1)), np.zeros(1), 1.0)
        return jit_state.SurrogateJitState(
            constant, *common, *none, ceiling, reach, False, expansion.offset, terms=expansion.jit_state
        )
    metric = np.ascontiguousarray(expansion.metric)
    centers = np.ascontiguousarray(((expansion.centers - expansion.origin) @ metric.T).T)
    radial = isinstance(expansion.kernel, Gaussian)
    coefficients, quartic = expansion.coefficients, jit_state.SurrogateJitState._field_defaults["quartic"]
    if not radial and len(coefficients) > QUARTICS_IN_SUM:
        quartic = quartic_form(centers, coefficients, expansion.rate)
        centers, coefficients = np.zeros((dim, 1)), np.zeros(1)
    sections = (metric, metric @ expansion.origin, centers, coefficients, expansion.rate)
    return jit_state.SurrogateJitState(constant, *common, *sections, ceiling, reach, radial, expansion.offset, quartic)


def quartic_form(centers: np.ndarray, coefficients: np.ndarray, rate: float) -> np.ndarray:
    """The matrix A with Σ_a coefficients_a (1 + rate <u, c_a>)⁴ = qᵀ A q, q = (1, u_i, u_i u_j with i <= j); (p, p).

    Because (1 + rate <u, c>)² = <q, r> with r = (1, 2 rate c_i, rate² c_i² or 2 rate² c_i c_j).
    """
    dim = len(centers)
    i, j = np.triu_indices(dim)
    twice = np.where(i == j, 1.0, 2.0) * rate**2
    squares = np.vstack([np.ones(centers.shape[1]), 2.0 * rate * centers, twice[:, None] * centers[i] * centers[j]])
    return (squares * coefficients) @ squares.T
