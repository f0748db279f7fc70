"""Decisions; every branch of them is enumerated in tests/correctness/test_enumeration.py."""

import numpy as np
import pytest

from kmc.samplers.metropolis import Proposal, decide


def test_the_probability_is_that_of_metropolis_and_hastings():
    rng = np.random.default_rng(3)
    accepted, expected = [], []
    for current, proposed, log_ratio in rng.normal(-2.0, 1.0, (2000, 3)):
        taken, probability = decide(rng, current, proposed, log_ratio=log_ratio)
        assert probability == pytest.approx(
            min(1.0, np.exp(proposed - current + log_ratio)), rel=1e-12
        )
        accepted.append(taken)
        expected.append(probability)
    error = np.sqrt(np.sum(np.array(expected) * (1.0 - np.array(expected))))
    assert abs(np.sum(accepted) - np.sum(expected)) < 5.0 * error


def test_a_proposal_is_symmetric_and_moves_unless_it_says_otherwise():
    proposal = Proposal(np.zeros(2), 0.0, 0)
    assert (
        proposal.moved
        and not proposal.diverging
        and proposal.n_steps == 0
        and np.isnan(proposal.energy)
    )
