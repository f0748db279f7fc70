"""On which parameters outputs depend, as it is declared: names, elements and errors."""

import numpy as np
import pytest

import kmc
from kmc.model.depends import columns_of

PARAMETERS = {
    "mu": kmc.Normal(0, 1),
    "a": kmc.Normal("mu", 1.0, shape=3),
    "b": kmc.LogNormal(0, 1, shape=(3, 2)),
    "share": kmc.Dirichlet([1.0, 1.0, 1.0], shape=2),
    "c": kmc.Fixed([1.0, 2.0]),
    "odd[0]": kmc.Normal(0, 1),
    "sd": kmc.HalfNormal(1),
}


def model_of(depends, **changes):
    data = {name: kmc.likelihoods.Normal([1.0, 2.0], sd="sd") for name in ("first", "second")}
    options = {
        "simulator": dict,
        "likelihood": data,
        "parameters": PARAMETERS,
        "inputs": [*PARAMETERS][1:-1],
    }
    return kmc.Model(**{**options, "depends": depends, **changes})


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["a"], [1, 2, 3]),
        (["a[1]"], [2]),
        (["b[2, 0]", "a[0]", "b[2,0]"], [1, 8]),
        (["b[1]"], [6, 7]),
        (["share[1, 0]"], [12, 13]),
        (["share[1]"], [12, 13]),
        (["c[1]", "a[2]"], [3]),
        (["odd[0]"], [14]),
        (("c",), []),
    ],
    ids=str,
)
def test_columns(names, columns):
    model = model_of({"second": names})
    assert model.dim == 16
    (found,) = columns_of(model.simulation.depends, model.parameter_space).items()
    assert found[0] == "second" and found[1].tolist() == columns


@pytest.mark.parametrize(
    ("depends", "message"),
    [
        (
            [("first", "a")],
            r"depends=\[\('first', 'a'\)\]: expected a mapping of outputs' names to lists of",
        ),
        (
            {"third": ["a"]},
            "depends has 'third', which is not an output: expected some of 'first', 'second'",
        ),
        ({"first": "a"}, r"depends\['first'\]='a': expected a list of parameters' names"),
        ({"first": [0]}, r"depends\['first'\]=\[0\]: expected a list of parameters' names"),
        ({"first": []}, r"depends\['first'\]=\[\] is empty: expected names of parameters"),
        (
            {"first": ["z"]},
            r"depends\['first'\] has 'z', which is not a parameter: expected some of 'mu', 'a'",
        ),
        (
            {"first": ["z[0]"]},
            r"depends\['first'\] has 'z\[0\]', which is not a parameter: expected some of 'mu', "
            r"'a'",
        ),
        ({"first": ["a[-1]"]}, r"depends\['first'\] has 'a\[-1\]', which is not a parameter"),
        (
            {"first": ["mu"]},
            r"depends\['first'\] has 'mu', which the simulator does not get: expected some of its "
            r"inp",
        ),
        (
            {"first": ["a[3]"]},
            r"depends\['first'\] has 'a\[3\]': expected indices within the shape \(3,\) of 'a'",
        ),
        (
            {"first": ["b[0, 2]"]},
            r"has 'b\[0, 2\]': expected indices within the shape \(3, 2\) of 'b'",
        ),
        (
            {"first": ["a[0, 0]"]},
            r"has 'a\[0, 0\]': expected indices within the shape \(3,\) of 'a'",
        ),
        ({"first": ["c[2]"]}, r"has 'c\[2\]': expected indices within the shape \(2,\) of 'c'"),
    ],
    ids=str,
)
def test_what_is_not_known_is_named(depends, message):
    with pytest.raises((TypeError, ValueError), match=message):
        model_of(depends)


def test_it_is_of_a_simulator():
    with pytest.raises(
        TypeError, match=r"depends=\{'y': \['a'\]\} without simulator=: .* expected simulator="
    ):
        kmc.Model(lambda p: 0.0, parameters={"a": kmc.Normal(0, 1)}, depends={"y": ["a"]})


def test_it_stays_when_a_parameter_is_fixed_or_data_are_changed():
    model = model_of({"first": ["a[1]", "odd[0]"]})
    fixed = model.fix(a=[1.0, 2.0, 3.0])
    assert columns_of(fixed.simulation.depends, fixed.parameter_space)["first"].tolist() == [11]
    other = model.with_data({"first": np.zeros(2), "second": np.ones(2)})
    assert other.simulation.depends == model.simulation.depends
