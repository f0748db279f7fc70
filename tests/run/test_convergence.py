import numpy as np
import pytest

from kmc.run.convergence import worst_rhat


@pytest.mark.parametrize("draws", [20, 100, 1000])
def test_independent_draws_agree(draws):
    """The limit of the warning, 1.05 + 5 / draws, holds for each of fifty sets of independent draws."""
    rng = np.random.default_rng(draws)
    assert max(worst_rhat(rng.standard_normal((4, draws, 3))) for _ in range(50)) < 1.05 + 5 / draws


def test_one_coordinate_that_disagrees_is_enough():
    draws = np.random.default_rng(1).standard_normal((4, 500, 3))
    draws[0, :, 1] += 2.0
    assert worst_rhat(draws) > 1.2


def test_chains_that_never_move():
    draws = np.random.default_rng(2).standard_normal((4, 50, 2))
    draws[:, :, 1] = np.arange(4.0)[:, None]
    assert worst_rhat(draws) == np.inf


@pytest.mark.parametrize("shape", [(1, 100, 2), (4, 3, 2), (4, 0, 2)])
def test_nothing_to_compare(shape):
    assert np.isnan(worst_rhat(np.zeros(shape)))
