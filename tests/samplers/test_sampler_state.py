"""Processes driven by hand, as :func:`kmc.sample` drives them: propose, evaluate, advance."""

import copy
import json
import pickle

import numpy as np
import pytest

from kmc.kernel_hmc.sampler import KernelHMC
from kmc.model.toys import Banana, Gaussian
from kmc.samplers.adaptive_langevin import AdaptiveLangevin
from kmc.samplers.adaptive_metropolis import AdaptiveMetropolis
from kmc.samplers.base import MOVES, STATS, SamplerSetup
from kmc.samplers.delayed_acceptance import DelayedAcceptance
from kmc.samplers.kameleon import Kameleon
from kmc.samplers.random_walk import RandomWalkMetropolis
from kmc.samplers.score_hmc import ScoreHMC
from kmc.scores import GaussianScore
from tests.grids import slow_except
from tests.oracles.mcmc import assert_standard

TARGET = Banana(dim=2, b=0.03)
ELLIPSE = Gaussian(2, correlation=0.7, spread=3.0)
SCORE = {
    "estimator": GaussianScore(),
    "max_states": 200,
    "warmup_sampler": AdaptiveMetropolis(adaptation="freeze"),
}
FROZEN = {
    "kernel-hmc": KernelHMC(learning_share=0.05),
    "adaptive-metropolis": AdaptiveMetropolis(adaptation="freeze"),
    "kameleon": Kameleon(max_states=60, adaptation="freeze"),
    "adaptive-langevin": AdaptiveLangevin(GaussianScore(), adaptation="freeze"),
    "delayed-acceptance": DelayedAcceptance(
        AdaptiveMetropolis(adaptation="freeze"), GaussianScore()
    ),
    "score-hmc": ScoreHMC(**SCORE),
    "random-walk": RandomWalkMetropolis(),
    "random-walk with a scale": RandomWalkMetropolis(scale=2.0),
}
ADAPTING = {
    "adaptive-metropolis": AdaptiveMetropolis(adaptation="vanishing"),
    "kameleon": Kameleon(max_states=60, adaptation="vanishing"),
}
EVERY = {**FROZEN, **{f"vanishing {name}": sampler for name, sampler in ADAPTING.items()}}
# learns from states alone
EVERY["vanishing score-hmc"] = ScoreHMC(**SCORE, adaptation="vanishing", first_refit=40)
# which learns before it sweeps
BY_SWEEPS = {name: sampler for name, sampler in EVERY.items() if name != "kernel-hmc"}
EACH = pytest.mark.parametrize("sampler", EVERY.values(), ids=EVERY)
FEW = pytest.mark.parametrize("sampler", slow_except(EVERY, set(EVERY) - {"vanishing score-hmc"}))


def start(sampler, chains=3, seed=0, target=TARGET, **options):
    rng = np.random.default_rng(seed)
    initial = 3.0 * rng.standard_normal((chains, 2))
    fields = {"draws": 1000, "warmup": None, "max_evaluations": 900}
    return sampler.start(
        SamplerSetup(
            dim=2,
            chains=chains,
            initial=initial,
            initial_log_density=evaluate(initial, target),
            seed=np.random.SeedSequence(seed),
            **(fields | options),
        )
    )


def evaluate(points, target=TARGET):
    return np.array([target(x) for x in points])


def refit_sweeps(process, sweeps):
    """Those of the next sweeps in which the sampler refits."""
    before, at = process.report()["n_refits"], []
    for sweep in range(1, sweeps + 1):
        drive(process, 1)
        now = process.report()["n_refits"]
        at += [sweep] * (now - before)
        before = now
    return at


def planned_refits(first, sweeps):
    """first, 1.25 first, 1.25² first, ..., rounded up."""
    due = first * 1.25 ** np.arange(50)
    return np.ceil(due[due <= sweeps]).astype(int).tolist()


def drive(process, sweeps, target=TARGET):
    """Records of that many sweeps."""
    records = []
    while len(records) < sweeps:
        record = process.advance(evaluate(process.propose(), target))
        if record is not None:
            records.append(record)
    return records


