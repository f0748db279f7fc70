import numpy as np
import pytest

import kmc
from kmc.model.space import ParameterSpace
from tests.oracles import transforms as oracles

PARAMETERS = {
    "rate": kmc.Positive(),
    "theta": kmc.Real((2, 3)),
    "share": kmc.Simplex(3, shape=2),
    "factor": kmc.CorrelationCholesky(2),
    "cuts": kmc.Ordered(2),
    "p": kmc.Interval(-1, 1, shape=1),
}
DIM = 1 + 6 + 4 + 1 + 2 + 1


@pytest.fixture
def space():
    return ParameterSpace(PARAMETERS)


@pytest.fixture
def x():
    return np.random.default_rng(5).standard_normal((7, DIM))


def test_parameters_lie_one_after_the_other(space, x):
    values = space.constrain(x)
    np.testing.assert_allclose(values["rate"], np.exp(x[:, 0]))
    np.testing.assert_array_equal(values["theta"], x[:, 1:7].reshape(7, 2, 3))
    np.testing.assert_allclose(values["share"][3, 1], oracles.simplex(x[3, 9:11]))
    np.testing.assert_allclose(values["factor"][:, 1, 0], np.tanh(x[:, 11]))
    np.testing.assert_allclose(values["cuts"][4], oracles.ordered(x[4, 12:14]))
    np.testing.assert_allclose(values["p"][:, 0], oracles.straight_interval(x[:, 14], -1.0, 1.0))


def test_log_jacobians_add_up(space, x):
    expected = [
        each[0]
        + oracles.log_jacobian(lambda at: oracles.simplex(at)[:-1], each[7:9])
        + oracles.log_jacobian(lambda at: oracles.simplex(at)[:-1], each[9:11])
        + np.log(1 - np.tanh(each[11]) ** 2)
        + each[13]
        + oracles.log_jacobian(lambda at: oracles.straight_interval(at, -1.0, 1.0), each[14:15])
        for each in x
    ]
    np.testing.assert_allclose(space.log_jacobian(x), expected, atol=1e-8)
    assert type(space.log_jacobian(x[0])) is float
    assert space.log_jacobian(x[0]) == space.log_jacobian(x)[0]
    assert space.log_jacobian(x[:0]).shape == (0,)


def test_there_and_back(space, x):
    np.testing.assert_allclose(space.unconstrain(space.constrain(x)), x, atol=1e-12)


# Inverse of invalid values

VALUES = {"s": np.array([1.0, 2.0]), "w": np.array([[0.5, 0.5], [0.2, 0.8]])}


def unconstrain(**values):
    return ParameterSpace({"s": kmc.Positive(), "w": kmc.Simplex(2)}).unconstrain(VALUES | values)


def test_a_value_outside_is_named():
    with pytest.raises(
        ValueError, match=r"'s' has the value -3.0 in point 1: expected finite numbers above 0"
    ):
        unconstrain(s=[1.0, -3.0])
    with pytest.raises(
        ValueError, match=r"'w' has the value \[0.5, 0.6\] in point 0: .* positive .* the sum 1"
    ):
        unconstrain(w=[[0.5, 0.6], [0.2, 0.8]])


def test_a_wrong_shape_is_named():
    with pytest.raises(
        ValueError, match=r"'w' has values of shape \(2,\): expected real numbers of shape \(n, 2\)"
    ):
        unconstrain(w=[0.5, 0.5])
    with pytest.raises(
        ValueError,
        match=r"'s' has values of shape \(\): expected real numbers of shape \(n,\), for n points",
    ):
        unconstrain(s=1.0)
    with pytest.raises(ValueError, match=r"different numbers of points: {'s': 3, 'w': 2}"):
        unconstrain(s=[1.0, 2.0, 3.0])


@pytest.mark.parametrize("value", ["one", [1j, 1.0], [[1.0], [1.0, 2.0]], None])
def test_values_are_real(value):
    with pytest.raises(
        (TypeError, ValueError), match=r"the parameter 's' has .*: expected real numbers"
    ):
        unconstrain(s=value)


def test_every_parameter_has_a_value():
    with pytest.raises(ValueError, match=r"'t' is unknown: expected 's', 'w'"):
        unconstrain(t=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"'w' has no value: expected 's', 'w'"):
        ParameterSpace({"s": kmc.Positive(), "w": kmc.Simplex(2)}).unconstrain({"s": [1.0]})


# Names, dimensions and labels


def test_labels_give_the_shape():
    space = ParameterSpace(
        {"mu": kmc.Real(), "share": kmc.Simplex(3)},
        {"site": ["A", "B"], "kind": ["x", "y", "z"]},
        {"mu": "site", "share": ("site", "kind")},
    )
    assert space.dim == 2 + 2 * 2
    assert space.dims == {"mu": ("site",), "share": ("site", "kind")}
    assert list(space.coords["site"]) == ["A", "B"] and list(space.coords["kind"]) == [
        "x",
        "y",
        "z",
    ]


def test_a_shape_without_labels_and_labels_of_default_dimensions():
    space = ParameterSpace(
        {"a": kmc.Real(2), "b": kmc.Real((2, 2))}, {"b_dim_1": ["u", "v"]}, {"a": ["site"]}
    )
    assert space.dims == {"a": ("site",), "b": ("b_dim_0", "b_dim_1")}
    assert list(space.coords["site"]) == [0, 1] and list(space.coords["b_dim_1"]) == ["u", "v"]


