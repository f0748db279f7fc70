"""Islands of particles between a surrogate and a Student-t density."""

import numpy as np

from kmc.control_variates.annealing import ISLANDS, Base, _Level, _move
from kmc.control_variates.domain import EVERYWHERE
from tests.control_variates.synthetic import gaussian_state


def test_particles_jump_to_those_of_their_own_island():
    """So islands share no error, and their spread is the error of their mean."""
    state, rng = gaussian_state([0.0]), np.random.default_rng(2)
    base = Base.of(rng.standard_normal((1000, 1)))._replace(least=-np.inf)
    of_pool = np.repeat(np.arange(ISLANDS), 8)
    pool = _Level(0.5, 0.01 * of_pool[:, None].astype(float), np.zeros(len(of_pool)))
    particles = np.full((4 * ISLANDS, 1), -1.0)
    _move(state, base, EVERYWHERE, rng, particles, 0.5, 1, 1, 1e-9, 50, pool)
    np.testing.assert_array_equal(np.rint(100 * particles[:, 0]), np.repeat(np.arange(ISLANDS), 4))
