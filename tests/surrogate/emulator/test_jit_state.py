"""Emulated outputs in groups, compiled: formulas term by term, differences, and states that files
may hold.
"""

import numpy as np
import pytest

from kmc.surrogate.coordinates.walls import NO_WALL
from kmc.surrogate.emulator.jit_state import (
    EmulatorJitState,
    Group,
    check_emulator_state,
    slopes_along_components,
)
from kmc.surrogate.emulator.structure import NORMAL, Data, Parameters
from kmc.surrogate.known import ABOVE, IDENTITY, Splines, Transforms
from tests.jit_states import allocations, evaluate, evaluate_all
from tests.oracles import differences
from tests.oracles import emulator as oracle

DIM = 5


def group_of(rng, inputs, c, m, n):
    p = len(inputs)
    return Group(
        inputs=np.array(inputs),
        center=rng.standard_normal(p),
        whitening=np.eye(p) + 0.3 * rng.standard_normal((p, p)),
        metric=np.eye(p) + 0.2 * rng.standard_normal((p, p)),
        constant=rng.standard_normal(c),
        polynomial=rng.standard_normal((c, p + p * (p + 1) // 2)),
        sections=rng.standard_normal((c, m)),
        centers=rng.standard_normal((p, m)),
        rate=rng.uniform(1.0, 3.0),
        matern=rng.uniform(0.5, 2.0),
        bent=rng.uniform(0.01, 0.03),
        spread=rng.uniform(3.0, 5.0),
        offset=rng.standard_normal(n),
        basis=rng.standard_normal((n, c)),
    )


def state_of(groups, rng, reach=2.0, noncentered=()):
    """Normal data, some of them with an sd that is the last parameter, and repeated terms; a
    hierarchy of four parameters, of three generations.
    """
    n = sum(len(group.offset) for group in groups)
    zeros, none = np.zeros(n), np.full((n, 1), -1)
    transforms = Transforms(
        np.array([IDENTITY, ABOVE, IDENTITY, ABOVE, IDENTITY]),
        np.zeros(DIM),
        np.zeros(DIM),
        np.zeros((DIM, 2)),
    )
    means, sds = np.array([-1, -1, 0, 2, 2]), np.array([-1, -1, 1, 1, 3])
    numbers = np.tile([0.0, 1.0], (DIM, 1))
    nodes = np.tile([-1.0, 0.5, 2.0], (DIM, 1))
    known = Splines(nodes, *rng.standard_normal((2, DIM, 3)))
    scales = np.where(np.arange(n)[:, None] % 2, DIM - 1, -1)
    data = Data(
        kinds=np.full(n, NORMAL),
        observed=rng.standard_normal(n),
        constants=rng.standard_normal(n),
        variances=rng.uniform(1.0, 4.0, n),
        scales=scales,
        relative=zeros,
        relative_scales=none,
        shapes=zeros,
        shape_columns=none[:, 0],
        repeats=rng.integers(0, 4, n).astype(float),
    )
    return EmulatorJitState.of(
        groups,
        origin=rng.standard_normal(DIM),
        back=np.eye(DIM) + 0.3 * rng.standard_normal((DIM, DIM)),
        noncentered=np.isin(np.arange(DIM), noncentered),
        parameters=Parameters(transforms, means, sds, numbers, known, np.zeros((DIM, 3))),
        data=data,
        temperature=1.5,
        reach=reach,
        fall=0.7,
        wall=NO_WALL,
    )


RNG = np.random.default_rng(5)
GROUPS = {
    "one": [group_of(RNG, [3, 0], 3, 7, 4)],
    "two": [group_of(RNG, [0, 2, 3], 2, 6, 3), group_of(RNG, [1], 3, 9, 5)],
    "three, with an input in common": [
        group_of(RNG, [0, 1], 1, 4, 2),
        group_of(RNG, [4, 1, 3], 2, 5, 1),
        group_of(RNG, [2, 1], 3, 1, 4),
    ],
}
STATES = {
    name: state_of(groups, RNG, noncentered=some)
    for (name, groups), some in zip(GROUPS.items(), [(), (2, 3, 4), (2, 4)])
}
POINTS = np.random.default_rng(6).standard_normal((12, DIM))


@pytest.mark.parametrize("name", GROUPS)
def test_value_and_gradient(name):
    state = STATES[name]
    check_emulator_state(state, DIM)
    for z in POINTS:
        value, gradient = evaluate(state, z)
        assert value == pytest.approx(oracle.value(GROUPS[name], state, z), rel=1e-11)
        slope = differences.gradient(lambda z: oracle.value(GROUPS[name], state, z), z, 1e-4)
        np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-6 * np.abs(slope).max())


@pytest.mark.parametrize("name", GROUPS)
def test_slopes_along_components(name):
    """Those of a shift of the constant."""
    state = STATES[name]
    values, slopes = slopes_along_components(state, POINTS[:3])
    for k in range(len(state.constant)):
        shift = np.zeros(len(state.constant))
        shift[k] = 1e-4
        ends = [
            slopes_along_components(
                state._replace(constant=state.constant + s * shift), POINTS[:3]
            )[0]
            for s in (1, -1)
        ]
        np.testing.assert_allclose(slopes[:, k], (ends[0] - ends[1]) / 2e-4, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(values, [evaluate(state, z)[0] for z in POINTS[:3]])


def test_no_number_of_groups_needs_another_compilation_or_any_memory_at_a_point():
    found, compiled = [], []
    for state in STATES.values():
        found.append(evaluate_all(state, POINTS, np.empty(POINTS.shape)))
        # other tests may have compiled it for states of other types
        compiled.append(len(evaluate_all.signatures))
    assert np.isfinite(found).all() and len(set(compiled)) == 1
    state = STATES["two"]
    first, second = allocations(
        evaluate_all, [(state, POINTS[:n], np.empty((n, DIM))) for n in (1, 12)]
    )
    assert first == second


def changes():
    """What a file may say, which loops would follow out of the arrays."""
    state = STATES["two"]
    sizes = state.sizes
    yield "sizes", sizes[:1]
    yield "sizes", sizes[:0]
    yield "sizes", sizes.astype(float)
    yield "sizes", sizes[0]
    yield "sizes", 3
    for column in range(4):
        for wrong in (-1, 0, 2**40, 2**62):
            changed = sizes.copy()
            changed[1, column] = wrong
            yield "sizes", changed
    moved = sizes.copy()  # the same sum, but not that of products
    moved[0, 3], moved[1, 3] = sizes[1, 3], sizes[0, 3]
    yield "sizes", moved
    yield "inputs", np.array([0, 2, 3, DIM])
    yield "inputs", np.array([-1, 2, 3, 1])
    for name in (
        "whitening",
        "polynomial",
        "sections",
        "centers",
        "rate",
        "offset",
        "basis",
        "constant",
    ):
        yield name, getattr(state, name)[:-1]
    yield "rate", 1.0
    yield "noncentered", state.noncentered[:-1]
    yield "noncentered", state.noncentered.astype(float)
    yield "data", state.data.at(np.arange(len(state.offset) - 1))


@pytest.mark.parametrize(("name", "value"), list(changes()), ids=str)
def test_a_state_from_a_file_stays_within_its_arrays(name, value):
    with pytest.raises(ValueError, match=r"is not an array|has numbers that are not between"):
        check_emulator_state(STATES["two"]._replace(**{name: value}), DIM)
