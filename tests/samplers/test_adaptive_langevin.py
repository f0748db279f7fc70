"""Kernel adaptive Langevin: what it learns. Its stationary distribution is tested in
tests/correctness.
"""

import numpy as np
import pytest

import kmc
from kmc.convergence import worst_bulk_ess
from kmc.model.toys import Banana, Gaussian
from kmc.samplers.adaptive_langevin import LANGEVIN, WALK, AdaptiveLangevin, langevin, riemannian
from kmc.samplers.adaptive_metropolis import AdaptiveMetropolis
from kmc.samplers.base import MOVES
from kmc.scores import FiniteKEF, FullKEF, GaussianScore, LiteKEF, NystromKEF
from tests.grids import slow_except
from tests.oracles.mcmc import assert_standard
from tests.samplers import setups

NORMAL = Gaussian(3, correlation=0.6, spread=3.0)
BANANA = Banana(2, b=0.03)
BY_SCORE = AdaptiveLangevin(GaussianScore(), max_states=200)


def started(sampler, target=NORMAL, chains=4, warmup=200, seed=1):
    return setups.started(sampler, target, chains=chains, warmup=warmup, seed=seed)


def drive(state, sweeps, target=NORMAL):
    return [state.advance(np.array([target(x) for x in state.propose()])) for _ in range(sweeps)]


def ess(steps):
    return worst_bulk_ess(
        np.array([step.position for step in steps if not step.warmup]).swapaxes(0, 1)
    )


def test_walks_first_and_langevin_steps_after_the_first_fit():
    state = started(BY_SCORE)
    kinds = np.array([step.stats["move"] for step in drive(state, 500)])
    first = np.flatnonzero(np.any(kinds == LANGEVIN, axis=1))[0]
    assert first == 30 and set(kinds[:first].ravel()) == {WALK}
    later = kinds[first:]
    assert_standard((np.mean(later == WALK) - 0.1) / np.sqrt(0.09 / later.size))
    assert set(later.ravel()) == {WALK, LANGEVIN} and MOVES[LANGEVIN] == "langevin"


def test_refits_come_at_sweeps_fixed_in_advance():
    state, counts = started(BY_SCORE, warmup=50), []
    for _ in range(300):
        drive(state, 1)
        counts.append(state.report()["n_refits"])
    refits = 1 + np.flatnonzero(np.diff(counts, prepend=0))
    assert refits.tolist() == np.ceil(30 * 1.4 ** np.arange(7)).astype(int).tolist()


def test_with_the_true_gradient_it_mixes_better_than_a_random_walk():
    langevin_steps = drive(started(BY_SCORE, warmup=300), 1300)
    walk_steps = drive(started(AdaptiveMetropolis(moves=("random-walk",)), warmup=300), 1300)
    assert ess(langevin_steps) > 2 * ess(walk_steps)


@pytest.mark.slow
def test_the_default_gradient_is_that_of_the_surrogate():
    """On a banana its gradient is close to the exact one where the states are."""
    state = started(AdaptiveLangevin(adaptation="freeze"), BANANA, warmup=70)
    drive(state, 70, BANANA)
    learned = state.proposers[0]._learner.learned
    assert learned.surrogate is not None
    h, x = 1e-4, np.array([5.0, 0.5])
    exact = [(BANANA(x + h * e) - BANANA(x - h * e)) / (2 * h) for e in np.eye(2)]
    found = [
        (learned.log_density(x + h * e) - learned.log_density(x - h * e)) / (2 * h)
        for e in np.eye(2)
    ]
    np.testing.assert_allclose(found, exact, atol=0.3)
    noise = np.array([0.3, -0.2])
    step = langevin(learned, x, noise, step_size=0.1)
    whitening = learned.field.whitening
    z, gradient = whitening(x[None])[0], whitening.inverse.T @ np.array(found)
    np.testing.assert_allclose(
        whitening(step.position[None])[0], z + 0.005 * gradient + 0.1 * noise, atol=1e-6
    )


class Failing:
    """An estimator that cannot be fitted."""

    def fit(self, X):
        raise ValueError("no fit today")

    def gradient(self, X):
        return X


