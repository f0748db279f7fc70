"""Outputs that depend on few of the simulator's inputs: what the surrogate makes of it."""

import warnings
from functools import cache

import numpy as np
import pytest

import kmc
from kmc import likelihoods as of
from kmc.run.structure import structured
from kmc.surrogate.emulator.climbs import Climbs
from kmc.surrogate.emulator.emulated import Emulator
from kmc.surrogate.emulator.jit_state import check_emulator_state, check_structure
from kmc.surrogate.jit_state import values_and_gradients
from kmc.surrogate.process import Seen
from tests.run.test_structure import differences, evaluated

pytestmark = pytest.mark.usefixtures("few_particles")
TIMES = np.linspace(0.2, 3.0, 8)
COUNT = 4
A, B = np.array([1.0, 2.0, 1.5, 0.7]), np.array([0.5, 1.0, 0.8, 0.3])
OWN = {f"subject_{i}": [f"a[{i}]", f"b[{i}]"] for i in range(COUNT)}
OPTIONS = {"seed": 1, "progress": False}


def decays(p):
    return {name: p["a"][i] * np.exp(-p["b"][i] * TIMES) for i, name in enumerate(OWN)}


@cache
def likelihood():
    rng = np.random.default_rng(1)
    true = decays({"a": A, "b": B})
    return {
        name: of.Normal(y + 0.05 * rng.standard_normal(len(y)), sd="sd") for name, y in true.items()
    }


def subjects(depends):
    """Four subjects, each with two parameters and an output of its own, and one error."""
    priors = {
        "a": kmc.LogNormal(0, 0.5, shape=COUNT),
        "b": kmc.LogNormal(-0.5, 0.5, shape=COUNT),
        "sd": kmc.LogNormal(-3, 0.5),
    }
    return kmc.Model(simulator=decays, likelihood=likelihood(), parameters=priors, depends=depends)


def groups_of(model):
    structure = structured(model).structure
    check_structure(structure, model.dim)
    return [(own.rows.tolist(), own.inputs.tolist()) for own in structure.groups]


def test_outputs_with_the_same_inputs_are_a_group():
    every = range(8 * COUNT)
    assert groups_of(subjects(None)) == [([*every], [*range(2 * COUNT)])]
    assert groups_of(subjects(OWN)) == [
        ([*every[8 * i : 8 * i + 8]], [i, i + COUNT]) for i in range(COUNT)
    ]
    assert structured(subjects(OWN)).structure.most_inputs == 2
    two = {"subject_0": ["a"], "subject_2": ["a[1]", "a[0]", "a[3]", "a[2]"]}
    assert groups_of(subjects(two)) == [
        ([*every[:8], *every[16:24]], [0, 1, 2, 3]),
        ([*every[8:16], *every[24:]], [*range(8)]),
    ]
    # What no output depends on is no input; what depends on nothing any more is learned from any
    # inputs.
    fixed = subjects(OWN).fix(a=A)
    assert groups_of(fixed) == [([*every[8 * i : 8 * i + 8]], [i]) for i in range(COUNT)]
    none = subjects({"subject_0": ["a"], **{name: ["b"] for name in [*OWN][1:]}}).fix(a=A)
    assert groups_of(none) == [([*every], [0, 1, 2, 3])]
    assert structured(subjects({name: ["a"] for name in OWN}).fix(a=A)) is None


def test_an_array_may_depend_on_some_inputs():
    model = kmc.Model(
        simulator=lambda p: p["a"] * TIMES,
        likelihood=of.Normal(TIMES, sd=0.1),
        parameters={"a": kmc.Normal(0, 1), "unused": kmc.Normal(0, 1)},
        depends={"y": ["a"]},
    )
    assert groups_of(model) == [([*range(8)], [0])]


def around(n, spread, seed):
    """Points about as wide as the posterior."""
    center, sds = np.log([*A, *B, 0.05]), np.array([0.04] * COUNT + [0.07] * COUNT + [0.13])
    return center + spread * sds * np.random.default_rng(seed).standard_normal((n, len(sds)))


def fitted(depends, points):
    model = subjects(depends)
    values, outputs = evaluated(model, points)
    seen = Seen(points, values, points, np.full(points.shape, np.nan), outputs=outputs)
    emulator, rng = Emulator(structured(model).structure), np.random.default_rng(1)
    first = emulator.first(seen, rng)
    return model, emulator.conditioned(
        seen, emulator.again(seen, first, first.regression.hyperparameters, rng), rng
    )


@pytest.fixture(scope="module")
def declared():
    return fitted(OWN, around(20, 1.5, 3))


