"""The bookkeeping of acceptance and rejection, enumerated: every branch from every state, to
rounding.
"""

import itertools

import numpy as np
import pytest

from kmc.samplers.metropolis import decide
from kmc.samplers.moves import differential_evolution, snooker
from kmc.samplers.walkers import Walkers, requested
from kmc.surrogate.coordinates.walls import WallState
from tests.correctness.lattices import (
    FROM_OUTSIDE,
    check_evolution,
    check_independence,
    check_kameleon,
    check_langevin,
    check_mode_jumps,
    check_noisy_target,
    check_plan,
    check_process,
    check_random_walk,
    check_riemannian,
    check_score_paths,
    check_screening,
    check_snooker_on_rays,
    check_tempering,
    check_volumes,
    grid,
    line,
    to_five,
)
from tests.grids import slow_except
from tests.oracles.bookkeeping import EXACT, ForkingGenerator, outcomes

WALL = WallState(np.eye(1), np.zeros(1), np.array([0.4]), np.array([[1.5]]), np.zeros((0, 1, 1)))
RUNS = {"archive_probability": 0.0, "tempered_probability": 0.0, "shortest_chain": 2}


# The enumeration itself


def test_branches_of_a_function():
    def function(rng):
        return (
            rng.random() < 0.25,
            rng.integers(2, 4),
            int(rng.random() * 2),
            tuple(rng.choice(3, 2, replace=False)),
        )

    leaves = list(outcomes(function))
    assert len(leaves) == len({leaf for _, leaf in leaves}) == 2 * 2 * 2 * 6
    assert sum(p for p, _ in leaves) == pytest.approx(1.0, abs=EXACT)
    assert sum(p for p, leaf in leaves if leaf[0]) == pytest.approx(0.25, abs=EXACT)


def test_impossible_branches_are_not_taken():
    assert [leaf for _, leaf in outcomes(lambda rng: rng.random() < 1.0)] == [True]
    assert [leaf for _, leaf in outcomes(lambda rng: rng.random() < np.nan)] == [False]
    assert [leaf for _, leaf in outcomes(lambda rng: np.log(rng.random()) < -np.inf)] == [False]


def test_a_uniform_number_is_not_used_twice():
    uniform = ForkingGenerator([], {}).random()
    assert uniform < 1.0
    with pytest.raises(AssertionError, match="twice"):
        uniform < 0.5  # noqa: B015


def test_the_rest_of_a_uniform_number_is_compared():
    def function(rng):
        left = rng.random()
        if left < 0.3:
            return "first"
        left -= 0.3
        return "second" if left < 0.2 else "none"

    assert {leaf: pytest.approx(p, abs=EXACT) for p, leaf in outcomes(function)} == {
        "first": 0.3,
        "second": 0.2,
        "none": 0.5,
    }
    with pytest.raises(AssertionError, match="only the threshold"):
        ForkingGenerator([], {}).random() - 0.1


# Moves on lattices


@pytest.mark.parametrize(
    "options",
    slow_except(
        {
            "mixture": {},
            "archive moves": {"archive_probability": 1.0},
            "runs": RUNS,
            "single moves": RUNS | {"shortest_chain": 1, "longest_chain": 1},
            "tempered runs": RUNS | {"tempered_probability": 1.0},
            "runs at a wall": RUNS | {"tempered_probability": 0.5, "wall": WALL},
        },
        {"mixture", "runs", "tempered runs", "runs at a wall"},
    ),
)
def test_moves_of_a_plan_on_a_line(options):
    """Differential evolution, the snooker (in one dimension it has lattices), and runs of draws
    from a mixture.

    The runs also leave the lattice and come back, as the surrogate does not know that the density
    is zero outside.
    """
    check_plan(line(), **options)


def test_runs_in_the_plane():
    check_plan(grid(), archive_probability=0.0, tempered_probability=0.0)


def test_differential_evolution_in_the_plane():
    check_evolution(grid())


@pytest.mark.parametrize("dim", [1, 2, 3, 6])
def test_a_snooker_on_a_line_through_its_center(dim):
    check_snooker_on_rays(dim)


@pytest.mark.parametrize("dim", [1, 2, 3, 6])
def test_log_ratios_are_the_volumes_of_maps(dim):
    check_volumes(snooker, dim)
    check_volumes(lambda rng, x, archive: differential_evolution(rng, x, archive, scale=0.7), dim)


def test_independent_proposals():
    check_independence()


def test_kameleon():
    check_kameleon()


def test_a_random_walk():
    check_random_walk()


def test_paths_along_a_score():
    check_score_paths()


def test_langevin():
    check_langevin()


