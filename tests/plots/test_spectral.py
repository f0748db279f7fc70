import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

from kmc.plots import plot_ck_test, plot_coarse_model, plot_implied_timescales, plot_slow_modes
from kmc.spectral.coarse import CoarseModel
from kmc.spectral.transition import ImpliedTimescales
from kmc.spectral.transition_functions import CKTest

pytestmark = pytest.mark.packages

CHAIN = np.array([[0.90, 0.08, 0.02], [0.10, 0.85, 0.05], [0.02, 0.03, 0.95]])


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
    # up to where time scale = lagtime
    assert shaded.get_paths()[0].vertices.max(axis=0) == pytest.approx([2.0, 2.0])


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
    # two standard errors to either side
    assert bars[0][1][1] - bars[0][0][1] == pytest.approx(4 * 0.02)


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
    # the largest on top, no constant
    assert labels[-1] == "p9" and len(labels) == 8 and "p0" not in labels
    assert axes[1, 1].patches[-1].get_width() == pytest.approx(0.8)


def test_the_worst_of_them(modes):
    assert plot_slow_modes(modes, 1, figure=Figure()).shape == (1, 2)


def test_draws_are_diagnosed_first():
    x = np.random.default_rng(1).standard_normal((2, 100, 2))
    axes = plot_slow_modes(x, 2, n_basis=20, figure=Figure())
    assert axes.shape == (2, 2)
    assert {text.get_text() for text in axes[0, 1].get_yticklabels()} == {"x[0]", "x[1]"}


def test_the_group_of_a_result_is_plotted(modes):
    # it would have no modes
    posterior = xarray.Dataset({"x": (("chain", "draw"), np.zeros((3, 50)))})
    tree = xarray.DataTree.from_dict({"posterior": posterior, "slow_modes": modes})
    assert (
        plot_slow_modes(tree, 1, figure=Figure())[0, 0].get_title(loc="left")
        == "ESS 12, R-hat 1.50"
    )
    with pytest.raises(ValueError, match="no parameter moves"):
        plot_slow_modes(tree, n_basis=20)


def model(rates=None):
    if rates is None:
        rates = np.array([[-0.03, 0.02, 0.01], [0.03, -0.05, 0.02], [0.005, 0.004, -0.009]])
    passage = np.array([[0.0, 30.0, 60.0], [25.0, 0.0, 50.0], [40.0, 45.0, 0.0]])
    populations = np.array([0.5, 0.3, 0.2])
    arrays = (populations, CHAIN, rates, passage)
    replicates = CHAIN + 0.004 * np.array([1.0, -1.0, 0.5])[:, None, None] * np.array(
        [[1, -1, 0], [-1, 0, 1], [0, 0, 0]]
    )
    return CoarseModel(5, *arrays, *(0.1 * np.abs(values) for values in arrays), replicates)


def shown(ax):
    """Points, and half of the length of their bars."""
    line, _, (bars,) = ax.containers[0].lines
    segments = np.array(bars.get_segments())
    return (
        line.get_xdata(),
        (segments[:, 1, 0] - segments[:, 0, 0]) / 2,
        [t.get_text() for t in ax.get_yticklabels()],
    )


def test_populations_rates_passage_times_and_a_committor():
    chain = model()
    axes = plot_coarse_model(chain, source=0, target=2, unit=0.5, unit_name="ps", figure=Figure())
    off = ~np.eye(3, dtype=bool)
    committor, errors = chain.committor(0, 2), chain.committor_errors(0, 2)
    assert 0.0 < committor[1] < 1.0
    assert errors[1] > 0
    expected = [
        (chain.populations, chain.population_errors),
        (chain.rates[off] / 0.5, chain.rate_errors[off] / 0.5),
        (0.5 * chain.passage_times[off], 0.5 * chain.passage_errors[off]),
        (committor, errors),
    ]
    for ax, (values, stated) in zip(axes, expected, strict=True):
        points, bars, _ = shown(ax)
        np.testing.assert_allclose(points, values)
        np.testing.assert_allclose(bars, 2 * stated, atol=1e-12)
    assert shown(axes[0])[2] == ["1", "2", "3"]
    assert (
        shown(axes[1])[2]
        == shown(axes[2])[2]
        == ["1 → 2", "1 → 3", "2 → 1", "2 → 3", "3 → 1", "3 → 2"]
    )
    assert [ax.get_xscale() for ax in axes] == ["linear", "log", "log", "linear"]
    assert [ax.get_xlabel() for ax in axes[1:]] == [
        "rate (1 / ps)",
        "mean first-passage time (ps)",
        "committor, 1 → 3",
    ]


def test_the_last_set_is_the_target_by_default():
    axes = plot_coarse_model(model(), figure=Figure())
    np.testing.assert_allclose(shown(axes[3])[0], model().committor(0, 2))


def test_negative_rates_are_shown():
    """Estimates of rates that are nearly zero can be negative: then the axis is linear."""
    rates = np.array([[-0.02, 0.02, -0.001], [0.03, -0.05, 0.02], [0.005, 0.004, -0.009]])
    axes = plot_coarse_model(model(rates), figure=Figure())
    assert axes[1].get_xscale() == "linear"
    assert shown(axes[1])[0].min() == -0.001


def test_the_same_set_twice():
    with pytest.raises(ValueError, match="expected a set other than the target"):
        plot_coarse_model(model(), source=2, figure=Figure())
