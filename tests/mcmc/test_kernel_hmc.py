"""The options of kernel HMC; those with a range are tested in tests/malformed."""

import numpy as np
import pytest

from kmc.mcmc import KernelHMC
from tests.mcmc.setups import setup_from

SMALL = KernelHMC(min_warmup_evaluations=200, post_freeze_burn_in=5)


def test_the_longest_warm_up():
    assert SMALL._longest_warmup(2, 2, 50, None) == 600 // 2 + 5 * 2
    assert SMALL._longest_warmup(2, 2, 10_000, None) == 20_000 + 10
    with_probes = 100 * 4 * 1.12
    assert SMALL._longest_warmup(2, 2, 50, 100) == int(with_probes) + 8


def test_gradients_of_noisy_values_are_refused():
    with pytest.raises(ValueError, match="noisy=True: gradients are for exact log-densities"):
        KernelHMC(gradients=np.negative).start(setup_from(np.eye(2), lambda x: -0.5 * x @ x, warmup=None, noisy=True))


def test_gradients_must_be_a_function():
    with pytest.raises(TypeError, match=r"gradients=3: expected None, or a function of x \(d,\)"):
        KernelHMC(gradients=3)
