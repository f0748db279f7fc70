import numpy as np
import pytest

import kmc
from kmc.model.starts import start_points


def log_density(parameters):
    return 0.0


MODEL = kmc.Model(
    log_density, parameters={"s": kmc.Positive(), "w": kmc.Simplex(2), "m": kmc.Real(2)}
)
X = np.random.default_rng(3).standard_normal((5, 4))


def test_unconstrained_points_are_taken_as_they_are():
    points = MODEL.start_points(X, 4)
    np.testing.assert_array_equal(points, X)
    assert not np.shares_memory(points, X)


def test_arrays_by_name():
    np.testing.assert_allclose(MODEL.start_points(MODEL.constrain(X), 5), X)


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_mapping_for_each_point(kind):
    values = MODEL.constrain(X)
    points = kind({name: value[i] for name, value in values.items()} for i in range(5))
    np.testing.assert_allclose(MODEL.start_points(points, 5), X)


def test_a_plain_vector_is_x():
    np.testing.assert_array_equal(kmc.Model(log_density, 4).start_points({"x": X}, 5), X)


def test_too_few():
    for initial in (X, MODEL.constrain(X)):
        with pytest.raises(
            ValueError,
            match=r"^initial has shape \(5, 4\): expected \(6, 4\), one start point per chain",
        ):
            MODEL.start_points(initial, 6)


@pytest.mark.parametrize(
    ("initial", "error", "message"),
    [
        (
            {"s": [1.0]},
            ValueError,
            r"^initial: the parameter 'm' has no value: expected 's', 'w', 'm'",
        ),
        (
            {"s": [-1.0], "w": [[0.5, 0.5]], "m": [[0.0, 0.0]]},
            ValueError,
            r"^initial: the parameter 's' has the value -1.0 in point 0: expected finite numbers "
            r"above 0",
        ),
        (
            {"s": [1.0], "w": [[0.5, 0.5]], "m": [[0.0, np.nan]]},
            ValueError,
            r"^initial: the parameter 'm' has the value nan in point 0: expected finite numbers",
        ),
        (
            [{"s": 1.0}, {"w": [0.5, 0.5]}],
            ValueError,
            r"^initial\[1\]=.*: expected a mapping with the same names",
        ),
        (
            [{"s": 1.0}, 3.0],
            ValueError,
            r"^initial\[1\]=3.0: expected a mapping with the same names",
        ),
        (
            {"s": ["a"], "w": [[0.5, 0.5]], "m": [[0.0, 0.0]]},
            TypeError,
            r"^initial: the parameter 's' has the values",
        ),
        (X[0], ValueError, r"^initial has shape \(4,\): expected \(1, 4\)"),
        ("here", TypeError, r"^initial='here': expected real numbers of shape \(1, 4\)"),
        ([[0, 0, 0, 1j]], TypeError, r"^initial=.*: expected real numbers of shape \(1, 4\)"),
        ([[0.0, 0.0, np.inf, 0.0]], ValueError, r"^initial\[0\]=.*: expected finite numbers"),
    ],
)
def test_what_cannot_be_a_start_is_named(initial, error, message):
    with pytest.raises(error, match=message):
        MODEL.start_points(initial, 1)


def test_a_space_without_an_inverse_takes_vectors_only():
    class OneWay:
        dim = 2

    np.testing.assert_array_equal(start_points(X[:, :2], 1, OneWay()), X[:, :2])
    with pytest.raises(
        TypeError, match=r"^initial=.*: expected an array \(k, 2\) of unconstrained points"
    ):
        start_points({"a": [1.0]}, 1, OneWay())
