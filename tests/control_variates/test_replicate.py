"""What chains say about errors, whatever is estimated from them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

from kmc.control_variates.replicate import Replicate
from kmc.samplers.base import MOVES
from kmc.surrogate.coordinates.transport import Identity
from kmc.surrogate.coordinates.whitening import Whitening
from kmc.surrogate.density import Component, Density
from tests.control_variates.synthetic import gaussian_state

EYE = np.eye(2)
SHAPE = 4, 200


def normal_replicate(memory=0.0, noise_sd=lambda x: 0.0):
    """Chains with this autocorrelation, independent proposals, and values of a standard normal
    density with noise.
    """
    rng = np.random.default_rng(8)
    density = Density(
        (Component(Identity(), Whitening(np.zeros(2), EYE, EYE), gaussian_state([0.0, 0.0])),)
    )
    steps, y = rng.standard_normal((2, *SHAPE, 2))
    x = lfilter([np.sqrt(1 - memory**2)], [1, -memory], steps, axis=1)
    lp, proposed = (
        density.log_density(z.reshape(-1, 2)).reshape(SHAPE)
        + noise_sd(np.linalg.norm(z, axis=-1)) * rng.standard_normal(SHAPE)
        for z in (x, y)
    )
    return Replicate(
        x, lp, y, proposed, np.full(SHAPE, MOVES.index("surrogate")), density, noisy=True
    )


def test_few_effective_draws_are_said():
    assert normal_replicate().cautions == []
    (said,) = normal_replicate(memory=0.97).cautions
    assert said.startswith("The draws count as") and "rough with fewer than 100" in said


@pytest.mark.parametrize("sd", [0.0, 0.5, 1.5])
def test_noise_of_one_size_is_not_warned_of(sd):
    assert normal_replicate(noise_sd=lambda r: sd).cautions == []


def test_noise_that_grows_towards_the_tails_is_said():
    found = normal_replicate(noise_sd=lambda r: np.clip(0.5 + 0.8 * (r - 1.5), 0.5, 3.0))
    (said,) = found.cautions
    assert said.startswith("The noise of the log-density grows towards the tails")
    assert replace(found, noisy=False).cautions == []
