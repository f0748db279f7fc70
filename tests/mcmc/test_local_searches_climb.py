import numpy as np
import pytest

from kmc.mcmc.local_searches import Climb


def climb_up(log_density, start):
    climb, n = Climb(np.asarray(start, float), log_density(np.asarray(start, float))), 0
    while len(points := climb.ask()):
        climb.tell(np.array([log_density(x) for x in points]))
        n += len(points)
    return climb.summit, n


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_a_gaussian_is_climbed_in_a_few_steps_and_its_mass_is_known(scale):
    mean = np.arange(5.0)
    summit, n = climb_up(lambda x: 3.0 - 0.5 * np.sum((x - mean) ** 2) / scale**2, mean + 9.0 * scale)
    assert n < 12 * 11
    np.testing.assert_allclose(summit.spread, scale, rtol=0.02)
    assert summit.value > 3.0 - 0.5 * 5 - 1.0  # within the bulk
    assert summit.log_mass == pytest.approx(3.0 + 5 * np.log(scale), abs=2.5)


def test_a_search_stops_in_the_bulk_of_a_funnel_and_not_in_its_neck():
    def funnel(x):
        return -0.5 * x[0] ** 2 / 9 - 0.5 * np.sum(x[1:] ** 2) * np.exp(-x[0]) - 0.5 * (len(x) - 1) * x[0]

    summit, _ = climb_up(funnel, [1.0, 1.5, -1.5, 1.0])
    assert summit.position[0] > -6.0


def test_values_of_minus_infinity_do_not_stop_it():
    def wall(x):
        return -0.5 * float(x @ x) if x[0] < 5.0 else -np.inf

    summit, _ = climb_up(wall, [4.8, 0.0, 3.0])
    assert summit.value > -0.5 * 4.8**2  # the coordinate next to the wall has no slope at first


def test_a_flat_density_ends_it():
    summit, n = climb_up(lambda x: 0.0, [1.0, 2.0])
    assert n <= 2 + 6 + 2 and summit.value == 0.0
