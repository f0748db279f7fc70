"""The moves of the main phase. Their stationary distribution is tested in tests/correctness."""

import numpy as np
import pytest

from kmc.mcmc.base import MOVES
from kmc.mcmc.proposal_mixture import ProposalMixture, distinct
from kmc.mcmc.surrogate_transition import InnerChainOptions
from kmc.surrogates.fit import FitOptions, fit_surrogate
from tests.oracles.mcmc import assert_standard

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


def test_kinds_and_lengths_do_not_depend_on_the_state(surrogate):
    """Inner chains draw the same numbers whatever they accept, so the same seed gives the same leapfrog steps."""
    moves = plan(surrogate)
    for seed in range(200):
        starts = (np.zeros(2), np.array([2.0, -1.0]), np.array([-1.0, 0.5]))
        proposals = [moves.propose(np.random.default_rng(seed), x) for x in starts]
        assert len({(p.move, p.n_steps) for p in proposals}) == 1


def test_shares_of_moves(surrogate):
    rng, n = np.random.default_rng(4), 4000
    moves = plan(surrogate)
    kinds = np.bincount([moves.propose(rng, np.zeros(2)).move for _ in range(n)], minlength=len(MOVES))
    share = dict(zip(MOVES, kinds / n, strict=True))
    expected = {"surrogate": 0.85 * 0.7, "tempered-surrogate": 0.85 * 0.3, "random-walk": 0.0}
    for name, p in expected.items():
        assert_standard((share[name] - p) / np.sqrt(max(p * (1 - p), 1e-9) / n))
    assert share["differential-evolution"] > 0 and share["snooker"] > 0


def test_without_a_surrogate_there_are_only_archive_moves():
    rng = np.random.default_rng(5)
    kinds = {MOVES[plan(None).propose(rng, np.zeros(2)).move] for _ in range(100)}
    assert kinds == {"differential-evolution", "snooker"}


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


@pytest.mark.parametrize("most", [1, 3, 100])
def test_distinct_states(most):
    states = np.repeat(np.arange(8.0).reshape(4, 2), [1, 5, 2, 3], axis=0)
    chosen = distinct(states, most, np.random.default_rng(7))
    assert chosen.shape == (min(most, 4), 2)
    assert len(np.unique(chosen, axis=0)) == len(chosen)
    assert {tuple(row) for row in chosen} <= {tuple(row) for row in states}
