"""The moves of the main phase. Their stationary distribution is tested in tests/correctness."""

import numpy as np
import pytest

from kmc.mcmc.proposal_mixture import ProposalMixture
from kmc.mcmc.surrogate_transition import InnerChainOptions
from kmc.surrogates.fit import FitOptions, fit_surrogate

INNER = InnerChainOptions(step_size=0.4, trajectory_length=2.0, jump_probability=0.2, small_step_probability=0.4)


def wrong(x):
    """The density that the surrogate learns instead of the target."""
    return -0.5 * np.sum(((x - 0.4) / [1.6, 1.1]) ** 2, axis=1) + np.sin(2 * x[:, 0])


@pytest.fixture(scope="module")
def surrogate():
    rng = np.random.default_rng(0)
    x = np.vstack([2.0 * rng.standard_normal((150, 2)), rng.uniform(-5, 5, (100, 2))])
    states = x[:100]
    return fit_surrogate(x, wrong(x), states, rng=rng, options=FitOptions(n_basis=25, bandwidths=(1.2, 2.0)))


def plan(surrogate, **options):
    archive = np.random.default_rng(1).standard_normal((30, 2)) * 2
    fields = {
        "surrogate": surrogate,
        "archive": archive,
        "archive_z": np.empty((0, 2)) if surrogate is None else surrogate.coordinates(archive),
        "archive_probability": 0.15,
        "archive_scale": 0.8,
        "inner": INNER,
        "shortest_chain": 1,
        "longest_chain": 4,
        "single_move_probability": 0.2,
        "tempered_probability": 0.3,
    }
    return ProposalMixture(**(fields | options))


def test_a_run_that_goes_nowhere_needs_no_evaluation(surrogate):
    stuck = plan(surrogate, archive_probability=0.0, inner=InnerChainOptions(1e6, 1e6, 0.0, 0.0))
    x = np.array([0.3, -0.2])
    for seed in range(10):
        proposal = stuck.propose(np.random.default_rng(seed), x)
        assert not proposal.moved
        np.testing.assert_array_equal(proposal.position, x)


def test_a_plan_is_not_changed_by_proposing(surrogate):
    moves, rng = plan(surrogate), np.random.default_rng(6)
    arrays = [moves.archive, moves.archive_z, *(a for a in surrogate.jit_state if isinstance(a, np.ndarray))]
    copies = [a.copy() for a in arrays]
    for _ in range(100):
        moves.propose(rng, np.ones(2))
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
