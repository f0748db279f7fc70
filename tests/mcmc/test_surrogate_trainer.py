"""What the trainer keeps of a run, and the fits that it makes of it."""

from dataclasses import replace

import numpy as np
import pytest

from kmc.mcmc import surrogate_trainer
from kmc.mcmc.proposal_mixture import ProposalMixture
from kmc.mcmc.surrogate_trainer import SurrogateTrainer
from kmc.mcmc.surrogate_transition import InnerChainOptions
from kmc.surrogates import FitOptions, fit_surrogate
from kmc.surrogates.depth import bulk_depth

FIT = FitOptions(n_basis=20, bandwidths=(1.2, 2.0))
X = np.random.default_rng(1).standard_normal((250, 2)) * 1.5
INNER = InnerChainOptions(step_size=0.3, trajectory_length=2.5, jump_probability=0.15, small_step_probability=0.4)
NO_SURROGATE = ProposalMixture(None, np.empty((0, 2)), np.empty((0, 2)), 1.0, 1.0, INNER, 1, 4, 0.0, 0.0)
BETAS = np.array([1.0, 0.5, 0.25])


def density(x):
    return -0.5 * np.sum(x**2, axis=1)


def trainer(**options):
    defaults = {"max_archive": 100, "rng": np.random.default_rng(0)}
    return SurrogateTrainer(2, FIT, **(defaults | options))


def trained(x=X, **options):
    """A trainer with evaluations at x, of which the first 60 are states, 20 sweeps of three walkers."""
    one = trainer(**options)
    one.history.extend(x, density(x))
    one.begin(x[:10])
    for walkers in X[:60].reshape(20, 3, 2):
        one.visit(walkers, density(walkers), BETAS)
    return one


# What it keeps


def test_a_given_history_is_not_of_the_run():
    one = trainer(given=(X[:50], density(X[:50])))
    one.history.extend(X[50:60], density(X[50:60]))
    assert (one.n_given, one.n_own, len(one.history)) == (50, 10, 60)


def test_states_before_the_first_sweep_are_the_cloud():
    one = trainer()
    one.begin(X[:8])
    np.testing.assert_array_equal(np.unique(one.states(), axis=0), np.unique(X[:8], axis=0))


def test_states_are_those_of_the_coldest_walkers_that_have_visited_enough():
    one = trained()
    cold = X[:60].reshape(20, 3, 2)[8:, 0]  # of the last three fifths: 12 points, and 11 are enough in 2 dimensions
    np.testing.assert_array_equal(np.unique(one.states(), axis=0), np.unique(cold, axis=0))
    few = trainer()
    for walkers in X[:30].reshape(10, 3, 2):
        few.visit(walkers, density(walkers), BETAS)
    assert len(few.states()) == 2 * 6  # 6 of the coldest are too few: with the next temperature


def test_states_are_no_more_than_the_archive_may_have():
    assert len(trained(max_archive=7).states()) == 7


def test_states_keep_modes_that_the_walkers_have_left():
    far = X[:3] + np.array([40.0, 0.0])

    def with_another_mode(**options):
        one = trained(**options)
        one.history.extend(far, np.zeros(3))
        return one.states()

    plain, kept = with_another_mode(), with_another_mode(keeps_modes=True)
    np.testing.assert_array_equal(kept[: len(plain)], plain)
    np.testing.assert_array_equal(np.unique(kept[len(plain) :], axis=0), np.unique(far, axis=0))


def test_cold_visits_are_at_temperature_one():
    one = trained()
    x, values = one.cold_visits(0.25)
    np.testing.assert_array_equal(x, X[:60].reshape(20, 3, 2)[15:, 0])
    np.testing.assert_array_equal(values, density(x))
    assert trainer().cold_visits(1.0)[0].shape == (0, 2)


# Depths


def test_the_top_is_the_highest_value():
    assert trained().top == density(X).max()


def test_the_edge_of_tempering_lies_past_the_states():
    bulk = bulk_depth(2)
    assert trainer().tempering_edge() == bulk + 5.0
    shallow = trained()
    assert shallow.tempering_edge() == bulk + 5.0  # all of them lie in the bulk
    deep = trained()
    for _ in range(100):
        deep.visit(100.0 * X[:3], density(100.0 * X[:3]), BETAS)
    assert deep.tempering_edge() == 2.0 * bulk + 3.0


# Fits


def test_a_fit_is_of_the_states_and_tunes_the_step_size():
    one = trained()
    fit = one.fit(NO_SURROGATE)
    assert fit.surrogate.loo_sd < 0.05 and one.n_fits == 1 and one.settled_at == one.n_own == 250
    np.testing.assert_allclose(fit.surrogate.back(fit.archive_z), fit.archive, atol=1e-9)
    assert fit.inner.step_size >= 0.3 and fit.inner._replace(step_size=0.3) == INNER


def test_a_second_fit_that_changes_little_has_settled():
    one = trained()
    mixture = NO_SURROGATE._replace(**one.fit(NO_SURROGATE)._asdict())
    more = np.random.default_rng(2).standard_normal((50, 2))
    one.history.extend(more, density(more))
    assert one.fit(mixture) is not None
    assert (one.n_fits, one.settled_at, one.n_own) == (2, 250, 300)


def test_no_fit_without_values():
    one = trainer()
    one.begin(X[:5])
    one.history.extend(X[:5], np.array([-1.0, *[-np.inf] * 4]))
    assert one.fit(NO_SURROGATE) is None and one.n_fits == 0


@pytest.mark.parametrize(("before", "now", "keeps"), [(1.0, 0.0, False), (0.0, 3.0, True)])
def test_a_worse_fit_must_be_better_on_recent_values(monkeypatch, before, now, keeps):
    """By its own account the new fit is worse; on the values one of them is off by a constant."""

    def off(surrogate, constant):
        state = surrogate.jit_state
        return replace(surrogate, jit_state=state._replace(constant=state.constant + constant))

    def worse(*args, **options):
        return replace(off(fit_surrogate(*args, **options), now), loo_sd=5.0)

    one = trained()
    mixture = NO_SURROGATE._replace(**one.fit(NO_SURROGATE)._asdict())
    mixture = mixture._replace(surrogate=off(mixture.surrogate, before))

    monkeypatch.setattr(surrogate_trainer, "fit_surrogate", worse)
    monkeypatch.setattr(SurrogateTrainer, "_sphered", lambda self, surrogate, states, mixture: surrogate)
    found = one.fit(mixture).surrogate
    assert (found is mixture.surrogate) == keeps


def test_the_length_of_inner_chains():
    one = trained()
    assert one.inner_chain_length(NO_SURROGATE) is None
    mixture = NO_SURROGATE._replace(**one.fit(NO_SURROGATE)._asdict())
    assert one.inner_chain_length(mixture) == 12  # a Gaussian is forgotten at once


# Probes


@pytest.mark.parametrize("noisy", [False, True])
def test_probes_are_points_of_the_users_space(noisy):
    one = trained(noisy=noisy)
    surrogate = one.fit(NO_SURROGATE).surrogate
    assert one.probes(surrogate, 0, 10.0).shape == (0, 2)
    points = one.probes(surrogate, 40, 10.0)
    assert points.shape == (40, 2) and np.all(np.isfinite(points))
    assert 0.5 < np.linalg.norm(points, axis=1).mean() < 8.0