def test_the_log_density_is_learned_from_few_simulations(declared):
    posterior = around(200, 1.0, 4)
    values, _ = evaluated(declared[0], posterior)
    error, other = (
        np.sqrt(np.mean((process.forecast(posterior) - values) ** 2))
        for process in (declared[1], fitted(None, around(20, 1.5, 3))[1])
    )
    assert error < 0.05 and 3.0 * error < other


def test_the_state_is_the_log_density_of_the_outputs_of_all_groups(declared):
    model, process = declared
    check_emulator_state(process.jit_state, model.dim)
    for x in around(5, 1.0, 5):
        z = process.coordinates(x[None])
        (value,), (gradient,) = values_and_gradients(process.jit_state, z)
        total = model.log_added(x)
        for own, (name, each) in zip(
            process.regressions, model.simulation.likelihoods.items(), strict=True
        ):
            assert own.group.inputs.tolist() == [int(name[-1]), int(name[-1]) + COUNT]
            components = own.regression.values(x[None, own.group.inputs])[0]
            outputs = own.components.offset + own.components.basis @ components
            total += each.log_likelihoods(outputs, model.parameters_at(x)).sum()
        np.testing.assert_allclose(value, total / process.temperature, rtol=2e-3, atol=2e-3)
        along = differences(lambda z: values_and_gradients(process.jit_state, z[None])[0][0], z[0])
        np.testing.assert_allclose(
            gradient, along, rtol=1e-4, atol=1e-4 * (1 + np.abs(along).max())
        )


def test_variances_of_groups_add_up(declared):
    """As draws of all components tell, within what is of the second order."""
    _, process = declared
    x = around(6, 2.0, 6)
    covariances = process.covariances(x)
    np.testing.assert_allclose(np.sqrt(np.diag(covariances)), process.standard_deviations(x))
    rng, state, z = np.random.default_rng(0), process.jit_state, process.coordinates(x)
    sds = np.column_stack(
        [own.standard_deviations(x) for own in process.regressions for _ in own.components.values.T]
    )
    drawn = []
    for noise in rng.standard_normal((2000, 1, len(state.constant))):
        drawn.append(
            [
                values_and_gradients(
                    state._replace(constant=state.constant + (noise * sds)[i]), z[[i]]
                )[0][0]
                for i in range(6)
            ]
        )
    np.testing.assert_allclose(np.std(drawn, axis=0), np.sqrt(np.diag(covariances)), rtol=0.15)


def test_climbs_find_derivatives_of_all_groups_at_once():
    model, starts = subjects(OWN), around(2, 3.0, 7)
    structure = structured(model).structure
    climbs = Climbs(
        structure, starts, *evaluated(model, starts), rng=np.random.default_rng(1), most=2
    )
    points = climbs.propose()
    assert len(points) == 2
    climbs.tell(*evaluated(model, points))
    (climb,) = climbs._climbs
    rows = np.arange(8 * COUNT).reshape(COUNT, 8)
    for _ in range(3):
        for i in range(COUNT):
            others = np.delete(climb.slopes, [i, i + COUNT], axis=1)
            assert not others[rows[i]].any()
        a, b = np.exp(climb.x[:COUNT]), np.exp(climb.x[COUNT : 2 * COUNT])
        decay = a[:, None] * np.exp(-b[:, None] * TIMES)
        slopes = climb.slopes.reshape(COUNT, 8, -1)
        for i in range(COUNT):
            np.testing.assert_allclose(slopes[i, :, i], decay[i], atol=0.1)
            np.testing.assert_allclose(slopes[i, :, i + COUNT], -decay[i] * b[i] * TIMES, atol=0.2)
        if not len(points := climbs.propose()):
            break
        climbs.tell(*evaluated(model, points))


def test_all_inputs_for_all_outputs_are_as_if_nothing_was_declared():
    structures = [
        structured(subjects(depends)).structure
        for depends in (None, {name: ["b", "a"] for name in OWN})
    ]
    for name in "inputs", "group", "depends":
        one, other = (getattr(structure, name) for structure in structures)
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype and other.flags.c_contiguous


@pytest.mark.slow
@pytest.mark.parametrize("depends", [OWN, {name: ["a"] for name in OWN}], ids=["right", "wrong"])
def test_draws_are_exact_whatever_is_declared(depends):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)
        idata = kmc.sample(subjects(depends), max_evaluations=1500, draws=None, **OPTIONS)
        truth = kmc.sample(subjects(None), max_evaluations=6000, draws=None, seed=2, progress=False)
    for name in "a", "b", "sd":
        draws, true = (np.log(one.posterior[name].values) for one in (idata, truth))
        error = np.abs(draws.mean(axis=(0, 1)) - true.mean(axis=(0, 1))) / true.std(axis=(0, 1))
        assert np.all(error < 0.3), name
