"""Pictures of calibration and of predictive data: what is drawn are the given numbers."""

import warnings

import numpy as np
import pytest
import xarray

pytest.importorskip("matplotlib")
import matplotlib

matplotlib.use("agg")

import kmc
from kmc.diagnostics.calibration import uniformity
from kmc.plots.style import ACCENT
from kmc.run.results import container
from kmc.unwritable import import_arviz


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture
def ranks():
    """Uniform numbers, and the squares of some."""
    u = np.random.default_rng(1).random((1, 100, 2)) ** [1, 2]
    dataset = xarray.Dataset({"mu": (("chain", "draw", "k"), u)}, {"k": ["right", "wrong"]})
    return container({"prior_sbc": dataset}, {})


def test_a_line_for_each_quantity_red_where_it_leaves_the_band(ranks):
    axes = kmc.plot_calibration(ranks)
    assert [ax.get_title().split(",")[0] for ax in axes] == ["mu[right]", "mu[wrong]"]
    assert [ax.lines[1].get_color() == ACCENT for ax in axes] == [False, True]
    u = ranks["prior_sbc"]["mu"].values[0, :, 1]
    z, y = axes[1].lines[1].get_data()
    np.testing.assert_allclose(y + z, [np.mean(u <= point) for point in z])
    low = uniformity(u)[1][1] - z
    assert axes[1].collections[0].get_datalim(axes[1].transData).y0 == pytest.approx(low.min())
    assert len(kmc.plot_calibration(ranks, ["mu[wrong]"])) == 1
    with pytest.raises(TypeError, match="kmc.simulation_based_calibration"):
        kmc.plot_calibration({})
    with pytest.raises(ValueError, match="prob=2"):
        kmc.plot_calibration(ranks, prob=2)


def test_arviz_draws_the_same_numbers(ranks):
    if hasattr(import_arviz(), "plot_ecdf"):
        u = ranks["prior_sbc"]["mu"].values[0, :, 0]
        ax = import_arviz().plot_ecdf(u, cdf=lambda x: x, difference=True)
        assert len(ax.lines)
    else:
        pytest.importorskip("arviz_plots").plot_ecdf_pit(ranks)


pytestmark = pytest.mark.packages


@pytest.fixture
def simulated():
    rng = np.random.default_rng(2)
    dims = ("chain", "draw", "time", "species")
    groups = {}
    for name, sd in (("prior_predictive", 9.0), ("posterior_predictive", 1.0)):
        variables = {
            "y": (dims, sd * rng.standard_normal((2, 300, 5, 2))),
            "n": (dims[:2], rng.poisson(3, (2, 300))),
        }
        groups[name] = xarray.Dataset(variables)
    return container(groups, {})


def test_bands_hold_half_and_nine_tenths_of_the_simulated_values(simulated):
    observed = {"y": np.arange(10.0).reshape(5, 2) / 5, "n": 2}
    x = np.array([0.0, 1.0, 2.0, 4.0, 3.0])
    axes = kmc.plot_predictive(simulated, observed, x=x)
    assert [ax.get_title() for ax in axes] == ["y[0]", "y[1]", "n"]
    y = simulated["posterior_predictive"]["y"].values[..., 1].reshape(-1, 5)
    wide, half = (each.get_paths()[0].vertices for each in axes[1].collections[2:])
    for vertices, (low, high) in ((wide, (0.05, 0.95)), (half, (0.25, 0.75))):
        for k, place in enumerate(x):
            drawn = vertices[vertices[:, 0] == place, 1]
            assert drawn.min() == pytest.approx(np.quantile(y[:, k], low))
            assert drawn.max() == pytest.approx(np.quantile(y[:, k], high))
    np.testing.assert_array_equal(axes[1].lines[0].get_ydata(), observed["y"][:, 1])
    bottom, top = axes[1].get_ylim()
    assert bottom > -3 and top < 3  # though the prior is wider
    assert axes[2].lines[0].get_xdata()[0] == 2
    heights, edges = axes[2].patches[0].get_data()[:2]
    n = simulated["prior_predictive"]["n"].values
    assert np.sum(heights * np.diff(edges)) == pytest.approx(
        np.mean((n >= edges[0]) & (n <= edges[-1]))
    )


def test_one_variable_and_stored_data(simulated):
    y = simulated["posterior_predictive"]["y"].isel(species=0).to_dataset()
    data = xarray.Dataset({"y": ("time", np.ones(5)), "other": ("k", [1.0])})
    found = container({"posterior_predictive": y, "observed_data": data}, {})
    (ax,) = kmc.plot_predictive(found)
    assert np.all(ax.lines[0].get_ydata() == 1.0)
    (ax,) = kmc.plot_predictive(container({"prior_predictive": y}, {}), np.zeros(5))
    assert np.all(ax.lines[0].get_ydata() == 0.0)


@pytest.mark.parametrize(("time", "label"), [("time", "time"), ("y_dim_0", "")])
def test_labels_of_columns_and_names_of_dimensions(time, label):
    labels = {time: [0.0, 0.5, 1.0, 1.5, 3.0], "species": ["hare", "lynx"]}
    y = np.random.default_rng(2).standard_normal((2, 30, 5, 2))
    drawn = xarray.Dataset(
        {"y": (("chain", "draw", time, "species"), y), "n": (("chain", "draw"), y[..., 0, 0])},
        labels,
    )
    axes = kmc.plot_predictive(container({"posterior_predictive": drawn}, {}))
    assert [(ax.get_title(), ax.get_xlabel()) for ax in axes] == [
        ("y[hare]", label),
        ("y[lynx]", label),
        ("n", ""),
    ]
    assert axes[0].collections[0].get_paths()[0].vertices[:, 0].max() == 3.0


def test_missing_data_are_left_out():
    t = np.linspace(0.0, 2.0, 6)
    data = 2.0 * np.exp(-t)
    data[2] = np.nan
    model = kmc.Model(
        simulator=lambda p: {"level": p["start"] * np.exp(-t), "mean": p["start"]},
        likelihood={
            "level": kmc.likelihoods.Normal(data, 0.1),
            "mean": kmc.likelihoods.Normal(2.1, 0.1),
        },
        parameters={"start": kmc.HalfNormal(5)},
        dims={"level": ["time"]},
        coords={"time": t},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)
        idata = kmc.sample(
            model, sampler="random-walk", draws=50, warmup=50, seed=1, progress=False
        )
    axes = kmc.plot_predictive(idata)
    assert [(ax.get_title(), ax.get_xlabel()) for ax in axes] == [("level", "time"), ("mean", "")]
    np.testing.assert_array_equal(axes[0].lines[0].get_data(), [t, data])
    assert np.all(np.isfinite(axes[0].get_ylim()))


def test_what_does_not_match(simulated):
    with pytest.raises(TypeError, match=r"kmc\.predictive"):
        kmc.plot_predictive({})
    with pytest.raises(TypeError, match="several variables, y, n"):
        kmc.plot_predictive(simulated, np.ones(5))
    with pytest.raises(
        ValueError, match=r"'y' of shape \(5,\): expected some of y of shape \(5, 2\)"
    ):
        kmc.plot_predictive(simulated, {"y": np.ones(5)})
    with pytest.raises(ValueError, match=r"x has shape \(4,\)"):
        kmc.plot_predictive(simulated, x=np.ones(4))
