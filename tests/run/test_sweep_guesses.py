"""Idle workers evaluate what the next sweeps of warm-up will probably need: same draws, fewer rounds."""

import numpy as np
import pytest

import kmc
from kmc.run.sweep_guesses import SweepGuesses
from kmc.surrogates import FitOptions
from kmc.targets.model import Model
from tests.run.store.runs import assert_same
from tests.run.streams import Disorder, Rounds


class CountedRounds(Rounds):
    """Rounds of all kinds."""

    def __call__(self, points):
        self.n_rounds += 1
        return super().__call__(points)


def ring(x):
    return -0.5 * (np.hypot(x[0], x[1]) - 3.0) ** 2 / 0.3**2


ASKED = {"dim": 2, "chains": 2, "draws": 5, "max_evaluations": 450, "seed": 3, "progress": False}


def same(found, expected):
    found.attrs["n_evaluations_unused"] = 0  # the only difference
    assert_same(found, expected)


@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
def test_rounds_of_warmup_fall_and_draws_stay():
    plain, many = CountedRounds(workers=24), CountedRounds(workers=24, prefetch=True)
    expected = kmc.sample(ring, executor=plain, **ASKED)
    found = kmc.sample(ring, executor=many, **ASKED)
    assert found.attrs["n_evaluations_unused"] > 0
    assert many.n_rounds < 0.75 * plain.n_rounds
    same(found, expected)
    mixed = Disorder(1, workers=7, prefetch=True)
    same(kmc.sample(ring, executor=mixed, **ASKED), expected)


def narrow(x):
    return -50.0 * float(x @ x)


def test_rounds_before_the_first_fit_fall():
    """There is no surrogate to tell values: proposals are taken to be rejected."""
    rounds = {}
    for prefetch in (False, True):
        executor = CountedRounds(workers=32, prefetch=prefetch)
        steps = kmc.iterate(narrow, dim=8, chains=4, draws=10, max_evaluations=1200, seed=3, executor=executor)
        rounds[prefetch] = {}
        for record in steps:
            rounds[prefetch][record.n_evaluations] = executor.n_rounds
            if record.n_evaluations > 150:
                break
    plain, many = rounds[False], rounds[True]
    assert plain.keys() == many.keys() and len(plain) > 10
    assert many[max(many)] < 0.7 * plain[max(plain)]


def rough(x):
    return -0.5 * float(x @ x) + np.sin(18.0 * x.sum())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
def test_guesses_of_rough_values():
    """Some sweeps have pairs of close points, too."""
    sampler = kmc.KernelHMC(fit=FitOptions(bandwidths=(2.0, 7.0), n_basis=30))
    options = ASKED | {"sampler": sampler, "max_evaluations": 1600}
    expected = kmc.sample(rough, **options)
    found = kmc.sample(rough, executor=Rounds(workers=24, prefetch=True), **options)
    assert expected.attrs["roughness_sd"] > 0.0 and found.attrs["n_evaluations_unused"] > 0
    same(found, expected)


def test_points_are_evaluated_once_and_in_order():
    workers, model = Rounds(workers=4), Model(lambda x: float(x[0]), dim=1)
    points = np.arange(8.0)[:, None]
    with workers.open(model) as stream:
        guesses = SweepGuesses(stream, lambda: 4)
        first = guesses.evaluate(points[[1, 0]], lambda value_at: iter(points[[0, 2, 3, 4, 5]]))
        assert [outcome.value for outcome in first] == [1.0, 0.0]
        assert (workers.n_rounds, workers.n_alone, guesses.n_begun, guesses.n_used) == (1, 4, 2, 0)
        second = guesses.evaluate(
            points[[3, 2]], lambda value_at: iter(points[[5]])
        )  # both are known: nothing is waited for
        assert [outcome.value for outcome in second] == [3.0, 2.0]
        assert (workers.n_rounds, workers.n_alone, guesses.n_begun, guesses.n_used) == (1, 4, 2, 2)
        twice = guesses.evaluate(points[[6, 6]], lambda value_at: iter(()))
        assert [outcome.value for outcome in twice] == [6.0, 6.0] and workers.n_alone == 5
