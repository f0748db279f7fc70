import re

import numpy as np
import pytest

import kmc
from kmc.model.evaluate import Evaluator
from kmc.model.model import Model


def normal(x):
    return -0.5 * float(x @ x)


@pytest.mark.parametrize("log_density", [None, 3.0, "normal"])
def test_a_log_density_must_be_callable(log_density):
    with pytest.raises(TypeError, match=r"^log_density=.* is not callable: pass a function"):
        Model(log_density, 2)


@pytest.mark.parametrize("dim", [2.0, "2", None, True, np.True_, (2,), {"a": kmc.Real()}])
def test_a_dimension_must_be_an_integer(dim):
    with pytest.raises(TypeError, match=r"^dim=.* is not an integer: pass .*parameters="):
        Model(normal, dim)


@pytest.mark.parametrize("dim", [0, -1, np.int32(0)])
def test_a_dimension_must_be_positive(dim):
    with pytest.raises(ValueError, match=r"^dim=.* is not positive: pass"):
        Model(normal, dim)


@pytest.mark.parametrize("on_error", ["ignore", None, True])
def test_an_unknown_treatment_of_failed_calls_is_refused(on_error):
    with pytest.raises(ValueError, match=r"^on_error=.*: expected 'raise' or 'reject' or 'retry'"):
        Model(normal, 2, on_error=on_error)


@pytest.mark.parametrize("nonfinite", ["ignore", "retry", None, True])
def test_an_unknown_treatment_of_nan_is_refused(nonfinite):
    with pytest.raises(ValueError, match=r"^nonfinite=.*: expected 'reject' or 'raise'"):
        Model(normal, 2, nonfinite=nonfinite)


@pytest.mark.parametrize("noisy", [1, None, "yes", 0.5])
def test_noisy_is_a_bool(noisy):
    with pytest.raises(TypeError, match=r"^noisy=.*: pass True if"):
        Model(normal, 2, noisy=noisy)


@pytest.mark.parametrize("vectorized", [1, None, "yes"])
def test_vectorized_is_a_bool(vectorized):
    with pytest.raises(
        TypeError, match=r"^vectorized=.*: pass True if log_density takes many points"
    ):
        Model(normal, 2, vectorized=vectorized)


@pytest.mark.parametrize("args", [[1.0], 1.0, None, np.zeros(2)])
def test_args_are_a_tuple(args):
    with pytest.raises(TypeError, match=r"^args=.*: expected a tuple"):
        Model(normal, 2, args=args)


@pytest.mark.parametrize("kwargs", [[("a", 1)], 3, {1: 2}])
def test_kwargs_are_a_mapping(kwargs):
    with pytest.raises(TypeError, match=r"^kwargs=.*: expected a mapping of names"):
        Model(normal, 2, kwargs=kwargs)


# A vector


def test_a_vector_is_x():
    model = Model(normal, 3)
    points = np.arange(6.0).reshape(2, 3)
    assert not model.named and model.dims == {"x": ("x_dim_0",)}
    np.testing.assert_array_equal(model.coords["x_dim_0"], np.arange(3))
    np.testing.assert_array_equal(model.constrain(points)["x"], points)
    assert model.log_jacobian(points[0]) == 0.0
    np.testing.assert_array_equal(model.log_jacobian(points), np.zeros(2))
    assert model.initial_points(np.random.default_rng(0), 4) is None


def test_further_arguments():
    x = np.ones(2)
    model = Model(lambda *args, **kwargs: (args, kwargs), 2, args=(3, "four"), kwargs={"five": 5})
    (given, *rest), kwargs = model.call(x)
    assert given is x and rest == [3, "four"] and kwargs == {"five": 5}


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("bounds", 'use parameters={"a": kmc.Interval(0, 1), ...}'),
        ("names", 'use parameters={"a": kmc.Real(), ...}'),
        ("priors", 'use parameters={"a": kmc.Normal(0, 1), ...}'),
        ("vectorised", "did you mean vectorized=?"),
        ("xyz", "expected one of log_density, dim"),
    ],
)
def test_names_of_other_packages(name, remedy):
    with pytest.raises(
        TypeError, match=re.escape(f"kmc.Model() has no argument {name!r}: {remedy}")
    ):
        Model(normal, 2, **{name: 1})


# Parameters with names

PARAMETERS = {"s": kmc.Positive(), "m": kmc.Real(2), "one": kmc.Real(1)}


def given(parameters, *args):
    return parameters


def test_the_function_gets_floats_and_arrays_of_its_own():
    model = Model(given, parameters=PARAMETERS)
    x = np.arange(4.0)
    values = model.call(x)
    assert list(values) == ["s", "m", "one"] and model.named and model.dim == 4
    assert type(values["s"]) is float and values["s"] == 1.0
    for name, expected in {"m": [1.0, 2.0], "one": [3.0]}.items():
        assert values[name].dtype == np.float64 and values[name].flags.writeable
        np.testing.assert_array_equal(values[name], expected)
        values[name][:] = np.nan
    np.testing.assert_array_equal(x, np.arange(4.0))


