from types import MappingProxyType

import numpy as np
import pytest

from kmc.errors import KmcWarning
from kmc.spectral import TransitionOperator


def off_equilibrium(count, length, seed=0):
    """Euler steps in a double well, all from the left one; the slowest time is 102 steps
    (transition matrix, grid).
    """
    rng, x = np.random.default_rng(seed), np.full(count, -1.0)
    states = np.empty((length, count))
    for t in range(length):
        states[t] = x
        x = x - 0.16 * x * (x**2 - 1) + np.sqrt(0.04) * rng.standard_normal(count)
    return [states[:, k : k + 1] for k in range(count)]


class TestOffEquilibrium:
    """Many short trajectories from one place: pairs must not count both ways as they are."""

    X = off_equilibrium(400, 100)
    OPTIONS = MappingProxyType(
        {
            "n_components": 2,
            "n_basis": 30,
            "regularization": 1e-6,
            "bandwidth": 0.7,
            "random_state": 0,
        }
    )

    def test_trajectories_are_reweighted(self):
        with pytest.warns(KmcWarning, match="did not start in equilibrium .a mode changes by"):
            operator = TransitionOperator(5, **self.OPTIONS).fit(self.X)
        one_way = TransitionOperator(5, reversible=False, **self.OPTIONS).fit(self.X)
        assert operator.timescales_[0] == pytest.approx(102, rel=0.2)  # half of it without weights
        assert operator.timescales_[0] == pytest.approx(one_way.timescales_[0], rel=0.05)
        # with the error of the weights
        assert operator.timescale_errors_[0] >= one_way.timescale_errors_[0] * 0.8
        weights = operator.stationary_weights(self.X)
        left = np.concatenate(self.X)[:, 0] < 0
        assert np.average(left, weights=np.concatenate(weights)) == pytest.approx(0.5, abs=0.1)
        assert left.mean() > 0.65

    @pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
    def test_one_mode_is_enough(self):
        """The density is sought in the span of more."""
        one, two = (
            TransitionOperator(5, **(self.OPTIONS | {"n_components": k})).fit(self.X)
            for k in (1, 2)
        )
        assert one.timescales_[0] == pytest.approx(two.timescales_[0], rel=0.02)

    def test_pairs_are_reweighted(self):
        first, second = (
            np.concatenate([x[rows] for x in self.X]) for rows in (slice(-5), slice(5, None))
        )
        with pytest.warns(KmcWarning, match="did not start in equilibrium"):
            operator = TransitionOperator(5, **self.OPTIONS).fit(first, second)
        assert operator.timescales_[0] == pytest.approx(102, rel=0.2)

    def test_no_alarm_in_equilibrium(self):
        X = [x[400:] for x in off_equilibrium(40, 500)]
        operator = TransitionOperator(5, **self.OPTIONS).fit(X)
        np.testing.assert_array_equal(operator.stationary_weights(X[0]), 1.0)
