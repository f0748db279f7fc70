import numpy as np
import pytest
from matplotlib.figure import Figure

from kmc.plots import plot_ck_test, plot_implied_timescales
from kmc.spectral.timescales import ImpliedTimescales
from kmc.spectral.transition_functions import CKTest


def test_time_scales_against_the_lagtime():
    scales = np.array([[20.0, 5.0], [21.0, np.nan], [19.0, 4.0]])
    ax = plot_implied_timescales(
        ImpliedTimescales(np.array([1, 2, 4]), scales, [], 0.1 * scales),
        unit=0.5,
        unit_name="ps",
        ax=Figure().subplots(),
    )
    assert ax.get_yscale() == "log"
    assert ax.get_xlabel() == "lagtime (ps)"
    for line, column in zip(ax.lines, scales.T, strict=True):
        np.testing.assert_allclose(line.get_xdata(), [0.5, 1.0, 2.0])
        np.testing.assert_allclose(line.get_ydata(), column / 2)
    *bands, shaded = ax.collections
    assert len(bands) == 2  # two standard errors of each mode
    assert shaded.get_paths()[0].vertices.max(axis=0) == pytest.approx([2.0, 2.0])  # up to where time scale = lagtime


def test_predictions_and_estimates():
    predicted = np.linspace(0, 1, 12).reshape(3, 2, 2)
    test = CKTest(np.array([5, 10, 15]), predicted, predicted + 0.01, np.full((3, 2, 2), 0.02))
    axes = plot_ck_test(test, unit=0.5, unit_name="ps", figure=Figure())
    assert axes.shape == (2, 2) and axes[0, 0].figure.get_supxlabel() == "time (ps)"
    np.testing.assert_allclose(axes[1, 0].lines[1].get_xdata(), [2.5, 5.0, 7.5])
    assert axes[0, 1].get_title() == "1 → 2"
    line, points = axes[1, 0].lines[:2]
    np.testing.assert_allclose(line.get_ydata(), predicted[:, 1, 0])
    np.testing.assert_allclose(points.get_ydata(), predicted[:, 1, 0] + 0.01)
    bars = axes[1, 0].containers[0].lines[2][0].get_segments()
    assert bars[0][1][1] - bars[0][0][1] == pytest.approx(4 * 0.02)  # two standard errors to either side
