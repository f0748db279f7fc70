import numpy as np

from kmc.spectral.uncertainty import Uncertainty

RNG = np.random.default_rng(0)
X = RNG.standard_normal((1000, 1))
ONES = np.ones(1000)
ZERO, TWO = np.zeros(1), np.array([2.0])


def of(between=ZERO, change=ZERO, modes=X, squares=ONES[:, None], represented=1.0):
    return Uncertainty.of(between, change, modes, squares, ONES, represented)


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
