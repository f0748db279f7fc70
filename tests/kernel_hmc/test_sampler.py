"""The options of kernel HMC; those with a range are tested in tests/malformed."""

import numpy as np
import pytest

from kmc.kernel_hmc.sampler import KernelHMC
from tests.samplers.setups import setup_from


def test_gradients_of_noisy_values_are_refused():
    with pytest.raises(ValueError, match="noisy=True: gradients are for exact log-densities"):
        KernelHMC(gradients=np.negative).start(
            setup_from(np.eye(2), lambda x: -0.5 * x @ x, warmup=None, noisy=True)
        )


def test_gradients_must_be_a_function():
    with pytest.raises(TypeError, match=r"gradients=3: expected None, or a function of x \(d,\)"):
        KernelHMC(gradients=3)
