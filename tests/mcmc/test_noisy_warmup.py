"""Warm-up handles estimates that are far too high: long stays are detected and ended, and the main phase moves on."""

import numpy as np
import pytest

from kmc.mcmc import KernelHMC, SamplerSetup
from kmc.mcmc.surrogate_trainer import SurrogateTrainer
from kmc.surrogates import FitOptions
from tests.grids import slow_except

FIT = FitOptions(n_basis=25, bandwidths=(1.2, 2.0))


def learner(noisy=True):
    return SurrogateTrainer(2, FIT, max_archive=100, rng=np.random.default_rng(0), noisy=noisy)


def visit(one, *states):
    one.visit(np.array(states, float), np.zeros(len(states)), np.ones(len(states)))


def test_stays_are_counted_wherever_a_swap_has_put_the_state():
    one = learner()
    for sweep in range(6):
        here, other = (0.0, 0.0), (1.0, sweep)
        visit(one, *((here, other) if sweep % 2 else (other, here)))
    points = np.array([[0.0, 0.0], [1.0, 5.0], [1.0, 4.0]])
    assert one.stays(points, 6).tolist() == [True, False, False]
    assert one.stays(points, 1).tolist() == [True, True, False]
    assert not one.stays(points, 7).any()  # there were no seven sweeps


def process(noisy, seed=0):
    rng = np.random.default_rng(seed)
    initial = rng.standard_normal((4, 2))
    values = -0.5 * np.sum(initial**2, axis=1)
    setup = SamplerSetup(2, 4, initial, values, None, None, 900, np.random.SeedSequence(seed), noisy)
    return KernelHMC(min_warmup_evaluations=300, fit=FIT).start(setup)


def drive(one, rng, lucky=None):
    """Sweeps until warm-up ends, on a standard normal with noise of sd 1; one walker's value is raised."""
    sweeps, held = 0, 0
    while one.warming_up:
        points = one.propose()
        values = -0.5 * np.sum(points**2, axis=1) + rng.standard_normal(len(points)) - 0.5
        one.advance(values)
        sweeps += 1
        if sweeps == 20 and lucky:
            one.walkers.log_density[2] += lucky
            state = one.walkers.x[2].copy()
        if sweeps > 20 and lucky:
            held += bool((one.walkers.x == state).all(axis=1).any())
    return held


@pytest.mark.parametrize("seed", slow_except(range(3), {0}))
def test_a_lucky_estimate_does_not_hold_a_walker_through_warm_up(seed):
    """Thirty nats too high: no proposal would ever be accepted."""
    rng = np.random.default_rng(seed)
    rescued, stuck = process(True, seed), process(False, seed)
    assert drive(stuck, np.random.default_rng(seed), lucky=30.0) > 40
    assert drive(rescued, rng, lucky=30.0) < 90


def test_the_top_is_not_the_luckiest_value():
    one = process(True)
    drive(one, np.random.default_rng(3))
    assert one.trainer.noise_sd == pytest.approx(1.0, abs=0.3)
    assert one.trainer.top < one.trainer.history.log_density.max()
    exact = process(False)
    while exact.warming_up:
        points = exact.propose()
        exact.advance(-0.5 * np.sum(points**2, axis=1))
    assert exact.trainer.top == exact.trainer.history.log_density.max() and exact.trainer.noise_sd == 0.0
    assert exact.report()["noise_sd"] is None


def test_the_main_phase_begins_at_distinct_states():
    """A walker that stayed somewhere for long does not make that place more likely as a start."""
    one = process(True)
    held = np.array([[5.0, 5.0]])
    for k in range(200):
        one.trainer.visit(np.vstack([held, [[0.01 * k, 0.0]]]), np.zeros(2), np.ones(2))
    one._freeze()
    assert np.sum((one.walkers.x == held).all(axis=1)) <= 1
