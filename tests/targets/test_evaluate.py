import math

import numpy as np
import pytest

from kmc.errors import EvaluationError
from kmc.targets.evaluate import Evaluator
from kmc.targets.model import Model

POINTS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def returning(value, **options):
    return Evaluator(Model(lambda x: value, dim=2, **options))


def test_values_come_back_in_order():
    evaluate = Evaluator(Model(lambda x: x[0] - 10 * x[1], dim=2))
    values = evaluate(POINTS)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [-19, -37, -55])
    assert evaluate.n_evaluations == 3


def test_no_points_cost_nothing():
    evaluate = returning(0.0)
    assert evaluate(np.empty((0, 2))).shape == (0,)
    assert evaluate.n_evaluations == 0


@pytest.mark.parametrize("points", [POINTS, np.asfortranarray(POINTS), POINTS[::-1], POINTS.astype(int)])
def test_the_function_owns_its_argument(points):
    seen = []

    def log_density(x):
        assert x.dtype == np.float64 and x.shape == (2,)
        assert x.flags.c_contiguous and x.flags.writeable and x.flags.owndata
        seen.append(x)
        x[:] = np.nan
        return 0.0

    before = points.copy()
    Evaluator(Model(log_density, dim=2))(points)
    np.testing.assert_array_equal(points, before)
    assert len({id(x) for x in seen}) == 3


@pytest.mark.parametrize(
    "value", [-1.5, -2, np.float32(-1.5), np.float64(-1.5), np.int64(-2), np.array(-1.5), np.array(-2), -math.inf]
)
def test_one_real_number_is_a_log_density(value):
    np.testing.assert_array_equal(returning(value)(POINTS), np.full(3, float(value)))


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (None, "None"),
        (np.array([-1.0]), r"ndarray of shape \(1,\)"),
        (np.zeros((2, 2)), r"ndarray of shape \(2, 2\)"),
        ([-1.0], r"\[-1.0\]"),
        ([1.0, [2.0]], "list"),
        (1j, "1j"),
        (np.array(1j), "complex128"),
        ("-1", "'-1'"),
        (False, "False"),
        (np.True_, "True"),
        ({"value": 1.0}, "dict"),
    ],
)
def test_anything_else_is_named(value, named):
    evaluate = returning(value)
    message = rf"returned .*{named}.*expected a real number, at x = \[1., 2.\]; return"
    with pytest.raises(EvaluationError, match=message):
        evaluate(POINTS)
    assert evaluate.n_evaluations == 1


def test_nan_stops_with_the_parameters():
    evaluate = Evaluator(Model(lambda x: math.nan if x[0] == 3 else 0.0, dim=2))
    with pytest.raises(EvaluationError, match=r"NaN.* at x = \[3., 4.\]; .*nonfinite") as caught:
        evaluate(POINTS)
    np.testing.assert_array_equal(caught.value.position, [3, 4])
    assert caught.value.__cause__ is None
    assert evaluate.n_evaluations == 2


def test_nan_can_be_rejected():
    np.testing.assert_array_equal(returning(math.nan, nonfinite="reject")(POINTS), np.full(3, -math.inf))


@pytest.mark.parametrize("nonfinite", ["raise", "reject"])
def test_an_infinite_density_always_stops(nonfinite):
    with pytest.raises(EvaluationError, match=r"\+inf"):
        returning(math.inf, nonfinite=nonfinite)(POINTS)


def test_an_exception_is_kept_as_the_cause():
    def log_density(x):
        if x[0] == 3:
            x[:] = 0.0
            raise ZeroDivisionError("a rate of zero")
        return 0.0

    evaluate = Evaluator(Model(log_density, dim=2))
    with pytest.raises(EvaluationError, match=r"ZeroDivisionError: a rate of zero, at x = \[3., 4.\]") as caught:
        evaluate(POINTS)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    np.testing.assert_array_equal(caught.value.position, [3, 4])
    assert evaluate.n_evaluations == 2


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_request_to_stop_passes_through(stop):
    def log_density(x):
        raise stop

    evaluate = Evaluator(Model(log_density, dim=2))
    with pytest.raises(stop):
        evaluate(POINTS)
    assert evaluate.n_evaluations == 1


def test_a_long_parameter_vector_is_shortened_in_the_message_only():
    evaluate = Evaluator(Model(lambda x: math.nan, dim=1000))
    with pytest.raises(EvaluationError) as caught:
        evaluate(np.ones((1, 1000)))
    assert len(str(caught.value)) < 400
    assert caught.value.position.shape == (1000,)
