import numpy as np
import pytest

import kmc


@pytest.mark.parametrize(
    ("given", "shape"),
    [(None, None), ((), ()), (3, (3,)), (np.int64(2), (2,)), ((2, 3), (2, 3)), ([4], (4,))],
)
def test_shapes(given, shape):
    assert kmc.Real(given).shape == shape
    assert kmc.Interval(0, 1, shape=given).shape == shape
    assert kmc.UpperBound(1, shape=given).shape == shape
    assert kmc.Simplex(3, given).shape == shape


@pytest.mark.parametrize("given", [2.0, "2", True, (2, 3.0), ((2,),), np.True_, {2}])
def test_a_shape_is_of_integers(given):
    with pytest.raises(
        TypeError, match=r"^shape=.*: expected a whole number of at least 1, or a tuple of them"
    ):
        kmc.Positive(given)


@pytest.mark.parametrize("given", [0, -1, (2, 0)])
def test_a_length_is_positive(given):
    with pytest.raises(ValueError, match=r"^shape=.*: expected a whole number of at least 1"):
        kmc.Real(given)


@pytest.mark.parametrize(
    "parameter",
    [
        kmc.Real(10**9),
        kmc.Normal(0, 1, shape=(10**5, 10**30)),
        kmc.Simplex(10**9),
        kmc.Positive(10**5),
    ],
)
def test_shapes_that_no_memory_holds(parameter):
    with pytest.raises(
        ValueError,
        match=r"^the parameter 'b' has the shape \(.*\), .* numbers in all: expected at most 1",
    ):
        kmc.Model(lambda p: 0.0, parameters={"a": kmc.Real(), "b": parameter})
    with pytest.raises(ValueError, match=r"^dim=1000000000: expected at most 100000$"):
        kmc.Model(lambda x: 0.0, dim=10**9)


@pytest.mark.parametrize("bound", [np.nan, np.inf, -np.inf])
def test_bounds_are_finite(bound):
    for name, make in {"lower": kmc.LowerBound, "upper": kmc.UpperBound}.items():
        with pytest.raises(ValueError, match=rf"^{name}=.*: expected a number"):
            make(bound)
    with pytest.raises(ValueError, match=r"^lower=.*: expected a number"):
        kmc.Interval(bound, 0)
    with pytest.raises(ValueError, match=r"^upper=.*: expected a number"):
        kmc.Interval(0, bound)


@pytest.mark.parametrize("bound", ["0", None, True, [0.0], 1j])
def test_bounds_are_numbers(bound):
    with pytest.raises(TypeError, match=r"^lower=.*: expected a number"):
        kmc.LowerBound(bound)
    with pytest.raises(TypeError, match=r"^upper=.*: expected a number"):
        kmc.Interval(0, bound)


@pytest.mark.parametrize(
    "bounds", [(1, 0), (1, 1), (0, 5e-324), (-1e308, 1e308), (1, np.nextafter(1, 2))]
)
def test_bounds_have_numbers_between_them(bounds):
    with pytest.raises(
        ValueError, match=r"^lower=.* and upper=.*: expected lower < upper, with numbers in between"
    ):
        kmc.Interval(*bounds)


@pytest.mark.parametrize("make", [kmc.Simplex, kmc.Ordered, kmc.CorrelationCholesky])
def test_sizes(make):
    assert make(np.int64(2)).transform.shape in {(2,), (2, 2)}
    for size in (1, 0, -3):
        with pytest.raises(ValueError, match=r"^size=.*: expected a whole number of at least 2"):
            make(size)
    for size in (2.0, "3", None, True):
        with pytest.raises(TypeError, match=r"^size=.*: expected a whole number of at least 2"):
            make(size)
