from pathlib import Path

import arviz as az
import numpy as np
import pytest
import xarray

import kmc
from kmc.diagnostics.draws import read_draws

pytestmark = pytest.mark.packages


def test_arrays():
    x = np.random.default_rng(0).standard_normal((3, 10, 2))
    draws = read_draws(x)
    np.testing.assert_array_equal(draws.values, x)
    assert draws.names == ["x[0]", "x[1]"]
    assert read_draws(x[..., 0]).names == ["x"]


def test_datasets_keep_the_order_of_their_dimensions():
    x = np.arange(2 * 5 * 2 * 3.0).reshape(2, 3, 5, 2)
    dataset = xarray.Dataset(
        {"a": (("i", "j", "draw", "chain"), x), "b": (("draw", "chain"), x[0, 0])}
    )
    draws = read_draws(dataset)
    assert draws.names == ["a[0, 0]", "a[0, 1]", "a[0, 2]", "a[1, 0]", "a[1, 1]", "a[1, 2]", "b"]
    np.testing.assert_array_equal(draws.values[..., 4], x[1, 1].T)
    assert read_draws(dataset, ["b"]).names == ["b"]


def test_elements_are_called_by_their_labels():
    x = np.random.default_rng(0).standard_normal((2, 9, 2))
    dataset = xarray.Dataset({"slope": (("chain", "draw", "drug"), x)}, coords={"drug": ["A", "B"]})
    assert read_draws(dataset).names == ["slope[A]", "slope[B]"]
    chosen = read_draws(dataset, ["slope[B]"])
    assert chosen.names == ["slope[B]"]
    np.testing.assert_array_equal(chosen.values[..., 0], x[..., 1])
    assert read_draws(dataset, "slope").names == ["slope[A]", "slope[B]"]


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_blobs_are_not_looked_at():
    def log_density(x):
        return -0.5 * float(x @ x), {"copy": x}

    idata = kmc.sample(log_density, dim=2, draws=20, sampler="random-walk", seed=1, progress=False)
    assert read_draws(idata).names == ["x[0]", "x[1]"]
    assert list(az.summary(idata).index) == ["x[0]", "x[1]"]


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_results_of_a_run():
    idata = kmc.sample(
        lambda x: -0.5 * x @ x, dim=2, draws=20, sampler="random-walk", seed=1, progress=False
    )
    draws = read_draws(idata)
    assert draws.values.shape == (4, 20, 2)
    np.testing.assert_array_equal(draws.values, idata["posterior"]["x"].values)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros(5), r"shape \(5,\)"),
        (np.zeros((2, 3, 1)), "2 chains of 3 draws"),
        ({"a": np.zeros((2, 9)), "b": np.zeros((2, 8))}, "different numbers of chains and draws"),
        ({"a": np.full((2, 9), "x")}, "'a' has dtype"),
        ({}, "no variables"),
        (
            {"a": np.where(np.arange(18).reshape(2, 9) == 13, np.nan, 0.0)},
            "'a' is not finite in chain 1, draw 4",
        ),
        (xarray.Dataset({"a": (("sample",), np.zeros(9))}), "'a' has the dimensions"),
        (xarray.DataTree.from_dict({"prior": xarray.Dataset()}), "no group 'posterior'"),
    ],
)
def test_bad_input(data, message):
    with pytest.raises(ValueError, match=message):
        read_draws(data)


@pytest.mark.parametrize("path", ["run.zarr", Path("draws.nc")])
def test_a_path(path):
    with pytest.raises(
        TypeError,
        match="is a path: open it first, a store by kmc.load, a netCDF file by arviz.from_net",
    ):
        read_draws(path)


def test_a_name_that_is_not_there():
    with pytest.raises(ValueError, match="var_names contains 'c': expected some of 'a'"):
        read_draws({"a": np.zeros((2, 9))}, ["c"])
