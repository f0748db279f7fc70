import dataclasses

import numpy as np
import pytest

from kmc.targets.model import Model


def normal(x):
    return -0.5 * float(x @ x)


def test_a_model_keeps_what_it_was_given():
    model = Model(normal, dim=3)
    assert model.log_density is normal
    assert (model.dim, model.nonfinite) == (3, "raise")


def test_a_numpy_integer_is_a_dimension():
    assert type(Model(normal, np.int64(2)).dim) is int


def test_a_model_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Model(normal, 2).dim = 3


@pytest.mark.parametrize("log_density", [None, 3.0, "normal"])
def test_a_log_density_must_be_callable(log_density):
    with pytest.raises(TypeError, match=r"^log_density=.* is not callable: pass a function"):
        Model(log_density, 2)


@pytest.mark.parametrize("dim", [2.0, "2", None, True, np.True_, (2,)])
def test_a_dimension_must_be_an_integer(dim):
    with pytest.raises(TypeError, match=r"^dim=.* is not an integer: pass"):
        Model(normal, dim)


@pytest.mark.parametrize("dim", [0, -1, np.int32(0)])
def test_a_dimension_must_be_positive(dim):
    with pytest.raises(ValueError, match=r"^dim=.* is not positive: pass"):
        Model(normal, dim)


@pytest.mark.parametrize("nonfinite", ["ignore", None, True])
def test_an_unknown_treatment_of_nan_is_refused(nonfinite):
    with pytest.raises(ValueError, match=r'^nonfinite=.* is unknown: pass "raise"'):
        Model(normal, 2, nonfinite=nonfinite)


def test_a_target_is_exact_unless_it_is_said_to_be_noisy():
    assert Model(normal, 2).noisy is False
    assert Model(normal, 2, noisy=True).noisy is True


@pytest.mark.parametrize("noisy", [1, None, "yes", 0.5])
def test_noisy_is_a_bool(noisy):
    with pytest.raises(TypeError, match=r"^noisy=.*: pass True if"):
        Model(normal, 2, noisy=noisy)