def test_langevin_with_a_covariance_of_the_position():
    check_riemannian()


def test_delayed_acceptance():
    check_screening()


@pytest.mark.parametrize("apart", [False, True], ids=["density", "likelihood"])
@pytest.mark.parametrize(("betas", "moves"), [((1.0, 0.4), True), ((1.0, 0.5, 0.2), False)])
def test_parallel_tempering(betas, moves, apart):
    check_tempering(5, betas, moves, apart)


@pytest.mark.filterwarnings("ignore:The gradient disagrees:kmc.KmcWarning")
@pytest.mark.parametrize(
    "gradients", slow_except({"values": None, "gradients": np.cos}, {"gradients"})
)
def test_a_frozen_process(gradients):
    check_process(line(5), gradients)


def test_a_frozen_process_with_moves_from_outside():
    check_process(line(5), moves=FROM_OUTSIDE)


def test_jumps_between_modes():
    check_mode_jumps()


def test_a_noisy_target():
    check_noisy_target()


# Every branch of a decision

CURRENT = [0.0, -3.0, -np.inf]
PROPOSED = [1.5, -0.3, -40.0, -1e300, -np.inf, np.nan]
LOG_RATIOS = [0.0, 2.0, -2.0, 800.0, np.inf, -np.inf, np.nan]


def acceptance(current, proposed, log_ratio):
    """The Metropolis–Hastings probability: zero for a density of zero and for NaN."""
    if np.isnan(proposed) or proposed == -np.inf:
        return 0.0
    exponent = proposed - current + log_ratio
    return 0.0 if np.isnan(exponent) else float(np.exp(min(0.0, exponent)))


def test_every_branch_of_a_decision():
    """State, value and statistics of both branches, and the probability of each."""
    options = {"n_steps": 4, "step_size": 0.3, "energy": 2.5, "diverging": True}
    for current, proposed, log_ratio in itertools.product(CURRENT, PROPOSED, LOG_RATIOS):

        def step(rng, current=current, proposed=proposed, log_ratio=log_ratio):
            group = Walkers([rng], np.zeros((1, 2)), np.array([current]))
            stats = group.decide([to_five(log_ratio, **options)], np.array([proposed]))
            return group, {name: value[0] for name, value in stats.items()}

        expected, total = acceptance(current, proposed, log_ratio), 0.0
        for probability, (group, stats) in outcomes(step):
            total += probability * stats["accepted"]
            np.testing.assert_array_equal(group.x[0], 5.0 if stats["accepted"] else 0.0)
            np.testing.assert_array_equal(
                group.log_density, [proposed if stats["accepted"] else current]
            )
            assert stats["acceptance_rate"] == pytest.approx(expected, rel=1e-12)
            assert (
                stats["n_evaluations"],
                stats["n_steps"],
                stats["step_size"],
                stats["energy"],
            ) == (1, 4, 0.3, 2.5)
            assert stats["diverging"] and stats["move"] == 1
        assert total == pytest.approx(expected, rel=1e-12)


def test_a_proposal_that_did_not_move():
    """No branch, no evaluation, and its neighbors in the same sweep get their own values."""

    def step(rng):
        group = Walkers([rng] * 3, np.arange(6.0).reshape(3, 2), np.array([-1.0, -2.0, -3.0]))
        proposals = [to_five(np.inf), to_five(np.inf, moved=False), to_five(0.0)]
        assert len(requested(proposals, 2)) == 2
        stats = group.decide(proposals, np.array([-7.0, -9.0]))
        return group, stats

    leaves = list(outcomes(step))
    assert len(leaves) == 2
    for probability, (group, stats) in leaves:
        third = bool(stats["accepted"][2])
        np.testing.assert_array_equal(stats["accepted"], [True, False, third])
        np.testing.assert_array_equal(stats["n_evaluations"], [1, 0, 1])
        np.testing.assert_array_equal(group.x, [[5, 5], [2, 3], [5, 5] if third else [4, 5]])
        np.testing.assert_array_equal(group.log_density, [-7.0, -2.0, -9.0 if third else -3.0])
        expected = acceptance(-3.0, -9.0, 0.0)
        assert probability == pytest.approx(expected if third else 1 - expected, rel=1e-12)
        np.testing.assert_allclose(stats["acceptance_rate"], [1.0, 0.0, expected], rtol=1e-12)


def test_a_decision_takes_one_number_in_every_case():
    for proposed in PROPOSED:
        rng, twin = np.random.default_rng(1), np.random.default_rng(1)
        decide(rng, -1.0, proposed, log_ratio=0.0)
        twin.random()
        assert rng.bit_generator.state == twin.bit_generator.state
