import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

from kmc.plots import plot_slow_modes


@pytest.fixture
def modes():
    rng = np.random.default_rng(0)
    names = [f"p{k}" for k in range(10)]
    correlation = np.vstack([np.linspace(-0.9, 0.9, 10), np.r_[np.nan, np.linspace(0, 0.8, 9)]])
    return xarray.Dataset(
        {
            "ess": ("mode", [12.0, 200.0]),
            "rhat": ("mode", [1.5, 1.01]),
            "value": (("chain", "draw", "mode"), rng.standard_normal((3, 50, 2))),
            "correlation": (("mode", "parameter"), correlation),
        },
        coords={"parameter": names, "draw": np.arange(50)},
    )


def test_each_mode_has_its_trace_and_its_parameters(modes):
    axes = plot_slow_modes(modes, figure=Figure())
    assert axes.shape == (2, 2)
    assert axes[0, 0].get_title(loc="left") == "ESS 12, R-hat 1.50"
    assert len(axes[0, 0].lines) == 6  # draws and running mean of three chains
    np.testing.assert_array_equal(axes[1, 0].lines[2].get_ydata(), modes["value"].values[1, :, 1])
    labels = [text.get_text() for text in axes[1, 1].get_yticklabels()]
    assert labels[-1] == "p9" and len(labels) == 8 and "p0" not in labels  # the largest on top, no constant
    assert axes[1, 1].patches[-1].get_width() == pytest.approx(0.8)


def test_the_worst_of_them(modes):
    assert plot_slow_modes(modes, 1, figure=Figure()).shape == (1, 2)


def test_draws_are_diagnosed_first():
    x = np.random.default_rng(1).standard_normal((2, 100, 2))
    axes = plot_slow_modes(x, 2, n_basis=20, figure=Figure())
    assert axes.shape == (2, 2)
    assert {text.get_text() for text in axes[0, 1].get_yticklabels()} == {"x[0]", "x[1]"}