WARMED_UP = {}  # a process and its sweeps, by what was asked for


def warmed_up(sampler, target=TARGET, **options):
    """A process just after its warm-up, and the number of sweeps that took; each is warmed up once,
    and then copied.
    """
    key = pickle.dumps((sampler, target, options))
    if key not in WARMED_UP:
        process, sweeps = start(sampler, target=target, **options), 0
        while process.warming_up:
            sweeps += len(drive(process, 1, target))
            assert sweeps < 5000
        WARMED_UP[key] = copy.deepcopy(process), sweeps
    process, sweeps = WARMED_UP[key]
    return copy.deepcopy(process), sweeps


# The protocol


@pytest.mark.slow
@FEW
@pytest.mark.parametrize("chains", slow_except([1, 3, 6], [3]))
def test_what_a_sweep_says(sampler, chains):
    process = start(sampler, chains)
    last = None
    phases = []
    while phases.count(False) < 30:
        points = process.propose()
        assert points.ndim == 2 and points.shape[1] == 2 and np.all(np.isfinite(points))
        values = evaluate(points)
        record = process.advance(values)
        if record is None:
            assert last is None or last.warmup  # before the first sweep, and at the end of warm-up
            continue
        phases.append(record.warmup)
        assert record.position.shape == (chains, 2) and record.log_density.shape == (chains,)
        np.testing.assert_array_equal(record.log_density, evaluate(record.position))
        assert {n: (s.shape, s.dtype) for n, s in record.stats.items()} == {
            n: ((chains,), np.dtype(t)) for n, t in STATS.items()
        }
        stats = record.stats
        assert np.all((stats["acceptance_rate"] >= 0) & (stats["acceptance_rate"] <= 1))
        assert np.all(np.isin(stats["n_evaluations"], [0, 1])) and stats[
            "n_evaluations"
        ].sum() <= len(points)
        # what did not move was not accepted
        assert np.all(stats["accepted"] <= stats["n_evaluations"])
        assert np.all((stats["move"] >= 0) & (stats["move"] < len(MOVES)))
        assert np.all(np.isfinite(stats["energy"])) and np.all(stats["step_size"] >= 0)
        new = {row.tobytes() for row in points}
        for i in range(chains):
            if stats["accepted"][i]:
                assert record.position[i].tobytes() in new
            elif last is not None and not record.warmup and not last.warmup:  # nor restarted
                np.testing.assert_array_equal(record.position[i], last.position[i])
        last = record
    assert phases[0] and not phases[-1] and phases == sorted(phases, reverse=True)
    assert process.warming_up is False
    json.dumps(process.report())


@EACH
def test_records_are_copies(sampler):
    process = start(sampler)
    records = drive(process, 3)
    kept = copy.deepcopy(records)
    drive(process, 30)
    for record, old in zip(records, kept, strict=True):
        np.testing.assert_array_equal(record.position, old.position)
        np.testing.assert_array_equal(record.log_density, old.log_density)
        np.testing.assert_array_equal(record.stats["accepted"], old.stats["accepted"])


@pytest.mark.parametrize("sampler", BY_SWEEPS.values(), ids=BY_SWEEPS)
@pytest.mark.parametrize("warmup", slow_except([16, 40, 200], [40]))
def test_warm_up_lasts_as_long_as_asked(sampler, warmup):
    _, sweeps = warmed_up(sampler, warmup=warmup, max_evaluations=None)
    assert sweeps == warmup


# Frozen means frozen


def learns_from_rejections(sampler, sweeps):
    """Whether, after warm-up, a process moves otherwise when what it rejected had been deeper
    still.
    """
    process, _ = warmed_up(sampler)
    twin = copy.deepcopy(process)
    for _ in range(sweeps):
        points, twin_points = process.propose(), twin.propose()
        if points.shape != twin_points.shape or np.any(points != twin_points):
            return True
        values = evaluate(points)
        record = process.advance(values)
        told = values.copy()
        evaluated = np.flatnonzero(record.stats["n_evaluations"])
        rejected = ~record.stats["accepted"][evaluated]
        told[rejected] = -np.inf
        twin.advance(told)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("sampler", FROZEN.values(), ids=FROZEN)
