"""Expectations from chains whose surrogate has a transport."""

from dataclasses import replace

import numpy as np
import pytest

from kmc.control_variates.estimate import ReplicateEstimate, largest_off, least_dof
from kmc.control_variates.replicate import Replicate
from kmc.samplers.base import MOVES
from kmc.surrogate.coordinates.funnels import Funnel
from kmc.surrogate.coordinates.tails import HeavyTails
from kmc.surrogate.coordinates.whitening import Whitening
from kmc.surrogate.density import Component, Density
from tests.control_variates.synthetic import gaussian_state

CHAINS, N = 4, 400
SHIFT = 0.1  # of the target's driver, relative to the surrogate's
EYE = np.eye(3)


class WithoutJacobian(Funnel):
    """A mutation."""

    def log_jacobian(self, x):
        return np.zeros(len(x))


def log_target(x):
    """A funnel: x_0 ~ N(SHIFT, 1), and x_1, x_2 ~ N(0, exp(x_0))."""
    return (
        -0.5 * (x[..., 0] - SHIFT) ** 2
        - np.sum(0.5 * x[..., 1:] ** 2, axis=-1) * np.exp(-x[..., 0])
        - x[..., 0]
    )


def replicate(transport_of):
    """Independent proposals from the surrogate, a funnel without the shift; they are accepted by
    the true densities.
    """
    rng = np.random.default_rng(3)
    given = 0, 0.0, np.zeros(3), np.array([0.0, 0.5, 0.5])
    exact = Density(
        (
            Component(
                Funnel(*given), Whitening(np.zeros(3), EYE, EYE), gaussian_state([0.0, 0.0, 0.0])
            ),
        )
    )
    y = Funnel(*given).back(rng.standard_normal((CHAINS * N, 3))).reshape(CHAINS, N, 3)
    surrogate = exact.log_density(y.reshape(-1, 3)).reshape(CHAINS, N)
    x, at_x, value = np.empty_like(y), np.empty((CHAINS, N)), log_target(y)
    for chain in range(CHAINS):
        now = 0
        for i in range(N):
            ratio = (
                value[chain, i] - value[chain, now] - surrogate[chain, i] + surrogate[chain, now]
            )
            now = i if np.log(rng.random()) < ratio else now
            x[chain, i], at_x[chain, i] = y[chain, now], value[chain, now]
    density = Density(
        (
            Component(
                transport_of(*given),
                Whitening(np.zeros(3), EYE, EYE),
                gaussian_state([0.0, 0.0, 0.0]),
            ),
        )
    )
    return Replicate(x, at_x, y, value, np.full((CHAINS, N), MOVES.index("surrogate")), density)


def estimate(transport_of):
    return ReplicateEstimate(
        replicate(transport_of), lambda x: x, np.random.SeedSequence(1), 16_000, np.inf
    )


@pytest.fixture(scope="module")
def found():
    return estimate(Funnel)


def test_means_in_a_funnel(found):
    moments = found.moments()
    off, error = found.center + moments.mean[:3] - [SHIFT, 0, 0], np.sqrt(moments.squared_error[:3])
    assert found.doubts == ""
    assert np.all(np.abs(off) < 4 * error)
    assert np.all(error < 0.5 * np.sqrt(found.plain_squared_error))


def test_a_transport_without_its_jacobian_is_noticed():
    assert estimate(WithoutJacobian).doubts.startswith(
        ("its means and those of the draws", "two estimates")
    )


def test_constants_do_not_matter(found):
    plain, constant = replicate(Funnel), 300.0
    shifted = Replicate(
        plain.draws,
        plain.log_density + constant,
        plain.proposals,
        plain.proposal_log_density + constant,
        plain.move,
        plain.density,
    )
    again = ReplicateEstimate(
        shifted, lambda x: x, np.random.SeedSequence(1), 16_000, np.inf
    ).moments()
    np.testing.assert_allclose(again.mean, found.moments().mean, atol=1e-9)


