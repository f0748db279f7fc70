import numpy as np
import pytest

import kmc
from kmc.surrogates import FitOptions

HEIGHT = 1.0
BUMPS = HEIGHT / np.sqrt(2)  # their sd


def rough(x):
    """Bumps of a quarter of a sd in length: far shorter than what a surrogate of so few values can follow."""
    return -0.5 * np.sum(x**2, axis=-1) + HEIGHT * np.sin(25 * x.sum(axis=-1) / np.sqrt(x.shape[-1]))


@pytest.mark.slow
def test_a_run_names_the_roughness():
    sampler = kmc.KernelHMC(fit=FitOptions(bandwidths=(2.0, 7.0), n_basis=40))
    with pytest.warns(kmc.KmcWarning, match="is rough"):
        idata = kmc.sample(rough, dim=2, sampler=sampler, seed=1, max_evaluations=1600, draws=None, progress=False)
    assert idata.attrs["roughness_sd"] == pytest.approx(BUMPS, abs=3 * 0.25 * BUMPS)
    assert "rough-values" in idata.attrs["warning_codes"]
