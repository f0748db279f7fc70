"""What warm-up makes of the proposal mixture after each round."""

from types import SimpleNamespace

import numpy as np
import pytest

from kmc.mcmc.mixture_tuner import MixtureTuner, MoveProbabilities
from kmc.mcmc.schedule import Round
from kmc.mcmc.surrogate_transition import InnerChainOptions

INNER = InnerChainOptions(step_size=0.0, trajectory_length=2.5, jump_probability=0.15, small_step_probability=0.4)
MAIN = MoveProbabilities(archive=0.06, single_move=0.2, tempered=0.3)


def tuner(**trainer):
    defaults = {"dim": 2, "fit": lambda mixture: None, "inner_chain_length": lambda mixture: None}
    return MixtureTuner(SimpleNamespace(**(defaults | trainer)), INNER, MAIN)


def a_round(acceptance=0.4, archive=()):
    return Round(cold=[acceptance] * 5, archive=list(archive))


def test_it_begins_with_archive_moves_alone():
    mixture = tuner().mixture
    assert mixture.surrogate is None and mixture.archive_probability == 1.0 and mixture.archive.shape == (0, 2)
    assert mixture.tempered_probability == mixture.single_move_probability == 0.0
    assert mixture.inner._replace(step_size=0.0) == INNER and mixture.inner.step_size > 0


@pytest.mark.parametrize(("acceptance", "lengths"), [(0.9, [6, 10, 16]), (0.4, [4, 4, 4]), (0.1, [2, 1, 1])])
def test_inner_chains_grow_while_they_are_accepted(acceptance, lengths):
    one, found = tuner(), []
    for _ in lengths:
        one.tune(a_round(acceptance))
        found.append(one.mixture.longest_chain)
    assert found == lengths


def test_inner_chains_stay_within_limits():
    long, short = tuner(), tuner()
    for _ in range(30):
        long.tune(a_round(1.0))
        short.tune(a_round(0.0))
    assert long.mixture.longest_chain == 50 and short.mixture.longest_chain == 1


@pytest.mark.parametrize(("acceptance", "probability"), [(0.2, 0.5), (0.31, 0.1), (0.9, 0.1)])
def test_poor_surrogates_are_used_less(acceptance, probability):
    one = tuner()
    one.tune(a_round(acceptance))
    assert one.mixture.archive_probability == probability


@pytest.mark.parametrize(("rates", "scale"), [([0.25] * 4, 1.0), ([0.3], 1.2), ([1.0], 1.5), ([0.0], 0.6), ([], 1.0)])
def test_the_scale_of_archive_moves_follows_their_acceptance(rates, scale):
    one = tuner()
    one.tune(a_round(archive=rates))
    assert one.mixture.archive_scale == pytest.approx(scale)


def test_the_scale_stays_within_limits():
    small, large = tuner(states=lambda: np.zeros((3, 2))), tuner()
    for _ in range(20):
        small.renew_archive(a_round(archive=[0.0]))
        large.tune(a_round(archive=[1.0]))
    assert small.mixture.archive_scale == 0.05 and large.mixture.archive_scale == 2.0
    assert small.mixture.archive.shape == (3, 2)


def test_a_fit_that_is_impossible_changes_nothing():
    one = tuner()
    before = one.mixture
    one.refit()
    one.tune_length()
    assert one.mixture is before


def test_the_main_phase_has_the_probabilities_that_were_asked_for():
    one = tuner(inner_chain_length=lambda mixture: 25)
    one.tune(a_round(0.1))
    one.finish()
    mixture = one.mixture
    found = mixture.archive_probability, mixture.single_move_probability, mixture.tempered_probability
    assert found == MAIN and (mixture.shortest_chain, mixture.longest_chain) == (12, 25)
