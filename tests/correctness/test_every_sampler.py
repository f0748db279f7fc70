"""Each sampler has all four: rank tests from exact draws, calibration, an enumeration, and an error that is seen.

``KINDS`` names them. A new sampler needs its row.
"""

from typing import NamedTuple

import pytest

from kmc import mcmc
from kmc.mcmc.ask_tell import Startable
from tests.correctness import test_calibration, test_enumeration, test_mutations
from tests.correctness.invariance import MOVES, TARGETS


class Kind(NamedTuple):
    """What tests a sampler, or options of it that propose in another way."""

    moves: str  # of invariance.py, separated by commas
    calibrated: str  # names in test_calibration.py
    enumerated: str  # tests of test_enumeration.py
    mutated: str  # tests of test_mutations.py


DEFAULT = ", ".join(test_calibration.MODELS)
KINDS = {
    "AdaptiveLangevin": Kind(
        "langevin, langevin updated online, langevin with the covariance of the position",
        "adaptive-langevin, updates online, covariance of the position",
        "test_langevin, test_langevin_with_a_covariance_of_the_position",
        "test_a_langevin_step_without_its_densities_is_seen, test_a_local_covariance_without_its_determinant_is_seen",
    ),
    "AdaptiveMetropolis": Kind(
        "adaptive Metropolis, differential evolution",
        "adaptive-metropolis",
        "test_independent_proposals, test_differential_evolution_in_the_plane",
        "test_an_independent_proposal_without_its_densities_is_seen",
    ),
    "DelayedAcceptance": Kind(
        "delayed acceptance",
        "delayed-acceptance",
        "test_delayed_acceptance",
        "test_screening_without_its_ratio_is_seen",
    ),
    "Kameleon": Kind("kameleon", "kameleon", "test_kameleon", "test_a_kameleon_without_its_densities_is_seen"),
    "KernelHMC": Kind(
        "frozen process, frozen process fitted to wrong gradients, mixture on a wrong surrogate, moves from outside",
        f"{DEFAULT}, kernel-hmc, moves from outside",
        "test_a_frozen_process, test_a_frozen_process_with_moves_from_outside, test_moves_of_a_plan_on_a_line",
        "test_a_wrong_ratio_is_seen_by_enumeration, "
        "test_a_surrogate_that_changes_after_the_freeze_is_seen_by_enumeration, "
        "test_moves_from_outside_without_their_ratios_are_seen_by_enumeration",
    ),
    "RandomWalkMetropolis": Kind(
        "random walk",
        "random walk",
        "test_a_random_walk",
        "test_a_random_walk_whose_steps_depend_on_the_state_is_seen",
    ),
    "ScoreHMC": Kind(
        "paths and walks on a wrong score",
        "score HMC",
        "test_paths_along_a_score",
        "test_a_path_along_a_score_without_its_momenta_is_seen",
    ),
    "Tempered": Kind(
        "parallel tempering",
        "tempered",
        "test_parallel_tempering",
        "test_swaps_without_their_ratio_are_seen_by_enumeration, "
        "test_swaps_without_their_ratio_are_seen_from_exact_draws",
    ),
}

CALIBRATED = {*test_calibration.MODELS, *test_calibration.SAMPLERS, *test_calibration.OPTIONS, "kernel-hmc"}


def split(names):
    return set(names.split(", "))


def public_samplers():
    found = (getattr(mcmc, name) for name in mcmc.__all__)
    return {one.__name__ for one in found if isinstance(one, type) and issubclass(one, Startable)}


def test_every_public_sampler_is_here():
    assert set(KINDS) == public_samplers() >= {sampler.__name__ for sampler in mcmc.SAMPLERS.values()}


@pytest.mark.parametrize("name", KINDS)
def test_what_tests_a_sampler_exists(name):
    kind = KINDS[name]
    assert split(kind.moves) <= set(MOVES)
    assert split(kind.calibrated) <= CALIBRATED
    assert all(callable(getattr(test_enumeration, test, None)) for test in split(kind.enumerated))
    assert all(callable(getattr(test_mutations, test, None)) for test in split(kind.mutated))


def test_exact_draws_are_of_ten_targets():
    assert len(TARGETS) == 10
