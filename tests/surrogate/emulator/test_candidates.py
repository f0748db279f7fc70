"""On which inputs outputs depend, as evaluations show."""

import numpy as np
import pytest

import kmc
from kmc.run.structure import structured
from kmc.surrogate.emulator.climbs import Climbs
from kmc.surrogate.emulator.structure import candidates
from tests.run.test_structure import evaluated

ROOT = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 3.0, 4.0]])
STARTS = np.array([[1.5, -2.0, 2.5]])


def linear(matrix, **declared):
    """A model whose outputs are products of a matrix (n, d) and its parameters."""
    n, dim = np.shape(matrix)
    rows = [f"y{i}" for i in range(n)]
    likelihood = {row: kmc.likelihoods.Normal(np.zeros(1), sd=1.0) for row in rows}
    return kmc.Model(
        simulator=lambda p: dict(zip(rows, (np.array(matrix) @ p["x"])[:, None], strict=True)),
        likelihood=likelihood,
        parameters={"x": kmc.Normal(0, 1, shape=dim)},
        **declared,
    )


def inputs_of(structure):
    """The inputs of each output, in order."""
    return [tuple(np.flatnonzero(structure.depends[g])) for g in structure.group]


def found(model, points):
    return candidates(structured(model).structure, points, evaluated(model, points)[1])


def one_by_one(dim):
    """A point, and some that differ from it in one input each."""
    return np.vstack([np.full((1, dim), 0.5), 0.5 + np.eye(dim)])


def test_outputs_depend_on_what_moves_them():
    model = linear(np.eye(3))
    fewer, declared = found(model, one_by_one(3))
    assert inputs_of(fewer) == [(0,), (1,), (2,)]
    assert inputs_of(declared) == [(0, 1, 2)] * 3


def test_an_output_is_of_the_group_that_has_its_inputs():
    assert inputs_of(found(linear(ROOT), one_by_one(3))[0]) == [(0,), (1, 2), (1, 2)]


def test_an_input_that_never_differs_alone_moves_what_is_declared():
    assert inputs_of(found(linear(ROOT), one_by_one(3)[:3])[0]) == [(0, 2), (1, 2), (1, 2)]


def test_nothing_is_found_without_differences():
    assert len(found(linear(ROOT), np.random.default_rng(1).normal(size=(9, 3)))) == 1


def test_an_output_that_nothing_moves_tells_nothing():
    matrix = np.vstack([np.zeros((1, 3)), np.eye(3)])
    assert inputs_of(found(linear(matrix), one_by_one(3))[0])[1:] == [(0,), (1,), (2,)]
    assert len(found(linear(np.zeros((2, 3))), one_by_one(3))) == 1


def test_an_output_that_fails_along_an_input_may_depend_on_it():
    model, points = linear(np.eye(3)), one_by_one(3)
    _, outputs = evaluated(model, points)
    outputs[2, 0] = np.nan
    fewer, _ = candidates(structured(model).structure, points, outputs)
    assert inputs_of(fewer) == [(0, 1), (0, 1), (2,)]


def test_declared_groups_are_not_joined():
    depends = {"y1": ["x[1]"], "y2": ["x[1]", "x[2]"]}
    points = one_by_one(3)
    assert (
        len(found(linear(np.ones((3, 3)) * ROOT, depends=depends | {"y0": ["x[0]"]}), points)) == 1
    )
    fewer, _ = found(linear(ROOT, depends=depends), points)
    assert inputs_of(fewer) == [(0,), (1,), (1, 2)]


@pytest.mark.parametrize(("matrix", "evaluations"), [(np.eye(3), 1), (np.ones((3, 3)), 3)])
def test_climbs_take_new_derivatives_of_what_depends_on_different_inputs_at_once(
    matrix, evaluations
):
    model = linear(matrix)
    climbs = Climbs(
        structured(model).structure,
        STARTS,
        *evaluated(model, STARTS),
        rng=np.random.default_rng(2),
        most=4,
    )
    sizes = []
    while len(points := climbs.propose()):
        sizes.append(len(points))
        climbs.tell(*evaluated(model, points))
    assert sizes[0] == 3  # each alone
    assert sizes[-1] == evaluations  # at the top
    np.testing.assert_allclose(climbs.top()[0], 0.0, atol=1e-4)
