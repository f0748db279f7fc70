"""The spreadsheet of the example, with a sampler that is quick."""

import ask_tell
import numpy as np
import pytest

import kmc


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_the_draws_are_those_of_the_misfit(tmp_path):
    """sd of the temperature 2, mean of the pressure .3 E[temperature²] = 1.2, and the same draws as
    by kmc.sample.
    """
    sampler = kmc.AdaptiveMetropolis()
    state = ask_tell.main(tmp_path, sampler, evaluations=600)
    assert state.done and 597 <= state.n_evaluations <= 600
    start = np.random.default_rng(0).normal(0.0, 2.0, (4, 2))
    idata = kmc.sample(
        lambda x: -0.5 * ((x[0] / 2) ** 2 + (x[1] - 0.3 * x[0] ** 2) ** 2),
        dim=2,
        initial=start,
        sampler=sampler,
        draws=None,
        max_evaluations=601,  # the best start point is evaluated twice
        seed=1,
        progress=False,
    )
    np.testing.assert_allclose(state.positions, idata.posterior["x"].values, rtol=1e-12)
    assert (
        abs(state.positions[..., 0].std() - 2.0) < 0.8
        and abs(state.positions[..., 1].mean() - 1.2) < 1.2
    )
    assert (tmp_path / "sheet.csv").read_text().startswith("temperature,pressure,log_density\n")
