"""Expectations from one replicate: corrected if surrogate and draws agree, else plain averages.

A surrogate may have mass where no draw is, a false mode far off or behind a constraint for example,
and yet be precise near the draws. Then it is used in a region A near them alone
(:mod:`kmc.control_variates.domain`). The identities hold for any function, so that g 1_A with g =
f - E_s[f | A] is a control variate as f - E_s f is, and of the surrogate only draws from A are
needed. The verdict about a surrogate is the same for expectations and evidence.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from kmc.control_variates.annealing import GAP, LEAST_GAP, Mass
from kmc.control_variates.chain_means import without_variance
from kmc.control_variates.correction import FEW, corrected, stated
from kmc.control_variates.domain import Domain, UnknownMode
from kmc.control_variates.means import (
    CHAINS,
    Means,
    SurrogateChains,
    SurrogateMeans,
    chains_of,
    mass_by,
)
from kmc.control_variates.replicate import Replicate, Transitions
from kmc.seeds import Stream, substream
from kmc.surrogate.coordinates.tails import HeavyTails
from kmc.surrogate.density import Density

_FEWEST_DRAWS = 40  # to check the surrogate (tried: small budgets)
_FIRST = 250  # draws of each chain on the surrogate
_WANTED = 0.25  # error of the surrogate's means relative to the other errors, to which it adds 3 %
# independent draws whose error is small in any case: for each draw of the target, and at most
_PRECISE = 1e2, 1e6
# probability that a sound surrogate is looked at again, and rejected if there are few draws
_DOUBT = 0.005
# that it is rejected if there are many: then a missed rejection costs little, see ``corrected``
_REJECTION = 0.001
# of as many draws from the surrogate, that show how far off their means are by chance
_SAMPLES = 2000
# draws of the target that would be outside the region near the draws by the surrogate's mass there
_FAR = 5.0
# draws; fewer may have missed what is far from them (tried: refused surrogates)
_ENOUGH_NEARBY = 1000
_LACKING = 3.0  # nats that p/s is above that at all states, where the surrogate lacks mass
_MOST_NUMBERS = 4e7  # kept in memory
_MOST_SAMPLED = 4e6  # numbers, at a time
MOST_AT_EDGE = 0.001  # share of the proposals where the surrogate has mass and the density is zero
_GAP = 4.0  # standard errors, and
# largest degrees of freedom of a Student-t density that has none
_NO_VARIANCE, _NO_FOURTH_MOMENT = 2.0, 4.0
# nats: larger differences between two estimates of the surrogate's mass are too large
_LEAST_GAP = 0.02

_CHECKED = 10_000  # draws from the surrogate that are compared with those of the target


class Estimate(NamedTuple):
    """Means of m functions, and the squares of their standard errors."""

    mean: np.ndarray
    squared_error: np.ndarray


Of = Callable[[np.ndarray], np.ndarray]


class ReplicateEstimate:
    """Expectations of functions of k numbers from one replicate.

    Parameters
    ----------
    replicate : Replicate
    functions : callable
        (n, d) -> (n, k).
    seed : SeedSequence
    most : int
        Number of draws from the surrogate, approximately.
    deadline : float
        As of ``time.perf_counter``: no more surrogate draws are made after it.
    nearby : bool
        Whether a surrogate that contradicts the draws is tried in the region near them, without its
        mass elsewhere.
    judge : callable, optional
        Returns a verdict, whose chains are drawn from; it is called if there are no doubts before.

    Attributes
    ----------
    doubts : str
        Why the surrogate is not used; empty if it is used.
    contradicted : bool
        Whether that is because draws and surrogate differ.
    n_draws, n_surrogate_draws : int
    """

    def __init__(
        self,
        replicate: Replicate,
        functions: Of,
        seed: np.random.SeedSequence,
        most: int,
        deadline: float,
        *,
        nearby: bool = False,
        judge: Callable[[], Verdict] | None = None,
    ):
        self._seed = seed
        self._all = functions(replicate.draws)
        self._x, self._y = self._all[:, :-1], functions(replicate.ends)
        self._center = self._all.mean(axis=(0, 1))
        self.n_draws = self._all.shape[0] * self._all.shape[1]
        self._pairs, self._far = replicate.transitions(), False
        self._least_dof, self._general = least_dof(replicate.density), replicate.cautions
        self._means: SurrogateMeans | None = None
        self.contradicted = False
        self.doubts = self._few() or self._lacking(replicate)
        if self.doubts:
            return
        rng = np.random.default_rng(seed)
        try:
            verdict = Verdict.of(replicate, rng) if judge is None else judge()
            self.doubts, domain = verdict.doubts, verdict.domain
            if self.doubts:
                return
            self._pairs = replicate.transitions_in(domain)
            if nearby and (share := replicate.at_edge()) > MOST_AT_EDGE:
                self.doubts = (
                    f"it has mass at {share:.1%} of the proposals where the density is zero, next "
                    "to the draws: declare the bounds of the parameters as their supports"
                )
                return
            self._means = SurrogateMeans(verdict.chains, functions, rng, verdict.masses)
            del verdict  # whose chains would keep all later draws for their twins
        except UnknownMode as error:
            self.doubts = str(error)
            return
        self._draw(self._means, most, deadline)
        doubts = self._disagreement(
            self._means, lambda known, means, error: _of_normal(_DOUBT, len(error))
        )
        if not doubts:
            return
        if (
            nearby
            and domain is None
            and not self._restrict(self._means, replicate, functions, rng, most, deadline)
        ):
            self.doubts = doubts
        else:
            self.doubts = self._disagreement(self._means, self._by_chance)
        self.contradicted = bool(self.doubts)
        if self.doubts:
            self._means, self._far = None, False

    @property
    def restricted(self) -> bool:
        """Whether the surrogate is used only near the draws, as it has mass far from them."""
        return self._far

    @property
    def cautions(self) -> list[str]:
        """Cautions to be given with the estimates, without periods."""
        said = [] if self.doubts else list(self._general)
        if self.restricted:
            said.append(
                "The surrogate has mass far from all draws, where it is not used: a region that "
                "only the surrogate has, or one that the draws have not found"
            )
        if np.any(self.constant):
            said.append(
                f"All draws have the same value of {np.sum(self.constant)} of the "
                f"{self._all.shape[2]} quantities: "
                "standard deviations and errors of these are not known"
            )
        if self._least_dof <= _NO_FOURTH_MOMENT:
            said.append(_of_heavy_tails(self._least_dof))
        elif found := self._of_large_values():
            said.append(found)
        return said

    def _of_large_values(self):
        """Return a caution about errors of the k averages, by the largest values; empty if none."""
        k = self._all.shape[2]
        drawn = [self._all] if self._means is None else self._means.drawn()
        parts = [np.abs(rows.reshape(-1, k) - self._center) for rows in drawn]
        means, sds = (
            np.any([without_variance(part**power) for part in parts], axis=0) for power in (1, 2)
        )
        sds |= means
        if not np.any(sds):
            return ""
        which = "means and sds" if np.any(means) else "sds"
        return (
            f"The largest values of {np.sum(sds)} of the {k} quantities are those of a density "
            f"whose averages have no finite variance: the true errors of these {which} are larger "
            "than the stated ones, those of quantiles are not"
        )

    @property
    def n_surrogate_draws(self) -> int:
        """Draws from the surrogate."""
        return 0 if self._means is None else self._means.n_draws

    def moments(self) -> Estimate:
        """Return means of the k numbers, and of their squared differences from ``center``: (2 k,).

        They are the plain ones where a corrected variance is not larger than its error: it may even
        be negative. Errors are NaN where all draws are equal, but not all proposals.
        """
        k = self._all.shape[2]
        series = self._powers(self._all)
        plain = Estimate(
            series.mean(axis=(0, 1)), np.where(np.tile(self.constant, 2), np.nan, stated(series))
        )
        if self._means is None:
            return plain
        sets = [_alternatives(i, k, self._x[..., 0].size) for i in range(2 * k)]
        found = self._estimate(self._powers, self._powers, sets)
        variance = found.mean[k:] - found.mean[:k] ** 2
        known = np.tile((variance > np.sqrt(found.squared_error[k:])) & ~self.constant, 2)
        return Estimate(
            *(np.where(known, own, other) for own, other in zip(found, plain, strict=True))
        )

    @property
    def constant(self) -> np.ndarray:
        """Whether the draws have one value of a number, and proposals others: (k,)."""
        return (np.ptp(self._all, axis=(0, 1)) == 0.0) & (np.ptp(self._y, axis=(0, 1)) > 0.0)

    @property
    def plain_squared_error(self) -> np.ndarray:
        """Squared errors of the plain means."""
        return stated(self._all)

    @property
    def center(self) -> np.ndarray:
        """The plain means of the k numbers."""
        return self._center

    def below(self, i: np.ndarray, limits: np.ndarray) -> Estimate:
        """Estimate the distribution functions of some of the numbers, i (m,), at limits (m,)."""
        m, chosen = len(i), np.unique(i)

        def indicators(values):
            return (values[..., i] <= limits).astype(float)

        def controls(values):
            off = values[..., chosen] - self._center[chosen]
            return np.concatenate([indicators(values), off, off**2], axis=-1)

        at = m + np.searchsorted(chosen, i)
        return self._estimate(
            indicators, controls, [[[j], [j, at[j], at[j] + len(chosen)]] for j in range(m)]
        )

    @property
    def values(self) -> np.ndarray:
        """The k numbers at all draws: (chains, n, k)."""
        return self._all

    def sorted(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return an initial distribution function of the i-th number.

        It is given by ascending values, and the function there.
        """
        if self._means is not None:
            return self._means.sorted(i)
        values = np.sort(self._all[..., i].ravel())
        return values, (np.arange(len(values)) + 0.5) / len(values)

    def _powers(self, values):
        off = values - self._center
        return np.concatenate([off, off**2], axis=-1)

    def _estimate(self, of: Of, controls: Of, sets) -> Estimate:
        if self._means is None:
            series = of(self._all)
            return Estimate(series.mean(axis=(0, 1)), stated(series))
        means = self._means.mean(controls)
        found = self._corrected(of, controls, means, sets)
        return Estimate(found.mean, found.squared_error)

    def _corrected(self, of, controls, means, sets):
        values = of(self._x), of(self._y)
        off = controls(self._x) - means.mean, controls(self._y) - means.mean
        return corrected(self._pairs, values, off, sets, means.covariance + self._of_unseen(off[1]))

    def _of_unseen(self, off):
        """Return the covariance of one more error: of mass that averages of controls may lack."""
        unseen = self._pairs.unseen(off)
        return np.outer(unseen, unseen)

    def _few(self):
        runs = int(self._pairs.run.sum())
        if self.n_draws < _FEWEST_DRAWS:
            return (
                f"there are {self.n_draws} draws, and fewer than {_FEWEST_DRAWS} are too few to "
                "check the surrogate"
            )
        if runs < _FEWEST_DRAWS // 2:
            return f"{runs} of the draws were proposed by the surrogate, which is too few"
        return ""

    def _lacking(self, replicate):
        """Return a doubt if the surrogate lacks mass at proposals as plausible as a draw, or ""."""
        plausible = replicate.proposal_log_density[:, 1:] >= replicate.log_density.min()
        missed = int(np.sum(plausible & (self._pairs.end > self._pairs.start.max() + _LACKING)))
        if not missed:
            return ""
        return (
            f"it is too low at {missed} of the proposals, where the density is as large as at some "
            "draws: the draws have missed a part of the posterior"
        )

    def _draw(self, known, most, deadline):
        """Draw from the surrogate until its means' error is small relative to that of the pairs."""
        k = self._all.shape[2]
        sets = [[[i]] for i in range(2 * k)]
        n = max(1, min(_FIRST, most // CHAINS))
        precise = self._powers(self._all).var(axis=(0, 1)) / min(
            _PRECISE[0] * self.n_draws, _PRECISE[1]
        )
        while True:
            known.extend(n)
            means = known.mean(self._powers)
            found = self._corrected(
                self._powers, self._powers, Means(means.mean, 0.0 * means.covariance), sets
            )
            of_means = np.einsum(
                "ij,jk,ik->i", found.coefficients, means.covariance, found.coefficients
            )
            small = np.maximum(_WANTED**2 * found.squared_error, precise)
            enough = np.all(of_means <= small)
            if enough or known.n_draws >= most:
                return
            n = min(known.length, known.length * (most - known.n_draws) // known.n_draws)
            n = min(
                n,
                _affordable(known, deadline),
                int(_MOST_NUMBERS / known.size) // CHAINS - known.length,
            )
            if n < 1:
                return

    def _restrict(self, known, replicate, functions, rng, most, deadline):
        """Draw from the surrogate near the draws, if it has mass elsewhere.

        Return whether the draws are enough for that.
        """
        if len(replicate.density.components) > 1 or self.n_draws < FEW:
            return True  # the weights of modes are those of their whole mass
        draws = replicate.draws.reshape(-1, replicate.draws.shape[2])
        domain = Domain(replicate.density, draws, draws[:0])
        if known.outside(domain) * self.n_draws < _FAR:
            return True
        if self.n_draws < _ENOUGH_NEARBY:
            return False
        self._far, self._pairs = True, replicate.transitions_in(domain)
        self._means = SurrogateMeans(chains_of(replicate, rng, domain), functions, rng)
        self._draw(self._means, most, deadline)
        return True

    def _disagreement(self, known, limit):
        """Say why the surrogate's own draws contradict the target's; return "" if they do not."""
        k = self._all.shape[2]
        means = known.mean(self._powers)
        found = self._corrected(self._powers, self._powers, means, [[] for _ in range(2 * k)])
        unseen = self._pairs.unseen(self._powers(self._y) - means.mean)
        error = np.sqrt(found.control_error**2 + np.diag(means.covariance) + unseen**2)
        off = np.abs(found.disagreement * found.control_error) / np.where(error > 0, error, np.inf)
        if not np.all(np.isfinite(means.mean)):
            return "its draws have numbers that are too large for their averages"
        if off.max() > limit(known, means, found.control_error):
            return (
                f"its means and those of the draws, weighted to it, differ by {off.max():.1f} "
                f"standard errors: the "
                "surrogate has mass where the draws have none, or the draws have not converged"
            )
        gap, se = mass_gap(self._pairs)
        if abs(gap) > max(_GAP * se, _LEAST_GAP):
            return (
                "two estimates of its mass, by the draws and by the proposals, differ by "
                f"{gap:.2f} ± {se:.2f} nats: the surrogate has mass where the draws have none, or "
                "its proposals stay near the draws"
            )
        return ""

    def _by_chance(self, known, means, error):
        """Return by how many standard errors the largest of 2 k means may be off by chance.

        Tails may be long.
        """
        effective = self._powers(self._x).var(axis=(0, 1)) / np.where(error > 0, error, np.inf) ** 2
        n = int(np.clip(np.median(effective), _FEWEST_DRAWS // 2, self.n_draws))
        rng = np.random.default_rng(substream(self._seed, Stream.BY_CHANCE))
        at_once = max(1, int(_MOST_SAMPLED / (n * len(error))))
        parts = []
        for first in range(0, _SAMPLES, at_once):
            many = min(at_once, _SAMPLES - first)
            rows = self._powers(known.sample(rng, many * n)) - means.mean
            parts.append(largest_off(rows.reshape(many, n, -1)))
        level = _DOUBT if self.n_draws < FEW else _REJECTION
        return max(
            float(np.quantile(np.concatenate(parts), 1.0 - level)), _of_normal(level, len(error))
        )


def _of_normal(level, m):
    """Return what the largest of m normal errors exceeds with probability at most ``level``."""
    return float(-ndtri(0.5 * level / m))


def largest_off(samples: np.ndarray) -> np.ndarray:
    """Return the largest of m means in standard errors, (many,), from samples (many, n, m).

    The samples are of expectation zero. Errors are too small where draws of a long tail happen to
    be missing, which is not rare with few of them: so more of these are large than of normal
    errors, even with thousands of draws of a square of heavy tails.
    """
    scale = samples.std(axis=1) / np.sqrt(samples.shape[1])
    return np.max(np.abs(samples.mean(axis=1)) / np.where(scale > 0, scale, np.inf), axis=1)


def _alternatives(i, k, n):
    """Return sets of controls for the i-th of k means and k squares, from n draws."""
    sets = [[i], sorted({i, i % k, k + i % k})]
    if 20 * 2 * k < n:
        sets.append(list(range(2 * k)))
    return sets


def least_dof(density: Density) -> float:
    """Return the smallest degrees of freedom of the heavy tails; infinite if there are none."""
    transports = [component.transport for component in density.components]
    return min(
        (float(one.dofs.min()) for one in transports if isinstance(one, HeavyTails)),
        default=math.inf,
    )


def _of_heavy_tails(dof: float) -> str:
    which = "means and sds" if dof <= _NO_VARIANCE else "sds"
    return (
        f"The tails are like those of a Student-t density with {dof:.2g} degrees of freedom: the "
        f"true errors of {which} are larger than the stated ones, those of quantiles are not"
    )


def _affordable(means, deadline):
    """Return how many draws of each chain there is time for."""
    return int(
        min(means.length * max(deadline - time.perf_counter(), 0.0) / max(means.seconds, 1e-9), 1e9)
    )


def mass_gap(pairs: Transitions) -> tuple[float, float]:
    """Return the difference of two log-masses of s over p, and its error.

    The first is by the pairs, and exact for any s, if few pairs have p much less than s at both
    ends. The second, which is subtracted, is by states and proposals apart. It treats the proposals
    as independent draws from s.
    """
    blocks = np.array_split(np.arange(pairs.run.shape[1]), 20)

    def gap(left_out):
        kept = np.ones(pairs.run.shape[1], bool)
        kept[left_out] = False
        return pairs.only(kept).mass_gap()

    whole = gap([])
    parts = np.array([gap(block) for block in blocks])
    error = float(np.sqrt((len(blocks) - 1) * parts.var()))
    return whole, np.inf if np.isnan(error) else error


class Verdict(NamedTuple):
    """Doubts about a surrogate, and what the verdict is based on."""

    doubts: str  # sentences about "it", without the last period; empty if there are none
    # the same of mass where it is not used: far from all draws, or where the density is zero
    caution: str
    domain: Domain | None
    chains: list[SurrogateChains]  # of each mode
    masses: list[Mass]  # of each mode, or none

    @classmethod
    def of(cls, replicate: Replicate, rng: np.random.Generator) -> Verdict:
        """Return chains without a verdict.

        Raises
        ------
        UnknownMode
            A mode of the surrogate has too few draws.
        """
        domain = replicate.domain()
        return cls("", "", domain, chains_of(replicate, rng, domain), [])


def judge(replicate: Replicate, seed: np.random.SeedSequence) -> Verdict:
    """Compare the surrogate's mass from both ends, and its draws with those of the target.

    Its proposals are compared with both.

    Raises
    ------
    UnknownMode
        A mode of the surrogate has too few draws.
    """
    check, anneal = seed.spawn(2)
    rng = np.random.default_rng(anneal)
    verdict = Verdict.of(replicate, rng)
    masses = [mass_by(own, rng) for own in verdict.chains]
    verdict = verdict._replace(masses=masses)
    doubts = [
        f"annealed from draws it has a log-mass of {mass.down:.2f}, and from above one of "
        f"{mass.up:.2f}: it has a mode that the draws do not have, or none where they have one"
        for mass in masses
        if abs(mass.gap) > GAP and abs(mass.up - mass.down) > LEAST_GAP
    ]

    def quantities(points: np.ndarray) -> np.ndarray:
        rows = points.reshape(-1, points.shape[-1])
        found = np.column_stack([rows, replicate.density.log_density(rows)])
        return found.reshape(*points.shape[:-1], found.shape[1])

    estimate = ReplicateEstimate(
        replicate, quantities, check, _CHECKED, np.inf, nearby=True, judge=lambda: verdict
    )
    caution = "it has mass far from all draws" if estimate.restricted else ""
    if estimate.doubts and replicate.at_edge() > MOST_AT_EDGE:
        caution = estimate.doubts
    elif estimate.doubts:
        doubts.append(estimate.doubts)
    return verdict._replace(doubts="; ".join(doubts), caution=caution)
