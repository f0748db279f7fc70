"""Decisions; every branch of them is enumerated in tests/correctness/test_enumeration.py."""

import numpy as np
import pytest

from kmc.mcmc.metropolis import Proposal, decide
from kmc.mcmc.tempering import COLD, Tempering
from tests.oracles.mcmc import tempered_value

TEMPERINGS = [COLD, Tempering(1.0, 0.3, np.inf), Tempering(1.0, 0.3, 2.0)]


@pytest.mark.parametrize("tempering", TEMPERINGS)
def test_what_is_tempered_may_be_the_density_of_other_coordinates(tempering):
    """p^b du instead of p^b dx: the volume counts once, whatever the temperature."""
    rng = np.random.default_rng(3)
    for current, proposed, log_ratio, *jacobians in rng.normal(-2.0, 3.0, (200, 5)):
        _, probability = decide(
            rng, current, proposed, log_ratio=log_ratio, tempering=tempering, jacobians=tuple(jacobians)
        )
        values = tempered_value(tempering, np.array([current, proposed]) - jacobians) + jacobians
        assert probability == pytest.approx(min(1.0, np.exp(np.diff(values)[0] + log_ratio)), rel=1e-12)


def test_a_proposal_is_symmetric_and_moves_unless_it_says_otherwise():
    proposal = Proposal(np.zeros(2), 0.0, 0)
    assert proposal.moved and not proposal.diverging and proposal.n_steps == 0 and np.isnan(proposal.energy)
