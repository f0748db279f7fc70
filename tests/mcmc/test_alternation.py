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
    (proposer,) = state.proposers
    assert proposer._sweeps == [30, 60]
    facts = state.report()["parts"]
    assert "n_subsample" in facts[0] and "move_probabilities" in facts[1]


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
    options = {"dim": 3, "draws": 60, "warmup": 60, "seed": 2, "progress": False, "sampler": Cycle(parts)}
    with pytest.warns(kmc.KmcWarning):
        expected = kmc.sample(NORMAL, **options)
    path = tmp_path / "run.zarr"
    with pytest.warns(kmc.KmcWarning):
        kmc.sample(NORMAL, store=path, callback=lambda record: record.draw >= 20, **options)
        resumed = kmc.sample(NORMAL, store=path, resume=True, **options)
    np.testing.assert_array_equal(resumed.posterior["x"].values, expected.posterior["x"].values)


@pytest.mark.parametrize(
    ("samplers", "error", "message"),
    [
        ([], TypeError, r"samplers=\[\]: expected pairs"),
        ("kameleon", TypeError, "samplers='kameleon'"),
        ([SMALL], TypeError, "one of them is Kameleon"),
        ([(SMALL, "often")], TypeError, "one of them is"),
        ([(kmc.KernelHMC(), 1.0)], TypeError, r"cannot be a part.*kmc.KernelHMC\(moves=...\)"),
        (
            [(SMALL, 0.5), (WALK, 0.4)],
            ValueError,
            r"the probabilities are \[0.5, 0.4\]: expected positive ones with",
        ),
        ([(SMALL, 1.5), (WALK, -0.5)], ValueError, "expected positive ones"),
        ([(AdaptiveMetropolis(pooled=False), 1.0)], ValueError, "pooled=False"),
        ([(SMALL, 0.5), (Kameleon(adaptation="freeze"), 0.5)], ValueError, "the same adaptation"),
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
