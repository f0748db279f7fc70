"""States survive as plain data, or are refused with the name of a field."""

import json
from collections import deque
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pytest

import kmc
from kmc.model.convert import as_model
from kmc.run.arguments import RunRequest, as_sampler
from kmc.run.executors import InProcess
from kmc.run.run import Run
from kmc.run.store.plain import NotPlain, Plain, flatten, restore
from kmc.samplers.base import SamplerSetup
from kmc.samplers.score_fitter import History
from kmc.surrogate.coordinates.funnels import Funnel
from kmc.surrogate.coordinates.transport import IDENTITY
from tests.grids import slow_except
from tests.run.store.runs import SAMPLERS, log_density

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")

ESTIMATORS = {
    "lite": kmc.scores.LiteKEF(n_basis=30, bandwidth=1.5, regularization=1e-4),
    "full": kmc.scores.FullKEF(bandwidth=2.0, regularization=1e-4),
    "chosen": kmc.scores.NystromKEF(
        kernel=["gaussian", "matern52"], n_basis=10, base=["gaussian", "student-t"]
    ),
}
ALL = SAMPLERS | {
    name: kmc.ScoreHMC(
        estimator,
        adaptation="vanishing",
        max_states=60,
        warmup_sampler=kmc.KernelHMC(burn_in=3),
    )
    for name, estimator in ESTIMATORS.items()
}


def funnel(x):
    return float(-0.5 * x[0] ** 2 / 4.0 - 0.5 * np.exp(-x[0]) * (x[1:] @ x[1:]) - x[0])


def state_of(target, sampler, dim=3, evaluations=250, independent_runs=1):
    request = RunRequest(
        model=as_model(target, dim),
        sampler=as_sampler(sampler),
        initial=None,
        draws=30,
        warmup=None,
        seed=np.random.SeedSequence(5),
        chains=2 * independent_runs,
        max_evaluations=evaluations * independent_runs,
        independent_runs=independent_runs,
    )
    run = Run(request, InProcess())
    for record in run.sweeps():
        if record.phase == "done":
            return run.state()
    raise AssertionError


def in_all(thing, seen=None):
    """Everything in a state, each object once."""
    seen = {} if seen is None else seen
    if id(thing) in seen:
        return seen
    seen[id(thing)] = thing
    fields = getattr(thing, "__dict__", {})
    parts = [
        v
        for k, v in fields.items()
        if not isinstance(getattr(type(thing), k, None), cached_property)
    ]
    if isinstance(thing, (list, tuple, deque)):
        parts += thing
    elif isinstance(thing, dict):
        parts += thing.values()
    for part in parts:
        in_all(part, seen)
    return seen


def layouts(state):
    arrays = [thing for thing in in_all(state).values() if isinstance(thing, np.ndarray)]
    return [
        (array.shape, array.strides, array.dtype, array.flags.writeable)
        for array in arrays
        if array.size
    ]


@pytest.mark.parametrize(
    "name", slow_except(list(ALL), {"delayed", "kernel-hmc", "nystrom", "chosen"})
)
def test_states_of_all_samplers(name):
    """Nothing in them is foreign; a restored state gives the same bytes and memory layout."""
    state = state_of(log_density, ALL[name], independent_runs=2 if name == "kernel-hmc" else 1)
    parts = flatten(state)
    assert parts.foreign == []
    restored = restore(parts)
    assert flatten(restored) == parts
    assert layouts(restored) == layouts(state) != []


def phase(state):
    if state.walkers is not None:
        return "burn-in" if state.warming_up else "main"
    if state.mixture is not None:
        return "frozen"
    return "learning" if state.evaluated[1].size > len(state.setup.initial) else "first points"


def wedge(x):
    return -x[0] - x[1] if x[1] > x[0] > 0 else -np.inf


def slope(x):
    return -x - 0.4 * x**3 * (np.arange(len(x)) == 0)


@pytest.mark.parametrize(
    ("target", "options"),
    slow_except(
        {
            "funnel": (funnel, {}),
            "noise": (funnel, {"noisy": True}),
            "wall": (wedge, {}),
            "gradients": (log_density, {"gradients": slope}),
        },
        {"funnel"},
    ),
)
def test_the_default_sampler_goes_on_from_each_phase(target, options):
    """A state stored and restored before each sweep asks for the same points, bit for bit."""
    x = np.random.default_rng(1).uniform(0.1, 1.0, (8, 3)).cumsum(axis=1)
    setup = SamplerSetup(
        dim=3,
        chains=2,
        initial=x,
        initial_log_density=np.array(list(map(target, x))),
        draws=20,
        warmup=20,
        max_evaluations=120,
        seed=np.random.SeedSequence(3),
        noisy=options.get("noisy", False),
    )
    whole = kmc.KernelHMC(gradients=options.get("gradients"))._start(setup)
    restored, phases = restore(flatten(whole)), []
    while phases.count("main") < 3:
        phases.append(phase(whole))
        parts = flatten(restored)
        assert parts.foreign == list(filter(None, [options.get("gradients")]))
        restored = restore(parts)
        assert flatten(restored) == parts and layouts(restored) == layouts(whole)
        points = whole.propose()
        assert restored.propose().tobytes() == points.tobytes()
        values = np.array(list(map(target, points)))
        whole.advance(values), restored.advance(values)
    assert list(dict.fromkeys(phases)) == ["first points", "learning", "frozen", "burn-in", "main"]