def test_a_vectorized_function_gets_many_of_each():
    model = Model(given, parameters=PARAMETERS, vectorized=True)
    values = model.call(np.zeros((5, 4)))
    assert {name: value.shape for name, value in values.items()} == {
        "s": (5,),
        "m": (5, 2),
        "one": (5, 1),
    }


def test_jacobians_are_those_of_the_parameters():
    model = Model(given, parameters=PARAMETERS)
    assert model.log_jacobian(np.arange(4.0) + 1) == 1.0
    np.testing.assert_array_equal(model.log_jacobian(np.arange(8.0).reshape(2, 4)), [0, 4])


class Halved:
    """A space whose function has the vector and all Jacobians in it."""

    dim = 2
    dims = {"half": ("site",)}  # noqa: RUF012
    coords = {"site": ["A", "B"]}  # noqa: RUF012

    def constrain(self, points):
        return {"half": points / 2}

    def log_jacobian(self, x):
        return np.zeros(x.shape[:-1])

    def initial_points(self, rng, n):
        return rng.uniform(size=(n, 2))


def test_a_space_shows_the_vector_that_the_function_takes():
    model = Model(normal, space=Halved())
    x = np.ones(2)
    assert model.dim == 2 and model.named and model.dims == {"half": ("site",)}
    assert model.call(x) == -1.0
    np.testing.assert_array_equal(model.constrain(x[None])["half"], [[0.5, 0.5]])
    assert model.initial_points(np.random.default_rng(0), 3).shape == (3, 2)


@pytest.mark.parametrize(
    ("options", "pair"),
    [
        ({"dim": 4, "parameters": PARAMETERS}, "dim=4 and parameters="),
        ({"dim": 2, "space": Halved()}, "dim=2 and space="),
        ({"parameters": PARAMETERS, "space": Halved()}, "parameters=.* and space="),
        ({"space": Halved(), "dims": {"half": ["a"]}}, "dims=.* and coords=None: leave them out"),
    ],
)
def test_dimensions_are_said_once(options, pair):
    with pytest.raises(TypeError, match=f"^{pair}"):
        Model(normal, **options)


@pytest.mark.parametrize("parameters", [{}, [], {"a": 1.0}])
def test_parameters_are_checked(parameters):
    with pytest.raises((TypeError, ValueError), match=r"^parameters.*: expected"):
        Model(normal, parameters=parameters)


def test_start_points_of_its_own():
    starts = [{"s": s, "m": [s, s], "one": [0.0]} for s in (1.0, 2.0)]
    model = Model(given, parameters=PARAMETERS, initial=starts)
    points = model.initial_points(np.random.default_rng(0), 1)
    np.testing.assert_allclose(points, [[0, 1, 1, 0], [np.log(2), 2, 2, 0]])
    points[:] = 0.0
    assert model.initial_points(np.random.default_rng(0), 1)[1, 1] == 2.0
    with pytest.raises(
        ValueError, match=r"^initial: the parameter 's' has the value -1.0 in point 0"
    ):
        Model(given, parameters=PARAMETERS, initial=[{"s": -1.0, "m": [0, 0], "one": [0.0]}])
    with pytest.raises(ValueError, match=r"^initial has shape \(2, 3\): expected \(1, 4\)"):
        Model(given, parameters=PARAMETERS, initial=np.zeros((2, 3)))


def test_labels_that_cannot_be_read_are_named():
    class Unreadable:
        def __array__(self, dtype=None, copy=None):
            raise TypeError("no array")

    with pytest.raises(ValueError, match=r"coords\['site'\]=.*expected a list of labels"):
        Model(
            lambda p: 0.0,
            parameters={"a": kmc.Real()},
            dims={"a": ["site"]},
            coords={"site": Unreadable()},
        )


def test_a_prior_apart():
    """What remains is the likelihood, which does not have the log-Jacobian."""
    points = np.random.default_rng(0).normal(size=(3, 2))
    assert kmc.Model(lambda x: 0.0, dim=2).log_prior_apart(points) is None
    assert (
        kmc.Model(lambda p: 0.0, parameters={"a": kmc.Positive(2)}).log_prior_apart(points) is None
    )

    def likelihood(p):
        return -float(np.sum(p["a"] ** 2)) if isinstance(p, dict) else -np.sum(p**2, axis=-1)

    vector = {
        "log_likelihood": likelihood,
        "log_prior": lambda x: np.sum(np.sin(x), axis=-1),
        "dim": 2,
    }
    by_name = {"log_likelihood": likelihood, "log_prior": lambda p: float(np.sin(p["a"]).sum())}
    models = (
        kmc.Model(**vector),
        kmc.Model(**vector, vectorized=True),
        kmc.Model(**by_name, parameters={"a": kmc.Positive(2)}),
        kmc.Model(likelihood, parameters={"a": kmc.Exponential(1.0, shape=2)}),
        kmc.Model(**by_name, parameters={"a": kmc.Exponential(1.0, shape=2)}),
    )
    for model in models:
        a = model.constrain(points).get("a", points)
        rest = Evaluator(model)(points) - model.log_prior_apart(points)
        np.testing.assert_allclose(rest, -np.sum(a**2, axis=1), rtol=1e-12)
        assert model.log_prior_apart(points[:0]).shape == (0,)
