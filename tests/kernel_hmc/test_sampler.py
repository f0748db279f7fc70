"""The options of kernel HMC; those with a range are tested in tests/malformed."""

import numpy as np
import pytest

from kmc.kernel_hmc.sampler import KernelHMC
from tests.samplers.setups import setup_from


def test_the_longest_warm_up():
    """A share of two evaluations per draw, at least of 1500, or what was asked for; and the burn-in."""
    sampler = KernelHMC(learning_share=0.4, burn_in=3)
    assert sampler._longest_warmup(2, 2, 50, None) == 0.4 * 1500 + 3 * 2
    assert sampler._longest_warmup(2, 2, 10_000, None) == 0.4 * 2 * 10_000 * 2 + 3 * 2
    assert sampler._longest_warmup(2, 2, 50, 100) == 100 * 2 + 3 * 2


def test_gradients_of_noisy_values_are_refused():
    with pytest.raises(ValueError, match="noisy=True: gradients are for exact log-densities"):
        KernelHMC(gradients=np.negative).start(setup_from(np.eye(2), lambda x: -0.5 * x @ x, warmup=None, noisy=True))


def test_gradients_must_be_a_function():
    with pytest.raises(TypeError, match=r"gradients=3: expected None, or a function of x \(d,\)"):
        KernelHMC(gradients=3)
