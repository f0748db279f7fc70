"""The pictures of a run: what is drawn are the run's numbers."""

import warnings

import numpy as np
import pytest
import xarray

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

import kmc
from tests.counted import Counted

pytestmark = pytest.mark.packages


def log_density(x):
    return -0.5 * float((x[0] / 2.0) ** 2 + (x[1] - 1.0) ** 2)


@pytest.fixture(scope="module")
def idata():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)  # of so short a run
        return kmc.sample(
            log_density,
            dim=2,
            max_evaluations=900,
            draws=None,
            seed=1,
            save_warmup=True,
            progress=False,
        )


def axes_of():
    return Figure().subplots()


def test_traces_have_all_draws_and_warmup(idata):
    axes = kmc.plot_trace(idata, figure=Figure())
    assert axes.shape == (2, 2) and [ax.get_ylabel() for ax in axes[:, 0]] == ["x[0]", "x[1]"]
    before, after = idata["warmup_posterior"]["x"].values, idata["posterior"]["x"].values
    assert len(axes[1, 0].lines) == len(after)
    for chain, line in enumerate(axes[1, 0].lines):
        np.testing.assert_array_equal(
            line.get_ydata(), np.r_[before[chain, :, 1], after[chain, :, 1]]
        )
        assert (
            line.get_xdata()[0] == -before.shape[1] and line.get_xdata()[-1] == after.shape[1] - 1
        )
    for chain, stairs in enumerate(axes[0, 1].patches):
        counts, edges, _ = stairs.get_data()
        np.testing.assert_array_equal(counts, np.histogram(after[chain, :, 0], edges)[0])
    assert kmc.plot_trace(idata, ["x[1]"], figure=Figure())[0, 0].get_ylabel() == "x[1]"
    assert kmc.plot_trace(idata, max_rows=1, figure=Figure()).shape == (1, 2)
    with pytest.raises(ValueError, match="var_names contains 'y'"):
        kmc.plot_trace(idata, ["y"], figure=Figure())


def test_acceptance_is_the_mean_of_blocks(idata):
    ax = kmc.plot_acceptance(idata, ax=axes_of())
    rates = idata["sample_stats"]["acceptance_rate"].values
    n = rates.shape[1]
    later = [line for line in ax.lines if len(line.get_xdata()) > 2 and line.get_xdata()[0] >= 0]
    assert len(later) == len(rates)
    for chain, line in enumerate(later):
        blocks = np.array_split(rates[chain], min(60, n))
        np.testing.assert_allclose(line.get_ydata(), [block.mean() for block in blocks])
    assert (
        any(line.get_xdata()[0] < 0 for line in ax.lines)
        and ax.get_xlabel() == "draw (negative: warm-up)"
    )
    with pytest.raises(ValueError, match="idata has no acceptance rates"):
        kmc.plot_acceptance({}, ax=ax)


def test_the_surrogate_beside_true_values(idata):
    counted = Counted(log_density)
    axes = kmc.plot_surrogate(idata, counted, n_true=5, figure=Figure())
    assert axes.shape == (2, 2) and counted.n == 10
    proposals = idata["proposals"]
    error = (proposals["surrogate"] - proposals["lp"]).values.ravel()
    for i, ax in enumerate(axes[0]):
        np.testing.assert_array_equal(
            ax.lines[0].get_xdata(), proposals["x"].values[..., i].ravel()
        )
        np.testing.assert_allclose(ax.lines[0].get_ydata(), error - np.median(error), atol=1e-9)
    best = idata["posterior"]["x"].values.reshape(-1, 2)[
        np.argmax(idata["sample_stats"]["lp"].values)
    ]
    line, dots = axes[1, 0].lines
    truth = [log_density(np.array([x, best[1]])) for x in dots.get_xdata()]
    np.testing.assert_allclose(dots.get_ydata(), truth)
    np.testing.assert_allclose(
        np.interp(dots.get_xdata(), line.get_xdata(), line.get_ydata()), truth, atol=0.1
    )
    assert len(kmc.plot_surrogate(idata, max_columns=1, figure=Figure())[1, 0].lines) == 1


def test_a_run_without_a_transport_says_so(idata):
    with pytest.raises(ValueError, match="no funnel, heavy tails or bent ridge was found"):
        kmc.plot_transport(idata, figure=Figure())


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_the_hierarchy_that_was_found():
    """x[2] to x[4] have the mean x[0] and the scale exp(x[1]): nothing was fitted to find it."""

    def hierarchy(x):
        square = x[0] ** 2 / 4 + x[1] ** 2 + np.sum((x[2:] - x[0]) ** 2) * np.exp(-2 * x[1])
        return -0.5 * float(square) - 3 * x[1]

    idata = kmc.sample(hierarchy, dim=5, max_evaluations=400, draws=None, seed=1, progress=False)
    axes = kmc.plot_transport(idata, figure=Figure())
    assert axes[0, 1].get_title(loc="left") == "a funnel: x[1] sets the scale"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_the_funnel_that_was_found():
    """x[1] and x[2] have the scale exp(x[0] / 2): divided by it, they no longer fan out."""

    def funnel(x):
        return -0.5 * float(x[0] ** 2 / 4 + (x[1:] @ x[1:]) * np.exp(-x[0])) - x[0]

    idata = kmc.sample(funnel, dim=3, max_evaluations=1500, draws=None, seed=1, progress=False)
    axes = kmc.plot_transport(idata, figure=Figure())
    assert (
        axes.shape == (2, 2) and axes[0, 1].get_title(loc="left") == "a funnel: x[0] sets the scale"
    )
    assert kmc.plot_transport(idata, max_rows=1, figure=Figure()).shape == (1, 2)
    draws = idata["posterior"]["x"].values.reshape(-1, 3)
    for left, right in axes:
        i = int(left.get_ylabel()[2])
        np.testing.assert_array_equal(
            left.lines[0].get_ydata(), draws[:: max(1, len(draws) // 3000), i]
        )
        fans = [
            np.corrcoef(ax.lines[0].get_xdata(), np.abs(ax.lines[0].get_ydata()))[0, 1]
            for ax in (left, right)
        ]
        assert fans[0] > 0.3 > abs(fans[1])


def test_the_path_of_the_evidence():
    """As kmc.evidence returns it: paths of different lengths end in NaN."""
    steps = np.array([[0.0, 0.5, 1.0], [0.0, 1.0, np.nan]])
    found = xarray.Dataset(
        {
            "log_evidence": ("run", [3.0, 1.0]),
            "se": ("run", [0.1, 0.2]),
            "path_inverse_temperature": (("run", "step"), steps),
            "path_down": (("run", "step"), 2.0 * steps),
            "path_up": (("run", "step"), 3.0 * steps),
        },
        coords={"run": ["a", "b"]},
    )
    ax = kmc.plot_evidence(found, ax=axes_of())
    curves = {
        line.get_label(): line.get_xydata()
        for line in ax.lines
        if not line.get_label().startswith("_")
    }
    np.testing.assert_array_equal(curves["a, up"], [[0.0, 0.0], [0.5, 1.5], [1.0, 3.0]])
    np.testing.assert_array_equal(curves["b, down"], [[0.0, 0.0], [1.0, 2.0]])
    marks = [container.lines[0].get_ydata()[0] for container in ax.containers]
    bars = [container.lines[2][0].get_segments()[0][:, 1] for container in ax.containers]
    np.testing.assert_allclose((marks, *np.transpose(bars)), [(3.0, 1.0), (2.8, 0.6), (3.2, 1.4)])
    with pytest.raises(TypeError, match=r"expected what kmc\.evidence returned"):
        kmc.plot_evidence(3)
