import math
import re

import numpy as np
import pytest

from kmc.errors import EvaluationError
from kmc.model.evaluate import Evaluator, evaluate_block
from kmc.model.model import Model
from kmc.model.parameters import Positive, Real
from kmc.model.space import ParameterSpace

POINTS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def returning(value, **options):
    return Evaluator(Model(lambda x: value, dim=2, **options))


def test_values_come_back_in_order():
    evaluate = Evaluator(Model(lambda x: x[0] - 10 * x[1], dim=2))
    values = evaluate(POINTS)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [-19, -37, -55])
    assert evaluate.n_evaluations == 3


@pytest.mark.parametrize(
    "points", [POINTS, np.asfortranarray(POINTS), POINTS[::-1], POINTS.astype(int)]
)
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
    "value",
    [
        -1.5,
        -2,
        np.float32(-1.5),
        np.float64(-1.5),
        np.int64(-2),
        np.array(-1.5),
        np.array(-2),
        -math.inf,
    ],
)
def test_one_real_number_is_a_log_density(value):
    np.testing.assert_array_equal(returning(value)(POINTS), np.full(3, float(value)))


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (None, "None"),
        (np.array([-1.0, -2.0]), r"ndarray of shape \(2,\)"),
        (np.zeros((2, 2)), r"ndarray of shape \(2, 2\)"),
        ([-1.0, -2.0], r"\[-1.0, -2.0\]"),
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


MASKED = np.ma.array([0.0, 1.0, 2.0], mask=[False, True, False])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            Model(lambda x: np.ma.masked, dim=2),
            "a MaskedConstant of shape .*, with masked entries, expected a real number",
        ),
        (Model(lambda x: MASKED[1:2].sum(), dim=2), "with masked entries, expected a real number"),
        (
            Model(lambda x: MASKED, dim=2, vectorized=True),
            r"\(3,\) and dtype float64, with masked entries, expected 3",
        ),
        (
            Model(lambda x: (0.0, {"y": MASKED}), dim=2),
            "blob 'y': a MaskedArray .*, with masked entries, expected numbers",
        ),
    ],
)
def test_masked_values_are_not_what_is_below_the_mask(model, message):
    with pytest.raises(EvaluationError, match=message):
        Evaluator(model)(POINTS)


@pytest.mark.parametrize("part", ["log_likelihood", "log_prior"])
def test_masked_parts_are_refused(part):
    parts = {
        "log_likelihood": lambda x: -1.0,
        "log_prior": lambda x: -1.0,
        part: lambda x: np.ma.masked,
    }
    with pytest.raises(
        EvaluationError,
        match=f"{part} does not convert .*: it has masked entries, drop or fill them",
    ):
        Evaluator(Model(**parts, dim=2))(POINTS)


def test_masked_start_points_are_refused():
    with pytest.raises(TypeError, match="the parameter 'a' has the values masked_array"):
        Model(lambda p: 0.0, parameters={"a": Real()}, initial={"a": MASKED})


def test_the_function_is_not_blamed_for_a_point_that_is_not_finite():
    with pytest.raises(
        EvaluationError,
        match=r"at x = \[nan, nan\]; kmc's arithmetic overflowed: rescale the parameters",
    ):
        returning(math.nan)(np.full((1, 2), np.nan))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("on_error", ["raise", "reject", "retry"])
def test_nonfinite_values_are_rejected(value, on_error):
    kept = []
    model = Model(lambda x: -math.inf if x[0] == 1 else value, dim=2, on_error=on_error)
    evaluate = Evaluator(model, keep=lambda points, evaluations: kept.extend(evaluations))
    np.testing.assert_array_equal(evaluate(POINTS), np.full(3, -math.inf))
    assert (evaluate.n_evaluations, evaluate.n_retried) == (3, 0)
    # a store tells them apart
    np.testing.assert_array_equal([one.value for one in kept], [-math.inf, value, value])


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("on_error", ["raise", "reject", "retry"])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            math.nan,
            "NaN, expected a finite number or -inf, at x = [3., 4.]; return -inf where the "
            "density is zero",
        ),
        (
            math.inf,
            "+inf, expected a finite number or -inf, at x = [3., 4.]; a density is finite, so "
            "check for an ov",
        ),
    ],
)
def test_nonfinite_values_raise_if_the_model_asks_for_it(value, said, on_error, vectorized):
    calls = []

    def log_density(x):
        calls.append(x)
        return np.where(x[:, 0] == 3, value, 0.0) if vectorized else value if x[0] == 3 else 0.0

    model = Model(log_density, dim=2, vectorized=vectorized, on_error=on_error, nonfinite="raise")
    evaluate = Evaluator(model)
    with pytest.raises(EvaluationError, match=re.escape(said)) as caught:
        evaluate(POINTS)
    assert str(caught.value).endswith('sample kmc.Model(log_density, dim=2, nonfinite="reject")')
    np.testing.assert_array_equal(caught.value.position, [3, 4])
    assert caught.value.__cause__ is None and caught.value.reason == ""
    assert (evaluate.n_evaluations, evaluate.n_retried) == (3 if vectorized else 2, 0)
    assert len(calls) == (1 if vectorized else 2)
    (outcome,) = evaluate_block(model, POINTS[1:2])  # in another process
    with pytest.raises(EvaluationError, match=re.escape(said)):
        outcome.throw()


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"dim": 2}, 'kmc.Model(log_density, dim=2, on_error="reject")'),
        (
            {"parameters": {"mu": Real(2)}},
            'kmc.Model(log_density, parameters=..., on_error="reject")',
        ),
        (
            {"space": ParameterSpace({"mu": Real(2)})},
            'kmc.Model(log_density, parameters=..., on_error="reject")',
        ),
    ],
)
def test_the_remedy_is_for_the_model_in_hand(options, remedy):
    def fails(x):
        raise ValueError("no")

    with pytest.raises(
        EvaluationError, match=f"; fix it, return -inf .*sample {re.escape(remedy)}$"
    ):
        Evaluator(Model(fails, **options))(POINTS)


