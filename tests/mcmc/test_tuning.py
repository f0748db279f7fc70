import numpy as np
import pytest

from kmc.mcmc.surrogate_transition import InnerChainOptions, inner_chain
from kmc.mcmc.tempering import COLD
from kmc.mcmc.tuning import INNER_CHAIN_LENGTHS, STEP_SIZES, Trials, choose_inner_chain_length, choose_step_size
from tests.oracles.mcmc import jit_state

OPTIONS = InnerChainOptions(step_size=0.2, trajectory_length=2.5, jump_probability=0.15, small_step_probability=0.4)
LADDER = sorted(STEP_SIZES)


def gaussian(dim, sd=1.0):
    """A surrogate that is N(0, sd²), exact draws as starts, and an archive."""
    state = jit_state(dim, sections=0)
    state = state._replace(location=np.zeros(dim), precision=np.eye(dim) / sd**2)
    draws = sd * np.random.default_rng(dim).standard_normal((264, dim))
    return state, draws[:64], draws[64:]


def rng():
    return np.random.default_rng(1)


@pytest.mark.parametrize("dim", [1, 3, 10])
def test_a_unit_gaussian_takes_large_steps(dim):
    step_size = choose_step_size(Trials(*gaussian(dim)), OPTIONS, rng())
    assert step_size in LADDER and step_size >= 0.3


@pytest.mark.parametrize("dim", [2, 10])
def test_steps_shrink_with_the_scale(dim):
    chosen = [choose_step_size(Trials(*gaussian(dim, sd)), OPTIONS, rng()) for sd in (1.0, 0.4, 0.15, 0.05)]
    assert np.all(np.diff(chosen) < 0)
    for step_size, sd in zip(chosen, (1.0, 0.4, 0.15, 0.05), strict=True):
        assert step_size < 2 * sd  # beyond that leapfrog is unstable


def test_a_place_too_narrow_takes_the_smallest():
    assert choose_step_size(Trials(*gaussian(2, 1e-6)), OPTIONS, rng()) == LADDER[0]


@pytest.mark.parametrize("sd", [1.0, 0.3, 0.1])
def test_the_chosen_step_is_accepted_and_the_next_is_not_much_better(sd):
    state, starts, archive = gaussian(5, sd)
    chosen = choose_step_size(Trials(state, starts, archive), OPTIONS, rng())

    def acceptance(step_size):
        options = OPTIONS._replace(step_size=step_size, jump_probability=0.0, small_step_probability=0.0)
        generator = np.random.default_rng(2)
        return np.mean([inner_chain(state, COLD, generator, z, 20, options, archive).acceptance_rate for z in starts])

    # Fresh runs: the choice itself rests on 128 trajectories, so one rung of grace.
    assert acceptance(chosen) > 0.88
    larger = [s for s in LADDER if s > chosen]
    assert len(larger) < 2 or acceptance(larger[1]) < 0.97


def test_runs_are_long_enough_to_forget_their_start():
    state, starts, archive = gaussian(3)
    assert choose_inner_chain_length(Trials(state, starts, archive), OPTIONS, rng()) == INNER_CHAIN_LENGTHS[0]
    crawling = OPTIONS._replace(step_size=0.01, trajectory_length=0.02, jump_probability=0.0)
    assert choose_inner_chain_length(Trials(state, starts, archive), crawling, rng()) == INNER_CHAIN_LENGTHS[-1]


def test_inner_chain_lengths_need_no_archive_and_no_spread():
    state, starts, _ = gaussian(2)
    assert choose_inner_chain_length(Trials(state, starts, np.empty((0, 2))), OPTIONS, rng()) in INNER_CHAIN_LENGTHS
    assert (
        choose_inner_chain_length(Trials(state, np.zeros((64, 2)), np.empty((0, 2))), OPTIONS, rng())
        == INNER_CHAIN_LENGTHS[-1]
    )


def test_choices_are_deterministic_and_change_nothing():
    state, starts, archive = gaussian(3)
    copies = starts.copy(), archive.copy()
    for choose in (choose_step_size, choose_inner_chain_length):
        assert choose(Trials(state, starts, archive), OPTIONS, rng()) == choose(
            Trials(state, starts, archive), OPTIONS, rng()
        )
    np.testing.assert_array_equal(starts, copies[0])
    np.testing.assert_array_equal(archive, copies[1])