def test_failed_fits_are_counted():
    state = started(AdaptiveLangevin(Failing()))
    drive(state, 50)
    report = state.report()
    assert (
        report["n_refits"] == 0
        and report["n_failed_refits"] == 2
        and "no fit today" in report["refit_error"]
    )


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"estimator": 3}, TypeError),
        ({"estimator": GaussianScore}, TypeError),
        ({"adaptation": "never"}, ValueError),
        ({"target_acceptance": 1.0}, ValueError),
        ({"random_walk_probability": 0.0}, ValueError),
        ({"max_states": 2}, ValueError),
    ],
)
def test_wrong_options(options, error):
    (name,) = options
    with pytest.raises(error, match=f"{name}=.*"):
        kmc.AdaptiveLangevin(**options)


# A covariance that depends on the position


def test_a_covariance_of_the_position_follows_the_curvature():
    """A Gaussian's Hessian is that of the states, so that both steps have the same distribution
    there.
    """
    state = started(
        AdaptiveLangevin(GaussianScore(), covariance="hessian", adaptation="freeze"), warmup=100
    )
    drive(state, 100)
    learned, noise = state.proposers[0]._learner.learned, np.array([0.3, -1.0, 0.5])
    one, other = (
        step(learned, np.ones(3), noise, step_size=0.5) for step in (langevin, riemannian)
    )
    np.testing.assert_allclose(one.position, other.position, atol=0.1)
    assert one.log_ratio == pytest.approx(other.log_ratio, abs=0.1)
    kinds = np.array([step.stats["move"] for step in drive(state, 100)])
    assert np.mean(kinds == LANGEVIN) > 0.8


WITH_HESSIAN = None, LiteKEF(n_basis=20), NystromKEF(n_basis=20), FiniteKEF(n_basis=60), FullKEF()


@pytest.mark.parametrize("estimator", WITH_HESSIAN)
def test_hessians_of_estimators_and_of_the_default(estimator):
    state = started(
        AdaptiveLangevin(estimator, covariance="hessian", max_states=100), BANANA, warmup=50
    )
    steps = drive(state, 100, BANANA)
    kinds, moved = (np.array([step.stats[name] for step in steps]) for name in ("move", "accepted"))
    assert moved[kinds == LANGEVIN].mean() > 0.2
    field = state.proposers[0]._learner.learned.field
    z, h = np.array([0.3, -0.2]), 1e-4
    slopes = [(field.gradient(z + h * e) - field.gradient(z - h * e)) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(field.hessian(z), slopes, atol=1e-3)


def test_an_estimator_without_a_hessian_is_refused():
    estimator = kmc.scores.DenoisingAutoencoder()
    with pytest.raises(
        TypeError, match=r"covariance='hessian', but estimator=Denoising.* no method hessian: use"
    ):
        AdaptiveLangevin(estimator, covariance="hessian")
    with pytest.raises(ValueError, match="covariance='local'"):
        AdaptiveLangevin(covariance="local")


# Updates by partial_fit


@pytest.mark.parametrize(
    ("schedule", "expected"),
    slow_except(
        {"1": (1.0, np.log(1000 / 100)), "1/2": (0.5, 2 * (1000**0.5 - 100**0.5))}, {"1/2"}
    ),
)
def test_updates_are_as_rare_as_the_schedule_says(schedule, expected):
    sampler = AdaptiveLangevin(GaussianScore(), schedule=schedule)
    counts = []
    for seed in range(3):
        state = started(sampler, warmup=100, seed=seed)
        drive(state, 100)
        before = state.report()["n_refits"]
        drive(state, 900)
        counts.append(state.report()["n_refits"] - before)
    assert abs(np.mean(counts) - expected) < 4 * np.sqrt(expected / 3)
    learner = state.proposers[0]._learner
    seen = learner.learned.field.estimator.n_samples_seen_
    assert seen + len(learner._waiting) > 4 * 900  # every state after warm-up, once


def test_wrong_schedules():
    with pytest.raises(
        TypeError, match="schedule=0.5, but estimator=None has no method partial_fit"
    ):
        AdaptiveLangevin(schedule=0.5)
    with pytest.raises(ValueError, match="schedule=1.5"):
        AdaptiveLangevin(GaussianScore(), schedule=1.5)