AB = {"site": ["A", "B"]}
WRONG = [
    ([kmc.Real()], {}, {}, TypeError, r"^parameters=\[.*: expected a mapping such as"),
    (None, {}, {}, TypeError, r"^parameters=None: expected a mapping"),
    ({}, {}, {}, ValueError, r"^parameters={} is empty: expected a mapping"),
    ({1: kmc.Real()}, {}, {}, TypeError, r"^parameters has the name 1: expected a string"),
    ({"": kmc.Real()}, {}, {}, ValueError, r"^parameters has the name ''"),
    ({"a/b": kmc.Real()}, {}, {}, ValueError, r"^parameters has the name 'a/b'"),
    (
        {"chain": kmc.Real()},
        {},
        {},
        ValueError,
        r"^parameters has the name 'chain': .* neither 'chain' nor 'draw'",
    ),
    ({"a": 3}, {}, {}, ValueError, r"^parameters=.*: expected at least one that is not fixed"),
    ({"a": "3"}, {}, {}, TypeError, r"^parameters\['a'\]='3': expected kmc.Real\(\)"),
    ({"a": kmc.Real}, {}, {}, TypeError, r"^parameters\['a'\]=.*; call it, kmc.Real\(...\)"),
    ({"a": kmc.Real(2)}, ["site"], {}, TypeError, r"^coords=\['site'\]: expected a mapping"),
    ({"a": kmc.Real(2)}, {"site": 3}, {}, ValueError, r"^coords\['site'\]=3: expected a list"),
    (
        {"a": kmc.Real(2)},
        {"site": []},
        {},
        ValueError,
        r"^coords\['site'\]=\[\]: expected a list of at least one",
    ),
    (
        {"a": kmc.Real(2)},
        {"site": [[1], [1, 2]]},
        {},
        ValueError,
        r"^coords\['site'\]=.*: expected a list",
    ),
    (
        {"a": kmc.Real(2)},
        AB,
        {},
        ValueError,
        r"^coords has 'site', .*: expected some of 'a_dim_0'; name it in dims",
    ),
    ({"a": kmc.Real()}, AB, {}, ValueError, r"^coords has 'site', .*: expected some of nothing"),
    ({"a": kmc.Real(2)}, AB, ["site"], TypeError, r"^dims=\['site'\]: expected a mapping"),
    (
        {"a": kmc.Real(2)},
        AB,
        {"b": ["site"]},
        ValueError,
        r"^dims has 'b', .*: expected some of 'a'",
    ),
    ({"a": kmc.Real(2)}, AB, {"a": 3}, TypeError, r"^dims\['a'\]=3: expected a list of strings"),
    (
        {"a": kmc.Real(2)},
        AB,
        {"a": [3]},
        TypeError,
        r"^dims\['a'\]=\[3\]: expected a list of strings",
    ),
    ({"a": kmc.Real(2)}, AB, {"a": ["draw"]}, ValueError, r"^dims\['a'\] has 'draw'"),
    (
        {"a": kmc.Real(2)},
        AB,
        {"a": ["a"]},
        ValueError,
        r"^dims\['a'\] has 'a': .* the name of a parameter",
    ),
    (
        {"a": kmc.Real((2, 2))},
        AB,
        {"a": ["site", "site"]},
        ValueError,
        r"^dims\['a'\]=.*: expected each name once",
    ),
    (
        {"a": kmc.Real()},
        {},
        {"a": ["site"]},
        ValueError,
        r"^dims\['a'\] has 'site', whose length is not known",
    ),
    (
        {"a": kmc.Real(3)},
        AB,
        {"a": ["site"]},
        ValueError,
        r"'a' has the length 3 along 'site', which has 2 labels",
    ),
    (
        {"a": kmc.Simplex(3)},
        AB,
        {"a": ["site"]},
        ValueError,
        r"'a' has the length 3 along 'site', which has 2",
    ),
    (
        {"a": kmc.Real(())},
        AB,
        {"a": ["site"]},
        ValueError,
        r"^dims\['a'\]=.* names 1 dimensions: expected 0, .*\(\)",
    ),
    (
        {"a": kmc.Real(2)},
        AB,
        {"a": ["site", "b"]},
        ValueError,
        r"^dims\['a'\]=.* names 2 dimensions: expected 1",
    ),
    (
        {"a": kmc.Simplex(3)},
        {},
        {"a": []},
        ValueError,
        r"^dims\['a'\]=\(\) names 0 dimensions: expected 1",
    ),
    (
        {"a": kmc.Real(2), "b": kmc.Real(3)},
        {},
        {"a": ["site"], "b": ["site"]},
        ValueError,
        r"'b' has the length 3 along 'site', which has 2 labels in coords or that length in "
        r"another parameter",
    ),
]


@pytest.mark.parametrize(("parameters", "coords", "dims", "error", "message"), WRONG)
def test_what_does_not_fit_is_named(parameters, coords, dims, error, message):
    with pytest.raises(error, match=message):
        ParameterSpace(parameters, coords, dims)
