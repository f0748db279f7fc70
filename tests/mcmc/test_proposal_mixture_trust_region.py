"""Proposals far from all evaluations are not made while the surrogate is learned."""

import numpy as np
import pytest

import kmc
from kmc.mcmc import SamplerSetup
from kmc.mcmc.base import MOVES
from kmc.mcmc.history import History
from kmc.mcmc.kernel_hmc_state import KernelHMCState
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.proposal_mixture import within_trust_region

SURROGATE, EVOLUTION = MOVES.index("surrogate"), MOVES.index("differential-evolution")


@pytest.fixture(scope="module")
def known():
    x = np.random.default_rng(1).uniform(-2.0, 2.0, (80, 2))
    x[:2] = [-2.0, -2.0], [2.0, 2.0]
    history = History(2)
    history.extend(x, -0.5 * np.sum(x**2, axis=1))
    history.extend(np.full((1, 2), 50.0), np.array([-np.inf]))
    return history


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ([5.0, -5.9], [5.0, -5.9]),
        ([7.0, 1.0], [6.0, 1.0]),
        ([-1e300, 7.0], [-6.0, 6.0]),
        ([np.inf, 0.0], [6.0, 0.0]),
        ([np.nan, 0.5], [1.5, 0.5]),
    ],
)
def test_a_proposal_ends_in_a_box_three_times_as_wide_as_the_evaluations(known, end, expected):
    proposal = Proposal(np.array(end), 0.25, SURROGATE)
    (found,) = within_trust_region([proposal], np.array([[1.5, 1.0]]), known)
    np.testing.assert_allclose(found.position, expected, atol=1e-12)
    inside = end == expected
    assert found is proposal if inside else found.log_ratio == -np.inf


def test_moves_that_use_no_surrogate_go_where_they_like(known):
    proposal = Proposal(np.array([1e6, 0.0]), 0.0, EVOLUTION)
    assert within_trust_region([proposal], np.zeros((1, 2)), known) == [proposal]


def test_it_holds_in_warm_up_alone(monkeypatch):
    far_away = lambda self: [Proposal(x + 1e6, 0.0, SURROGATE) for x in self.walkers.x]  # noqa: E731
    monkeypatch.setattr(KernelHMCState, "_propose_each", far_away)
    initial = np.random.default_rng(1).standard_normal((4, 2))
    values = -0.5 * np.sum(initial**2, axis=1)
    setup = SamplerSetup(2, 4, initial, values, None, 5, None, np.random.SeedSequence(1))
    process = kmc.KernelHMC(post_freeze_burn_in=0).start(setup)
    while process.warming_up:
        points = process.propose()
        assert np.abs(points).max() < 1e4
        process.advance(-0.5 * np.sum(points**2, axis=1))
    assert process.propose().min() > 9e5
