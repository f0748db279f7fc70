"""What is learned from a sweep: values, gradients, surprises, and acceptance."""

from types import SimpleNamespace

import numpy as np
import pytest

from kmc.mcmc.base import MOVES
from kmc.mcmc.learner import Learner, LearnerOptions
from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.mixture_tuner import MoveProbabilities
from kmc.mcmc.surrogate_transition import InnerChainOptions
from kmc.mcmc.tempering import COLD
from kmc.mcmc.user_gradient import OccasionalGradient
from kmc.surrogates import FitOptions

X = np.random.default_rng(0).standard_normal((150, 2))
MOVE = {name: k for k, name in enumerate(MOVES)}


def density(x):
    return -0.5 * np.sum(x**2, axis=1)


def learner(gradient=None, fitted=True):
    rng = np.random.default_rng(1)
    fit = FitOptions(n_basis=20, bandwidths=(1.2,))
    options = LearnerOptions(fit, 100, InnerChainOptions(0.0, 2.0, 0.1, 0.4), MoveProbabilities(0.1, 0.1, 0.1))
    one = Learner(2, options, rng=rng, gradient=gradient)
    one.record(X, density(X))
    one.begin(X, np.empty(0))
    if fitted:
        one.refit()
    return one


def test_proposals_and_probes_are_stored_and_compared_with_the_surrogate():
    one = learner()
    one.choose_probes(1.0, 3)
    proposed, probes = np.array([[0.0, 0.1], [0.2, 0.0]]), one.further_points
    assert probes.shape == (3, 2)
    values = np.concatenate([[density(proposed[:1])[0], density(proposed[1:])[0] + 10.0], density(probes)])
    one.learn(proposed, values, with_gradients=True)
    np.testing.assert_array_equal(one.trainer.history.x[len(X) :], np.vstack([proposed, probes]))
    np.testing.assert_array_equal(one.trainer.history.log_density[len(X) :], values)
    assert one.facts()["n_probes"] == one.round.probes == 3 and one.round.n_points == 2
    assert one.round.low == 1  # the surrogate is ten nats too low at one of the proposals


def test_values_that_belong_to_another_mode_are_left_out():
    one = learner()
    one.learn(X[:3] + 0.1, np.array([np.nan, -1.0, np.nan]), with_gradients=True)
    assert len(one.trainer.history) == len(X) + 1 and one.round.n_points == 1


def test_there_are_no_probes_without_a_surrogate_or_at_the_end():
    one = learner(fitted=False)
    one.choose_probes(1.0, 5)
    assert one.further_points.shape == (0, 2)
    one.refit()
    one.choose_probes(1.0, 5)
    assert one.further_points.shape == (5, 2)
    one.finish()
    assert one.further_points.shape == (0, 2)


@pytest.mark.parametrize("with_gradients", [True, False])
def test_gradients_are_asked_for_beside_new_values(with_gradients):
    gradient = OccasionalGradient(np.negative)
    one = learner(gradient, fitted=False)
    before, x = gradient.n_known, np.array([[0.3, 0.1]])
    one.learn(x, density(x), with_gradients=with_gradients)
    assert gradient.n_known == before + with_gradients
    np.testing.assert_array_equal(one.trainer.history.gradients[-1], -x[0] if with_gradients else [np.nan, np.nan])


def test_the_acceptance_of_each_kind_of_move_is_kept_apart():
    one = learner(fitted=False)
    moves = ["surrogate", "tempered-surrogate", "snooker", "surrogate"]
    proposals = [Proposal(np.zeros(2), 0.0, MOVE[name]) for name in moves]
    proposals.append(SimpleNamespace(move=len(MOVES)))  # one of the user's
    one.tally(proposals, np.array([1.0, 1.0, 1.0, 0.5, 1.0]), np.array([0.1, 0.2, 0.3, 0.4, 0.5]))
    assert (one.round.cold, one.round.archive, one.round.hot) == ([0.1, 0.2], [0.3], [0.4])


def test_hot_walkers_move_on_a_flattened_density():
    one = learner(fitted=False)
    assert one.tempering(1.0) is COLD
    tempering = one.tempering(0.25)
    assert tempering.beta == 0.25 and tempering.top == density(X).max()


def test_a_new_round_begins_after_each_fit_and_each_renewal_of_the_archive():
    one = learner(fitted=False)
    one.round.archive += [0.2] * 40
    assert one.archive_is_old
    one.renew_archive()
    assert one.round.archive == [] and not one.archive_is_old
    one.refit()
    one.round.archive += [0.2] * 40
    assert not one.archive_is_old
    one.next_round()
    assert one.round.archive == []
