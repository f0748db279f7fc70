"""The moves of the main phase. Their stationary distribution is tested in tests/correctness."""

import numpy as np
import pytest

from kmc.kernel_hmc.proposals import ArchiveMoves, ProposalMixture, distinct, flattest
from kmc.samplers.base import MOVES
from kmc.samplers.inner_chains import InnerChainOptions
from kmc.samplers.local_mixture import local_mixture
from kmc.surrogate.coordinates.funnels import Funnel
from kmc.surrogate.coordinates.transport import IDENTITY
from kmc.surrogate.density import Component
from kmc.surrogate.process import Seen, fit_to_draws

INNER = InnerChainOptions(
    step_size=0.4, trajectory_length=2.0, independence_probability=0.2, small_step_probability=0.4
)
FUNNEL = Funnel(0, 0.1, np.zeros(2), np.array([0.0, 0.5]))


def wrong(x):
    """The density that the surrogate learns instead of the target."""
    return -0.5 * np.sum(((x - 0.4) / [1.6, 1.1]) ** 2, axis=1) + np.sin(2 * x[:, 0])


@pytest.fixture(scope="module", params=[IDENTITY, FUNNEL], ids=["identity", "funnel"])
def surrogate(request):
    rng = np.random.default_rng(0)
    x = np.vstack([2.0 * rng.standard_normal((40, 2)), rng.uniform(-5, 5, (20, 2))])
    return Component.of(
        fit_to_draws(Seen(x, wrong(x), x[:40], np.full(x.shape, np.nan)), rng, request.param)
    )


def plan(surrogate, **options):
    archive = np.random.default_rng(1).standard_normal((30, 2)) * 2
    fields = {
        "surrogate": surrogate,
        "mixture": local_mixture(surrogate.coordinates(archive)),
        "archive_probability": 0.15,
        "inner": INNER,
        "shortest_chain": 1,
        "longest_chain": 4,
        "tempered_probability": 0.3,
    }
    chosen = fields | options
    archive_moves = ArchiveMoves(archive, chosen.pop("archive_probability"))
    return ProposalMixture(others=[*chosen.pop("others", []), archive_moves], **chosen)


def proposed(moves, count=60):
    x = np.random.default_rng(2).standard_normal((count, 2))
    return x, moves.propose([np.random.default_rng(i) for i in range(count)], list(x))


def test_the_ratio_is_that_of_the_surrogates_density(surrogate):
    """log s(x) - log s(x'), both of x: the transport's volume is part of it."""
    x, proposals = proposed(plan(surrogate, archive_probability=0.0, tempered_probability=0.0))
    ends = np.array([proposal.position for proposal in proposals])
    expected = surrogate.log_density(x) - surrogate.log_density(ends)
    np.testing.assert_allclose(
        [proposal.log_ratio for proposal in proposals], expected, rtol=1e-9, atol=1e-9
    )
    assert {MOVES[proposal.move] for proposal in proposals} == {"surrogate"}
    assert np.mean([proposal.moved for proposal in proposals]) > 0.5 and all(
        p.step_size == 0.4 for p in proposals
    )


def test_kinds_of_moves_have_their_probabilities(surrogate):
    _, proposals = proposed(plan(surrogate), 400)
    kinds = np.array([MOVES[proposal.move] for proposal in proposals])
    expected = {"tempered-surrogate": 0.85 * 0.3, "surrogate": 0.85 * 0.7, "snooker": 0.15 * 0.15}
    for kind, p in expected.items():
        assert abs(np.mean(kinds == kind) - p) < 4.5 * np.sqrt(p * (1 - p) / len(kinds))
    assert set(kinds) == {*expected, "differential-evolution"}


def test_the_ratio_of_a_tempered_move_is_between_nothing_and_the_surrogates(surrogate):
    """The power is between that of the flattest surrogate and one."""
    x, proposals = proposed(plan(surrogate, archive_probability=0.0, tempered_probability=1.0))
    ends = np.array([proposal.position for proposal in proposals])
    volumes = surrogate.transport.log_jacobian(x) - surrogate.transport.log_jacobian(ends)
    full = surrogate.log_density(x) - surrogate.log_density(ends) - volumes
    ratios = np.array([proposal.log_ratio for proposal in proposals]) - volumes
    large = np.abs(full) > 1e-3
    powers = ratios[large] / full[large]
    assert (
        large.sum() > 30
        and flattest(2) - 1e-6 < powers.min() < 0.6
        and 0.8 < powers.max() < 1.0 + 1e-6
    )


def test_a_chain_that_goes_nowhere_needs_no_evaluation(surrogate):
    stuck = plan(surrogate, archive_probability=0.0, inner=InnerChainOptions(1e6, 1e6, 0.0, 0.0))
    x = np.array([0.3, -0.2])
    for seed in range(10):
        (proposal,) = stuck.propose([np.random.default_rng(seed)], [x])
        assert not proposal.moved
        np.testing.assert_array_equal(proposal.position, x)


def test_proposals_side_by_side_are_those_of_one_after_the_other(surrogate):
    moves = plan(surrogate)
    x, together = proposed(moves)
    for i, (row, proposal) in enumerate(zip(x, together, strict=True)):
        (alone,) = moves.propose([np.random.default_rng(i)], [row])
        np.testing.assert_array_equal(proposal.position, alone.position)
        np.testing.assert_equal(proposal[1:], alone[1:])
    assert len({proposal.move for proposal in together}) > 2


def test_a_plan_is_not_changed_by_proposing(surrogate):
    moves, rng = plan(surrogate), np.random.default_rng(6)
    arrays = [
        moves.others[0].archive,
        *moves.mixture,
        *(a for a in surrogate.jit_state if isinstance(a, np.ndarray)),
    ]
    copies = [a.copy() for a in arrays]
    for _ in range(100):
        moves.propose([rng], [np.ones(2)])
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_an_archive_has_no_point_twice():
    states = np.repeat(np.random.default_rng(7).standard_normal((20, 3)), 5, axis=0)
    found = distinct(states, 12, np.random.default_rng(8))
    assert found.shape == (12, 3) == np.unique(found, axis=0).shape
    assert len(distinct(states, 100, np.random.default_rng(8))) == 20
    assert {tuple(row) for row in found} <= {tuple(row) for row in states}
