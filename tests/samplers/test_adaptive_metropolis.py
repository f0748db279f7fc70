"""Adaptive Metropolis: what its proposals learn. Their stationary distribution is tested in
tests/correctness.
"""

import numpy as np
import pytest

from kmc.model.toys import Gaussian
from kmc.samplers.adaptive_metropolis import (
    EVOLUTION,
    INDEPENDENCE,
    LANGEVIN,
    WALK,
    AdaptiveMetropolis,
)
from kmc.samplers.base import MOVES, SamplerSetup
from kmc.scores import GaussianScore, NystromKEF

ELLIPSE = Gaussian(2, correlation=0.7, spread=3.0)


def started(sampler, target=ELLIPSE, chains=4, seed=0, warmup=400):
    rng = np.random.default_rng(seed)
    initial = 3.0 * rng.standard_normal((chains, 2))
    return sampler.start(
        SamplerSetup(
            dim=2,
            chains=chains,
            initial=initial,
            initial_log_density=values(initial, target),
            draws=None,
            warmup=warmup,
            max_evaluations=None,
            seed=np.random.SeedSequence(seed),
        )
    )


def values(points, target=ELLIPSE):
    return np.array([target(x) for x in points])


def drive(state, sweeps, target=ELLIPSE):
    return [state.advance(values(state.propose(), target)) for _ in range(sweeps)]


def test_the_first_sweeps_are_a_random_walk_and_then_all_kinds_come():
    state = started(AdaptiveMetropolis())
    kinds = np.array([step.stats["move"] for step in drive(state, 400)])
    assert set(kinds[:10].ravel()) == {WALK}
    assert set(kinds[100:].ravel()) == {WALK, EVOLUTION, INDEPENDENCE}
    probabilities = state.report()["move_probabilities"]
    assert set(probabilities) == {MOVES[kind] for kind in (WALK, EVOLUTION, INDEPENDENCE)}
    assert sum(probabilities.values()) == pytest.approx(1.0) and min(probabilities.values()) >= 0.1


def test_on_a_gaussian_independent_proposals_jump_farthest():
    state = started(AdaptiveMetropolis())
    drive(state, 600)
    probabilities = state.report()["move_probabilities"]
    assert probabilities["independence"] > 2 * max(
        probabilities["random-walk"], probabilities["differential-evolution"]
    )


def test_the_covariance_is_learned_whether_pooled_or_not():
    """From 3,000 states each: four chains together, or two alone."""
    for pooled, chains, sweeps in ((True, 4, 750), (False, 2, 3000)):
        state = started(AdaptiveMetropolis(pooled=pooled), chains=chains, warmup=sweeps)
        drive(state, sweeps)
        proposers = state.proposers
        assert len(proposers) == (1 if pooled else chains)
        for proposer in proposers:
            learned = proposer.moments.root @ proposer.moments.root.T
            ratios = np.linalg.eigvals(np.linalg.solve(ELLIPSE.covariance, learned))
            assert np.all(np.abs(np.log(ratios.real)) < np.log(1.5))


def test_chains_that_are_not_pooled_do_not_know_of_each_other():
    one, two = (started(AdaptiveMetropolis(pooled=False)) for _ in range(2))
    for _ in range(300):
        first, second = one.propose(), two.propose()
        np.testing.assert_array_equal(first[1:], second[1:])
        spoilt = values(second)
        spoilt[0] = -np.inf
        one.advance(values(first))
        two.advance(spoilt)
    assert np.any(one.walkers.x[0] != two.walkers.x[0])


@pytest.mark.parametrize(
    ("moves", "error"),
    [
        ("random-walk", TypeError),
        (None, TypeError),
        ((1,), TypeError),
        (("independence",), ValueError),
        (("random-walk", "random-walk"), ValueError),
        (("random-walk", "stretch"), ValueError),
        ((), ValueError),
    ],
)
def test_wrong_moves(moves, error):
    with pytest.raises(
        error, match=r"moves=.*expected a tuple of distinct names out of 'random-walk', "
    ):
        AdaptiveMetropolis(moves=moves)


# With an estimator


def test_langevin_steps_come_with_the_first_fit_and_refits_at_sweeps_fixed_in_advance():
    state, kinds, refits = started(AdaptiveMetropolis(estimator=GaussianScore())), [], []
    for _ in range(300):
        kinds.append(drive(state, 1)[0].stats["move"])
        refits.append(state.report()["n_refits"])
    changes = 1 + np.flatnonzero(np.diff(refits, prepend=0))
    assert changes.tolist() == np.ceil(30 * 1.4 ** np.arange(7)).astype(int).tolist()
    first = np.flatnonzero(np.any(np.array(kinds) == LANGEVIN, axis=1))[0]
    assert first >= 30 and set(np.concatenate(kinds[100:])) == {
        WALK,
        EVOLUTION,
        INDEPENDENCE,
        LANGEVIN,
    }
    probabilities = state.report()["move_probabilities"]
    assert sum(probabilities.values()) == pytest.approx(1.0) and min(probabilities.values()) >= 0.1


def test_the_step_is_tuned_to_its_acceptance_rate():
    state = started(AdaptiveMetropolis(estimator=NystromKEF(n_basis=20)), warmup=1500)
    late = drive(state, 1500)[500:]
    rates = np.concatenate(
        [step.stats["acceptance_rate"][step.stats["move"] == LANGEVIN] for step in late]
    )
    assert len(rates) > 300 and abs(rates.mean() - 0.574) < 0.1


def test_a_frozen_estimator_is_not_fitted_after_warmup():
    state = started(AdaptiveMetropolis("freeze", estimator=GaussianScore()), warmup=100)
    drive(state, 100)
    learned = state.proposers[0]._learner.learned
    drive(state, 200)
    assert state.proposers[0]._learner.learned is learned and state.report()["n_refits"] == 4


def test_an_estimator_that_fails_leaves_the_other_kinds():
    class Failing(GaussianScore):
        def fit(self, X, *, weights=None):
            raise ValueError("no fit today")

    state = started(AdaptiveMetropolis(estimator=Failing()))
    drive(state, 150)
    facts = state.report()
    assert (
        facts["n_refits"] == 0
        and facts["n_failed_refits"] == 5
        and "no fit today" in facts["refit_error"]
    )
    assert facts["move_probabilities"]["langevin"] == 0.0


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"estimator": GaussianScore}, TypeError, "is a class"),
        ({"estimator": object()}, TypeError, "no method fit"),
        (
            {"estimator": GaussianScore(), "pooled": False},
            ValueError,
            "pooled=False, but an estimator",
        ),
    ],
)
def test_errors_of_the_estimator(options, error, words):
    with pytest.raises(error, match=words):
        AdaptiveMetropolis(**options)