class Failing:
    """It raises at the point (3, 4), so many times."""

    def __init__(self, times, vectorized=False):
        self.left, self.vectorized, self.calls = times, vectorized, []

    def __call__(self, x):
        self.calls.append(np.array(x))
        if np.any(np.atleast_2d(x)[:, 0] == 3) and self.left:
            self.left -= 1
            raise ZeroDivisionError("a rate of zero")
        return np.atleast_2d(x)[:, 1] if self.vectorized else float(x[1])


@pytest.mark.parametrize("vectorized", [False, True])
def test_failed_calls_are_rejected_and_good_points_of_the_same_call_are_kept(vectorized):
    kept, function = [], Failing(9, vectorized)
    evaluate = Evaluator(
        Model(function, dim=2, vectorized=vectorized, on_error="reject"),
        keep=lambda _, evaluations: kept.extend(evaluations),
    )
    np.testing.assert_array_equal(evaluate(POINTS), [2, -math.inf, 6])
    assert [one.failure for one in kept] == ["", "ZeroDivisionError: a rate of zero", ""]
    assert math.isnan(kept[1].value)
    assert (evaluate.n_evaluations, evaluate.n_retried) == (3, 0)
    assert len(function.calls) == (4 if vectorized else 3)


@pytest.mark.parametrize("vectorized", [False, True])
def test_failed_calls_are_made_once_more(vectorized):
    evaluate = Evaluator(
        Model(Failing(1, vectorized), dim=2, vectorized=vectorized, on_error="retry")
    )
    np.testing.assert_array_equal(evaluate(POINTS), [2, 4, 6])
    assert (evaluate.n_evaluations, evaluate.n_retried) == (3, 3 if vectorized else 1)
    with pytest.raises(EvaluationError, match="ZeroDivisionError"):
        Evaluator(Model(Failing(9, vectorized), dim=2, vectorized=vectorized, on_error="retry"))(
            POINTS
        )


@pytest.mark.parametrize("returned", ["-1", None, np.zeros(2)])
def test_what_is_no_number_is_never_rejected(returned):
    with pytest.raises(EvaluationError, match="expected a real number"):
        Evaluator(Model(lambda x: returned, dim=2, on_error="reject"))(POINTS)


def test_an_exception_is_kept_as_the_cause():
    def log_density(x):
        if x[0] == 3:
            x[:] = 0.0
            raise ZeroDivisionError("a rate of zero")
        return 0.0

    evaluate = Evaluator(Model(log_density, dim=2))
    with pytest.raises(
        EvaluationError, match=r"ZeroDivisionError: a rate of zero, at x = \[3., 4.\]"
    ) as caught:
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


def test_a_vectorized_model_is_called_once():
    calls = []

    def log_density(x):
        calls.append(x.shape)
        x *= -1
        return x[:, 0]

    evaluate = Evaluator(Model(log_density, dim=2, vectorized=True))
    points = POINTS.copy()
    np.testing.assert_array_equal(evaluate(points), [-1, -3, -5])
    np.testing.assert_array_equal(points, POINTS)
    assert calls == [(3, 2)]
    assert evaluate.n_evaluations == 3


@pytest.mark.parametrize("shape", [(), (2,), (3, 1), (1, 3)])
def test_a_vectorized_model_returns_a_value_for_each_row(shape):
    evaluate = Evaluator(Model(lambda x: np.zeros(shape), dim=2, vectorized=True))
    message = (
        rf"ndarray of shape \({', '.join(map(str, shape))},?\).*"
        r"expected 3 real numbers.*shape \(3,\)"
    )
    with pytest.raises(EvaluationError, match=message) as caught:
        evaluate(POINTS)
    np.testing.assert_array_equal(caught.value.position, POINTS)