@pytest.mark.parametrize("key", [np.s_[:, 3], np.s_[::2, 1:4], np.s_[5], np.s_[:0]])
@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_of_an_array(key, order):
    part = np.asarray(np.arange(48.0).reshape(6, 8), order=order)[key]
    restored = restore(flatten(part))
    assert np.array_equal(restored, part) and restored.flags.writeable
    assert restored.size == 0 or restored.strides == part.strides


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -0.0,
        float("inf"),
        1e-310,
        2**130,
        "ä\n",
        (1, [2, {"a": (), 3: deque([1.5], 4)}]),
        complex(1, -2),
        np.float64(0.1),
        np.int8(3),
        np.bool_(True),
        np.str_("x"),
        slice(1, None, 2),
        np.array(["a", "bcd"]),
        np.array(["a", None], dtype=object),
        np.array(2.5),
    ],
    ids=repr,
)
def test_values(value):
    restored = restore(flatten(value))
    assert type(restored) is type(value) and repr(restored) == repr(value)


def test_shared_objects_stay_shared_and_constants_are_the_same():
    rng, rows = np.random.default_rng(3), np.zeros(2)
    loop = [rng, rows, {"rng": rng, "rows": rows}, IDENTITY]
    loop.append(loop)
    one, two, named, identity, itself = restored = restore(flatten(loop))
    assert itself is restored
    assert named["rng"] is one and named["rows"] is two
    assert identity is IDENTITY


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_generators(kind):
    rng = np.random.Generator(getattr(np.random, kind)(np.random.SeedSequence(5, spawn_key=(1, 2))))
    rng.spawn(2), rng.random(), rng.integers(3, dtype=np.int32)
    twin = restore(flatten(rng))
    assert twin.integers(2**31, dtype=np.int32) == rng.integers(2**31, dtype=np.int32)
    assert np.array_equal(twin.standard_normal(5), rng.standard_normal(5))
    assert twin.spawn(1)[0].random() == rng.spawn(1)[0].random()


@dataclass
class Foreign:
    x: int


def test_what_kmc_did_not_make_is_foreign():
    foreign = Foreign(3)
    funnel = Funnel(driver=0, origin=foreign, centers=np.zeros(2), slopes=np.ones(2))
    parts = flatten([funnel, foreign])
    assert parts.foreign == [foreign]
    first, second = restore(parts._replace(foreign=[foreign]))
    assert first.origin is second is foreign


def test_what_kmc_made_and_is_not_known_is_named():
    history = History(2)
    history.model = kmc.Model(log_density, dim=2)
    with pytest.raises(
        NotPlain, match=r"kmc.samplers.score_fitter:History.model is a kmc.model.model.Model"
    ):
        flatten({"process": [history]})
    history.model = partial(print)  # of functools
    assert len(flatten(history).foreign) == 1
    history.model = as_model
    with pytest.raises(NotPlain, match=r"History.model is a builtins.function"):
        flatten(history)
    history.model = np.zeros(2, dtype=[("a", float)])
    with pytest.raises(NotPlain, match=r"History.model is an array of type \[\('a'"):
        flatten(history)


def test_a_field_that_is_missing():
    parts = flatten(Funnel(driver=0, origin=0.0, centers=np.zeros(2), slopes=np.ones(2)))
    with pytest.raises(
        NotPlain, match="Funnel has the fields .*'slopes'.*, and the store .*'slants'"
    ):
        restore(parts._replace(structure=parts.structure.replace("slopes", "slants")))


@pytest.mark.parametrize(
    "node",
    [
        ["instance", "os:system", {}],
        ["instance", "subprocess:Popen", {"args": "ls"}],
        ["instance", "kmc.run.store.files:Lock", {}],
        ["instance", "kmc.kernel_hmc.sampler:KernelHMC", {"start": 1}],  # would hide a method
        ["objects", [10**12], []],
        ["array", "<f4", [2], "C", [10**12], True, [0, 8]],
        ["array", "<f8", [10**12], "C", None, True, [0, 8]],
        ["seeds", ["dict", [["entropy", 1], ["spawn_key", ["tuple", []]], ["pool_size", 10**9]]]],
        ["instance", "kmc.kernel_hmc.sampler:dataclass", {}],
        ["instance", "kmc.kernel_hmc.sampler:np", {}],
        ["instance", "kmc.kernel_hmc.sampler:KernelHMC.start", {}],
        ["instance", "kmc.kernel_hmc.learning:Process", {}],  # of another module
        ["instance", "kmc.mcmc_evil:X", {}],
        ["constant", "os:environ"],
        ["_named", "os:system"],
        ["array", "|O", [1], "C", None, True, [0, 8]],
        ["array", "<f8", [3], "C", None, True, [0, 8]],
        ["foreign", 0],
        ["again", 7],
    ],
    ids=str,
)
def test_a_structure_that_was_forged(node):
    with pytest.raises((NotPlain, ValueError, TypeError, KeyError, IndexError, ImportError)):
        restore(Plain(json.dumps(node), b"\0" * 8, []))
