import numpy as np
import pytest

from kmc.spectral import TransitionOperator, implied_timescales
from tests.spectral.test_transition import TRAJECTORIES, autoregression


def test_those_of_an_autoregression_are_level():
    x = autoregression(50_000, 0.95, 0)
    estimator = TransitionOperator(n_basis=40, bandwidth=2.0, regularization=1e-6, random_state=0)
    found = implied_timescales(x, [1, 4, 16], 2, estimator=estimator)
    slowest = -1 / np.log(0.95)
    # three standard errors: √(2 t / n) = 3 %
    np.testing.assert_allclose(found.timescales[:, 0], slowest, rtol=0.1)
    np.testing.assert_allclose(found.timescales[:, 1], slowest / 2, rtol=0.15)
    assert [model.lagtime for model in found.models] == [1, 4, 16]
    assert estimator.get_params()["lagtime"] == 1


@pytest.mark.parametrize("lagtimes", [[], [0, 1], [2, 1], [1, 1], [1.5], "one", [[1, 2]]])
def test_lagtimes_that_are_none(lagtimes):
    with pytest.raises(ValueError, match="lagtimes=.*: expected increasing whole numbers"):
        implied_timescales(TRAJECTORIES, lagtimes)
