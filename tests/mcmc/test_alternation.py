"""Mixtures and cycles of samplers: who makes which sweep. Their exactness is tested in tests/correctness."""

import numpy as np
import pytest

import kmc
from kmc.mcmc import AdaptiveLangevin, AdaptiveMetropolis, Cycle, DelayedAcceptance, Kameleon, Mixture
from kmc.mcmc.base import MOVES
from kmc.scores import GaussianScore
from tests.mcmc.test_adaptive_langevin import NORMAL, drive, started
from tests.oracles.mcmc import assert_standard

WALK = AdaptiveMetropolis(moves=("random-walk",))
SMALL = Kameleon(max_states=50)
WITH_MOVE = kmc.KernelHMC(moves=[(kmc.moves.Snooker(), 0.2)])


def makers(steps):
    """Whether each sweep was Kameleon's; all chains of a sweep have the same sampler."""
    kinds = np.array([step.stats["move"] for step in steps])
    assert np.all(kinds == kinds[:, :1])
    return kinds[:, 0] == MOVES.index("kameleon")


def test_a_mixture_chooses_with_its_probabilities():
    state = started(Mixture([(WALK, 0.7), (SMALL, 0.3)]))
    drive(state, 150)
    share = makers(drive(state, 1500)).mean()
    assert_standard((share - 0.3) / np.sqrt(0.3 * 0.7 / 1500))


def test_a_cycle_keeps_its_order():
    state = started(Cycle([SMALL, (WALK, 2)]))
    drive(state, 150)
    made = makers(drive(state, 60))
    np.testing.assert_array_equal(made, np.arange(60) % 3 == 0)


def test_each_part_learns_from_its_own_sweeps():
    state = started(Cycle([SMALL, (WALK, 2)]), warmup=90)
    drive(state, 90)
    assert [part._sweep for part in state.parts] == [30, 60]
    facts = state.report()["parts"]
    assert "n_subsample" in facts[0] and "move_probabilities" in facts[1]


@pytest.mark.filterwarnings("ignore:The gradient disagrees:kmc.KmcWarning")
def test_gradients_are_those_of_the_states_where_the_other_part_left_the_chains():
    for sampler in (kmc.NUTS(np.negative, max_depth=2), kmc.HMC(np.negative)):
        state = started(Cycle([sampler, WALK]), warmup=4)
        while state._sweep < 9:
            points = state.propose()
            if state._now == 0 and state.parts[0]._check is None:
                known = state.parts[0]._gradients if sampler.name == "nuts" else state.parts[0]._paths._known
                found = known if sampler.name == "nuts" else [phase.gradient for phase in known.values()]
                for x in state.walkers.x:
                    assert any(np.array_equal(-x, gradient) for gradient in found)
            state.advance(np.array([NORMAL(x) for x in points]))


def test_parts_that_warm_up_longer_do_it_at_the_end():
    """Kernel HMC needs sweeps after its freeze; other parts make none meanwhile, and the chains are where it is."""
    kernel = kmc.KernelHMC(min_warmup_evaluations=80)
    state = started(Mixture([(WALK, 0.9), (kernel, 0.1)]), warmup=60)
    drive_on = lambda: state.advance(np.array([NORMAL(x) for x in state.propose()]))  # noqa: E731
    while state._sweep < 60:
        drive_on()
    assert state.warming_up and not state.parts[0].warming_up and state.parts[1].warming_up
    before = state.parts[0]._sweep
    while state.warming_up:
        drive_on()
    assert state.parts[0]._sweep == before and state.parts[1].frozen
    assert state.parts[1].walkers is state.walkers is state.parts[0].walkers


@pytest.mark.parametrize("cls", [Mixture, Cycle])
def test_frozen_parts_stay(cls):
    parts = AdaptiveMetropolis(adaptation="freeze"), Kameleon(max_states=50, adaptation="freeze")
    state = started(cls([(parts[0], 0.5), (parts[1], 0.5)] if cls is Mixture else parts), warmup=80)
    drive(state, 80)
    before = state.report()
    drive(state, 50)
    assert state.report() == before


def test_all_kinds_of_parts_and_a_store(tmp_path):
    score = GaussianScore()
    parts = [AdaptiveMetropolis(), SMALL, AdaptiveLangevin(score), DelayedAcceptance(estimator=score)]
    parts += [kmc.RandomWalkMetropolis(), kmc.HMC(np.negative), kmc.NUTS(np.negative, max_depth=3)]
    parts += [kmc.ScoreHMC(score, warmup_sampler=AdaptiveMetropolis()), kmc.KernelHMC(min_warmup_evaluations=80)]
    options = {"dim": 3, "draws": 60, "warmup": 60, "seed": 2, "progress": False, "sampler": Cycle(parts)}
    with pytest.warns(kmc.KmcWarning):
        expected = kmc.sample(NORMAL, **options)
    path = tmp_path / "run.zarr"
    with pytest.warns(kmc.KmcWarning):
        kmc.sample(NORMAL, store=path, callback=lambda record: record.draw >= 20, **options)
        resumed = kmc.sample(NORMAL, store=path, resume=True, trust=True, **options)
    np.testing.assert_array_equal(resumed.posterior["x"].values, expected.posterior["x"].values)


@pytest.mark.parametrize(
    ("samplers", "error", "message"),
    [
        ([], TypeError, r"samplers=\[\]: expected pairs"),
        ("kameleon", TypeError, "samplers='kameleon'"),
        ([SMALL], TypeError, "one of them is Kameleon"),
        ([(SMALL, "often")], TypeError, "one of them is"),
        ([(kmc.Tempered(), 1.0)], TypeError, "Tempered.* cannot be a part: expected samplers such as kmc.Adaptive"),
        ([(WITH_MOVE, 0.5), (WITH_MOVE, 0.5)], ValueError, "several have moves=... of yours"),
        (
            [(SMALL, 0.5), (WALK, 0.4)],
            ValueError,
            r"the probabilities are \[0.5, 0.4\]: expected positive ones with",
        ),
        ([(SMALL, 1.5), (WALK, -0.5)], ValueError, "expected positive ones"),
    ],
)
def test_wrong_mixtures(samplers, error, message):
    with pytest.raises(error, match=message):
        Mixture(samplers)


@pytest.mark.parametrize(
    ("samplers", "error", "message"),
    [
        (None, TypeError, "samplers=None: expected samplers or pairs"),
        ([(SMALL, 0.5)], TypeError, "one of them is"),
        ([(SMALL, 0)], ValueError, "makes 0 sweeps: expected at least 1"),
        ([3], TypeError, "3 cannot be a part"),
    ],
)
def test_wrong_cycles(samplers, error, message):
    with pytest.raises(error, match=message):
        Cycle(samplers)