@pytest.mark.parametrize(
    ("dofs", "which"),
    [([3.0], "of sds are larger"), ([9.0, 1.5, 9.0], "of means and sds are larger"), ([5.0], "")],
)
def test_tails_without_the_moments_that_errors_need(dofs, which):
    """Independent draws of a Student-t, whose surrogate is exact."""
    given, rng = replicate(Funnel), np.random.default_rng(1)
    tails = HeavyTails(np.zeros(3), EYE, EYE, np.array(dofs), radial=len(dofs) == 1)
    density = Density((replace(given.density.components[0], transport=tails),))
    assert least_dof(density) == min(dofs) and least_dof(given.density) == np.inf
    x = tails.back(rng.standard_normal((CHAINS * N, 3))).reshape(CHAINS, N, 3)
    at_x = density.log_density(x.reshape(-1, 3)).reshape(CHAINS, N)
    exact = replace(
        given, draws=x, proposals=x, log_density=at_x, proposal_log_density=at_x, density=density
    )
    said = ReplicateEstimate(exact, lambda x: x, np.random.SeedSequence(1), 8000, np.inf).cautions
    assert [which in sentence for sentence in said] == [True] * bool(which)


def test_quantities_without_the_moments_that_errors_need():
    """exp(x² power / 4) has moments of order below 2 / power under a normal density."""

    def powers(x):
        return np.exp(0.25 * np.array([0.2, 0.9, 3.0]) * x[..., :1] ** 2)

    (said,) = ReplicateEstimate(
        replicate(Funnel), powers, np.random.SeedSequence(1), 30_000, np.inf
    ).cautions
    assert "2 of the 3 quantities" in said and "means and sds" in said


def test_a_sound_surrogate_is_not_rejected_for_few_draws_with_a_long_tail():
    rng = np.random.default_rng(1)

    def samples(n):
        x = np.stack(
            [rng.standard_normal((4000, n)), rng.lognormal(sigma=1.5, size=(4000, n))], axis=-1
        )
        return x - np.array([0.0, np.exp(1.5**2 / 2)])

    def limit(x):
        return np.quantile(largest_off(x), 0.995)

    def rejected(limit, x):
        return np.mean(largest_off(x) > limit)

    normal = limit(rng.standard_normal((2000, 2000, 2)))
    by_chance, fresh = limit(samples(50)), samples(50)
    assert 2.7 <= normal < 3.5
    assert rejected(normal, fresh) > 0.1 and rejected(by_chance, fresh) < 0.015
    shifted = fresh + np.array([2.5, 0.0])  # as by a false mode
    assert rejected(by_chance, shifted) > 0.9


def test_a_surrogate_that_lacks_mass_at_a_plausible_proposal_is_not_used():
    """Beyond a false wall: no draw is there, so that only a proposal of another move shows it."""
    whole = replicate(Funnel)
    y, at_y, move = whole.proposals.copy(), whole.proposal_log_density.copy(), whole.move.copy()
    y[1, 7] = [0.0, 40.0, 0.0]  # where the surrogate is less than at any draw
    at_y[1, 7], move[1, 7] = log_target(np.zeros(3)), MOVES.index("surrogate") + 1
    changed = replace(whole, proposals=y, proposal_log_density=at_y, move=move)
    given = lambda x: x, np.random.SeedSequence(1), 16_000, np.inf
    assert ReplicateEstimate(whole, *given).doubts == ""
    assert "it is too low at 1 of the proposals" in ReplicateEstimate(changed, *given).doubts


def test_a_variance_that_is_not_larger_than_its_error_is_that_of_the_draws(monkeypatch):
    """A corrected one may be negative, so that the standard deviation was 0, without an error."""
    own = estimate(Funnel)
    right = own.moments()
    plain = own.values.var(axis=(0, 1))
    wrong = right.mean.copy()
    wrong[3] = wrong[0] ** 2 - 0.1
    monkeypatch.setattr(own, "_estimate", lambda *given: right._replace(mean=wrong))
    found = own.moments()
    assert found.mean[3] - found.mean[0] ** 2 == pytest.approx(plain[0])
    assert found.squared_error[0] == pytest.approx(own.plain_squared_error[0])
    np.testing.assert_array_equal(found.mean[[1, 2, 4, 5]], right.mean[[1, 2, 4, 5]])