def test_a_frozen_chain_forgets_what_it_rejects(sampler):
    """A Markov chain knows its state alone, whatever the target was elsewhere."""
    assert not learns_from_rejections(sampler, 80)


@pytest.mark.parametrize("sampler", ADAPTING.values(), ids=ADAPTING)
def test_an_adapting_chain_does_not(sampler):
    """The same experiment sees adaptation where there is some."""
    assert learns_from_rejections(sampler, 80)


@pytest.mark.parametrize("sampler", FROZEN.values(), ids=FROZEN)
def test_frozen_chains_do_not_know_of_each_other(sampler):
    """One chain goes on the same when another is turned down always."""
    process, _ = warmed_up(sampler)
    twin = copy.deepcopy(process)
    for _ in range(50):
        records = []
        for one, spoilt in ((process, False), (twin, True)):
            points = one.propose()
            values = evaluate(points)
            if spoilt:
                values[: int(one._proposals[0].moved)] = -np.inf
            records.append(one.advance(values))
        np.testing.assert_array_equal(records[0].position[1:], records[1].position[1:])
    assert np.any(records[0].position[0] != records[1].position[0])


@pytest.mark.parametrize("sampler", FROZEN.values(), ids=FROZEN)
def test_a_frozen_chain_is_never_moved_by_hand(sampler):
    """However deep it is and however long it stays there."""
    process, _ = warmed_up(sampler)
    process.walkers.log_density[0] = -500.0
    before = process.walkers.x.copy()
    for _ in range(25):
        record = process.advance(np.full(len(process.propose()), -np.inf))
    np.testing.assert_array_equal(record.position, before)
    assert record.log_density[0] == -500.0


# Vanishing adaptation


def test_the_factor_of_adaptive_metropolis_settles():
    process, sweeps = warmed_up(AdaptiveMetropolis(moves=("random-walk",)))
    last = process.report()["proposal_factor"]
    changes = []
    for _ in range(1500):
        drive(process, 1)
        now = process.report()["proposal_factor"]
        changes.append(abs(np.log(now / last)))
        last = now
    assert 0 < np.mean(changes[-200:]) < 0.5 * np.mean(changes[:50])
    assert np.all(np.array(changes) < 2.5 * (sweeps + np.arange(1, 1501)) ** -0.5)


# What adapts in warm-up


@pytest.mark.parametrize(
    ("sampler", "rate"),
    [
        (AdaptiveMetropolis(target_acceptance=0.4, moves=("random-walk",)), 0.4),
        (RandomWalkMetropolis(target_acceptance=0.4), 0.4),
        (RandomWalkMetropolis(), 0.234),
    ],
)
def test_the_acceptance_rate_is_tuned(sampler, rate):
    process, _ = warmed_up(sampler, ELLIPSE, warmup=1000, max_evaluations=None)
    rates = [r.stats["acceptance_rate"].mean() for r in drive(process, 1000, ELLIPSE)]
    assert abs(np.mean(rates) - rate) < 0.06


def steps(process, sweeps):
    """The first chain's proposed steps; all of them are turned down, so it stays where it is."""
    x, out = process.walkers.x[0].copy(), []
    for _ in range(sweeps):
        points = process.propose()
        out.append(points[0] - x)
        process.advance(np.full(len(points), -np.inf))
    return np.array(out)


def test_a_given_scale_is_not_tuned():
    process, _ = warmed_up(
        RandomWalkMetropolis(scale=np.array([2.0, 0.5])), warmup=100, max_evaluations=None
    )
    squares = (steps(process, 3000) / [2.0, 0.5]) ** 2
    assert_standard((squares.mean(axis=0) - 1) / np.sqrt(2 / 3000))
