import sys

import numpy as np
import pytest
import xarray

import kmc
from kmc.plots import draws as plots

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402


@pytest.fixture
def idata():
    """A scalar, a vector and a constant."""
    rng = np.random.default_rng(1)
    variables = {
        "a": (("chain", "draw"), rng.standard_normal((2, 500))),
        "b": (("chain", "draw", "i"), rng.standard_normal((2, 500, 2))),
        "c": (("chain", "draw"), np.full((2, 500), 3.0)),
    }
    # all that a plot asks of InferenceData and of a DataTree
    return {"posterior": xarray.Dataset(variables)}


def test_pairs_fill_the_lower_triangle_and_name_every_column(idata, tmp_path):
    figure = Figure()
    axes = plots.plot_pairs(idata, labels={"a": "speed"}, reference={"b[0]": 0.5}, figure=figure)
    assert axes.shape == (4, 4)
    assert all((axes[i, j] is None) == (j > i) for i in range(4) for j in range(4))
    assert [ax.get_xlabel() for ax in axes[-1]] == ["speed", "b[0]", "b[1]", "c"]
    assert [ax.get_ylabel() for ax in axes[1:, 0]] == ["b[0]", "b[1]", "c"]
    assert axes[1, 0].figure is figure
    figure.savefig(tmp_path / "pairs.png")
    assert (tmp_path / "pairs.png").stat().st_size > 10_000


def test_columns_have_the_labels_of_their_coordinates_and_can_be_chosen(idata):
    labeled = {"posterior": idata["posterior"].assign_coords(i=["A", "B"])}
    axes = plots.plot_pairs(labeled, ["b", "a"], figure=Figure())
    assert [ax.get_xlabel() for ax in axes[-1]] == ["b[A]", "b[B]", "a"]
    axes = plots.plot_pairs(labeled, ["b[B]"], figure=Figure())
    assert [ax.get_xlabel() for ax in axes[-1]] == ["b[B]"]
    twice = {"posterior": idata["posterior"].assign_coords(i=["A", "A"])}
    assert plots.plot_pairs(twice, figure=Figure()).shape == (4, 4)


def test_a_pair_shows_the_column_across_and_the_row_up(idata):
    posterior = idata["posterior"]
    posterior["a"] = 100 + posterior["a"]
    axes = plots.plot_pairs(idata, ["a", "b"], figure=Figure())
    for ax in axes[:, 0]:
        assert 90 < ax.get_xlim()[0] < ax.get_xlim()[1] < 110
    assert -10 < axes[1, 0].get_ylim()[0] < axes[1, 0].get_ylim()[1] < 10


def test_a_reference_is_marked_in_its_column_and_its_row(idata):
    axes = plots.plot_pairs(idata, ["b", "a"], reference={"b[1]": 0.5}, figure=Figure())

    def lines(ax):
        return [
            (list(line.get_xdata()), list(line.get_ydata()))
            for line in ax.lines
            if line.get_marker() == "None"
        ]

    across, up = ([0.5, 0.5], [0, 1]), ([0, 1], [0.5, 0.5])
    assert lines(axes[1, 1]) == lines(axes[2, 1]) == [across]
    assert lines(axes[1, 0]) == [up]
    assert lines(axes[0, 0]) == lines(axes[2, 0]) == lines(axes[2, 2]) == []


def test_without_a_figure_pyplot_makes_one(idata):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    axes = plots.plot_pairs(idata, ["a"])
    assert axes.shape == (1, 1)
    assert axes[0, 0].figure is pyplot.gcf()
    pyplot.close("all")


pytestmark = pytest.mark.packages


def test_contours_hold_the_shares_that_they_claim():
    rng = np.random.default_rng(2)
    density, _, _ = np.histogram2d(*rng.standard_normal((2, 200_000)), bins=60)
    levels = plots._levels(density)
    assert np.all(np.diff(levels) > 0)
    shares = [density[density >= level].sum() / density.sum() for level in levels]
    np.testing.assert_allclose(shares, plots._MASSES, atol=0.01)


def test_wrong_names_and_empty_runs_are_refused(idata):
    with pytest.raises(
        ValueError,
        match="var_names contains 'z': expected some of 'a', 'b', 'c', or of their elements",
    ):
        plots.plot_pairs(idata, ["z"])
    with pytest.raises(ValueError, match="no posterior draws"):
        plots.plot_pairs({"posterior": idata["posterior"].isel(draw=slice(0))})


def test_without_matplotlib_the_error_says_what_to_install(idata, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "kernelmc\[plots\]"'):
        plots.plot_pairs(idata)


@pytest.mark.parametrize("plot", [kmc.plot_pairs, kmc.plot_trace])
def test_data_without_a_posterior(plot):
    with pytest.raises(TypeError, match="idata=ndarray has no group 'posterior' with variables"):
        plot(np.zeros((4, 100)))
