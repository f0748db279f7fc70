import numpy as np
import pytest

from kmc.mcmc.metropolis import Proposal, decide
from kmc.mcmc.tempering import COLD, Tempering
from tests.oracles.mcmc import tempered_value

TEMPERINGS = [COLD, Tempering(1.0, 0.3, np.inf), Tempering(1.0, 0.3, 2.0)]


@pytest.mark.parametrize("tempering", TEMPERINGS)
def test_the_probability_is_that_of_metropolis_and_hastings(tempering):
    rng = np.random.default_rng(0)
    for current, proposed, log_ratio in rng.normal(-2.0, 3.0, (200, 3)):
        _, probability = decide(rng, current, proposed, log_ratio=log_ratio, tempering=tempering)
        difference = np.diff(tempered_value(tempering, np.array([current, proposed])))[0]
        assert probability == pytest.approx(min(1.0, np.exp(difference + log_ratio)), rel=1e-12)


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


@pytest.mark.parametrize("tempering", TEMPERINGS)
def test_a_density_of_zero_is_never_accepted(tempering):
    rng = np.random.default_rng(1)
    for log_ratio in (0.0, 700.0, np.inf):
        for current in (-1e300, -5.0, -np.inf):
            assert decide(rng, current, -np.inf, log_ratio=log_ratio, tempering=tempering) == (False, 0.0)


def test_from_a_density_of_zero_everything_is_accepted():
    for tempering in TEMPERINGS:
        assert decide(np.random.default_rng(2), -np.inf, -1e300, log_ratio=0.0, tempering=tempering) == (True, 1.0)


def test_one_uniform_decides_whatever_the_values_are():
    """So a stream of random numbers does not depend on the target."""
    for current, proposed in [(-1.0, -np.inf), (-1.0, 5.0), (-1.0, -2.0), (-np.inf, -np.inf), (-1.0, -1e300)]:
        for seed in range(20):
            rng, twin = np.random.default_rng(seed), np.random.default_rng(seed)
            accepted, probability = decide(rng, current, proposed, log_ratio=0.1)
            assert accepted == (twin.random() < probability)
            assert rng.bit_generator.state == twin.bit_generator.state


@pytest.mark.parametrize("tempering", TEMPERINGS)
def test_detailed_balance_on_a_grid(tempering):
    """The transition matrix of a lopsided proposal on six points, one of them of density zero, built from decisions."""
    rng = np.random.default_rng(3)
    values = np.append(rng.normal(0.0, 2.0, 5), -np.inf)
    proposal = rng.dirichlet(np.ones(6), 6)
    target = np.exp(np.append(tempered_value(tempering, values[:5]), -np.inf))
    target /= target.sum()
    transition = np.zeros((6, 6))
    for i in range(6):
        for j in range(6):
            if i != j:
                log_ratio = np.log(proposal[j, i] / proposal[i, j])
                _, probability = decide(rng, values[i], values[j], log_ratio=log_ratio, tempering=tempering)
                transition[i, j] = proposal[i, j] * probability
        transition[i, i] = 1.0 - transition[i].sum()
    flow = target[:, None] * transition
    np.testing.assert_allclose(flow, flow.T, atol=1e-15)
    np.testing.assert_allclose(target @ transition, target, atol=1e-15)
    assert np.all(transition >= 0) and np.all(transition[:5, 5] == 0) and flow[0, 1] > 0


def test_a_proposal_is_symmetric_and_moves_unless_it_says_otherwise():
    proposal = Proposal(np.zeros(2), 0.0, 0)
    assert proposal.moved and not proposal.diverging and proposal.n_steps == 0 and np.isnan(proposal.energy)