def test_a_nan_in_one_row_is_rejected():
    evaluate = Evaluator(
        Model(lambda x: np.where(x[:, 0] == 3, np.nan, x[:, 1]), dim=2, vectorized=True)
    )
    np.testing.assert_array_equal(evaluate(POINTS), [2, -math.inf, 6])


@pytest.mark.parametrize("vectorized", [False, True])
def test_named_parameters_are_in_the_error_and_their_jacobian_in_the_value(vectorized):
    parameters = {"mu": Real(), "sigma": Positive()}

    def log_density(p):
        assert set(p) == {"mu", "sigma"}
        if np.any(p["mu"] == 3):
            raise ValueError("no")
        return p["mu"]

    evaluate = Evaluator(Model(log_density, parameters=parameters, vectorized=vectorized))
    assert evaluate(POINTS[:1])[0] == pytest.approx(
        1 + evaluate.model.log_jacobian(POINTS[0]), rel=1e-15
    )
    assert evaluate.model.log_jacobian(POINTS[0]) != 0
    with pytest.raises(
        EvaluationError, match=r"ValueError: no, at mu = \[?3.*, sigma = "
    ) as caught:
        evaluate(POINTS[1:2])
    np.testing.assert_array_equal(caught.value.position, POINTS[1:2] if vectorized else POINTS[1])
    assert caught.value.parameters == {
        name: value[1] for name, value in evaluate.model.constrain(POINTS).items()
    }


@pytest.mark.parametrize(
    ("blobs", "message"),
    [
        ({1: 0.0}, "blob named 1,.* strings"),
        ({"x": 0.0}, "blob named 'x', which is the name of a parameter"),
        ({"x_dim_0": 0.0}, "blob named 'x_dim_0', which is the name of .* a dimension"),
        ({"draw": 0.0}, "blob named 'draw'"),
        ({"": 0.0}, "blob named ''.* not empty"),
        ({"a/b": 0.0}, "blob named 'a/b'.* no '/'"),
        ({"log_likelihood": {"chain": 0.0}}, "blob named 'log_likelihood.chain'"),
        ({"log_likelihood": {"": 0.0}}, "blob named 'log_likelihood.'.* not empty"),
        ({"log_likelihood": {2: 0.0}}, "blob named 2,.* strings"),
        ({"other": {"y": 0.0}}, r"blob 'other': .* \(dict\), expected numbers"),
        ({"name": "Anna"}, r"blob 'name': 'Anna' \(str\), expected numbers"),
        ({"mixed": [1.0, [2.0]]}, r"blob 'mixed': \[1.0, \[2.0\]\] \(list\), expected numbers"),
        ({"nothing": None}, "blob 'nothing': None"),
    ],
)
def test_blobs_are_numbers_with_names_of_their_own(blobs, message):
    with pytest.raises(EvaluationError, match=rf"log_density returned .*{message}.*") as caught:
        returning((0.0, blobs))(POINTS)
    np.testing.assert_array_equal(caught.value.position, [1, 2])


def test_blobs_are_copies():
    reused = np.zeros(2)

    def log_density(x):
        reused[:] = x
        return 0.0, {"x_again": reused}

    kept = []
    Evaluator(Model(log_density, dim=2), keep=lambda points, evaluations: kept.extend(evaluations))(
        POINTS
    )
    np.testing.assert_array_equal([evaluation.blobs["x_again"] for evaluation in kept], POINTS)


def test_blobs_of_a_vectorized_model_have_a_row_for_each_point():
    kept = []
    model = Model(lambda x: (x[:, 0], {"double": 2 * x}), dim=2, vectorized=True)
    Evaluator(model, keep=lambda points, evaluations: kept.extend(evaluations))(POINTS)
    np.testing.assert_array_equal([evaluation.blobs["double"] for evaluation in kept], 2 * POINTS)
    short = Model(lambda x: (x[:, 0], {"double": x[:2]}), dim=2, vectorized=True)
    with pytest.raises(
        EvaluationError, match=r"blob 'double' of shape \(2, 2\), expected \(3, ...\)"
    ):
        Evaluator(short)(POINTS)


@pytest.mark.parametrize(
    "returned", [np.array([-1.5]), [-1.5], np.array([-1.5], dtype=np.float32), np.array(-1.5)]
)
def test_an_array_of_one_number_is_a_number(returned):
    assert Evaluator(Model(lambda x: returned, dim=2))(POINTS).tolist() == [-1.5] * 3
    assert Evaluator(Model(lambda x: (returned, {"twice": 2}), dim=2))(POINTS[:1]).tolist() == [
        -1.5
    ]
