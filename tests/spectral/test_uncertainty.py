import numpy as np
import pytest

from kmc.spectral.uncertainty import Uncertainty

RNG = np.random.default_rng(0)
X = RNG.standard_normal((1000, 1))
ONES = np.ones(1000)
ZERO, TWO = np.zeros(1), np.array([2.0])


def of(between=ZERO, change=ZERO, modes=X, squares=ONES[:, None], represented=1.0):
    return Uncertainty.of(between, change, modes, squares, ONES, represented)


def test_a_mode_that_is_known():
    known = of(between=np.array([0.1]))
    assert known.total()[0] == pytest.approx(np.hypot(0.1, 1000**-0.5), rel=0.01)
    assert known.sentence(TWO) == ""


def test_samples_that_carry_the_energy():
    """Ten of a thousand; those judged may be a part of all."""
    squares = np.where(np.arange(1000) < 10, 1.0, 0.0)[:, None]
    assert of(squares=squares).few_samples[0] == pytest.approx(10**-0.5)
    assert of(squares=squares, represented=4.0).few_samples[0] == pytest.approx(40**-0.5)


def test_the_sentence_names_the_main_cause():
    few = np.where(np.arange(1000) < 5, 1.0, 1e-6)[:, None]
    assert "its energy is that of about 5 samples" in of(squares=few).sentence(TWO)
    assert "it differs between parts of the samples" in of(between=np.array([0.5])).sentence(TWO)
    assert "eigenvalue 0 is uncertain: 2, with a relative standard error of 0.5" in of(
        change=np.array([0.25])
    ).sentence(TWO)
    wells = X + 2.5 * RNG.choice([-1, 1], X.shape)
    assert "a function of this mode alone has" in of(modes=wells).sentence(TWO)


def test_all_that_are_uncertain_are_named():
    modes = np.hstack([X, X**2 - 1])
    squares = np.hstack([np.ones_like(X), 4 * X**2])
    found = Uncertainty.of(np.array([0.5, 0.4]), np.zeros(2), modes, squares, ONES)
    assert found.sentence(np.array([1.0, 2.0])).endswith("Others that are uncertain: 1")
