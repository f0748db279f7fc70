import json
from dataclasses import dataclass
from importlib.metadata import version

import arviz
import numpy as np
import pytest
import xarray

from kmc._version import __version__
from kmc.model.model import Model
from kmc.run.results import to_arviz
from kmc.samplers.base import MOVES, STATS
from tests.grids import slow_except
from tests.run.sweeps import trace
from tests.values import groups

pytestmark = pytest.mark.packages

LEGACY = int(version("arviz").split(".")[0]) < 1
MODEL = Model(float, 2)
SAVED = {*STATS, "lp"}


@dataclass(frozen=True)
class Options:
    step_size: float = 0.1
    scale: np.ndarray | None = None


ATTRS = {
    "sampler": "kernel-hmc",
    "settings": Options(scale=np.array([1.0, 2.0])),
    "seed": 2**100,
    "n_evaluations": np.int64(41),
    "sampling_time": 1.5,
    "tempered": True,
    "max_evaluations": None,
    "note": "",
    "warnings": ["the chains disagree: R̂ = 1.2"],
    "probes": {"found": np.float32(0.5), "at": [np.int8(3)]},
}
STORED = {
    "inference_library": "kmc",
    "inference_library_version": __version__,
    "sampler": "kernel-hmc",
    "seed": str(2**100),
    "n_evaluations": 41,
    "sampling_time": 1.5,
    "tempered": 1,
    "note": "",
}


def check(idata, draws, warmup):
    """All that to_arviz promises, for a trace of 3 chains in 2 dimensions."""
    expected = trace(draws)
    assert idata["posterior"]["x"].dims == ("chain", "draw", "x_dim_0")
    np.testing.assert_array_equal(idata["posterior"]["x"], expected.positions)
    for name, size in {"chain": 3, "draw": draws, "x_dim_0": 2}.items():
        np.testing.assert_array_equal(idata["posterior"][name], np.arange(size))
        assert idata["posterior"][name].dtype.kind == "i"

    stats = idata["sample_stats"]
    assert set(stats.data_vars) == SAVED
    assert all(stats[name].dims == ("chain", "draw") for name in SAVED)
    np.testing.assert_array_equal(stats["lp"], expected.log_density)
    for name in SAVED - {"lp"}:
        assert stats[name].dtype == np.dtype(STATS[name])
        np.testing.assert_array_equal(stats[name], expected.stats[name])
    flags = stats["move"].attrs
    assert flags["flag_meanings"].split() == list(MOVES)
    np.testing.assert_array_equal(flags["flag_values"], np.arange(len(MOVES)))
    assert np.asarray(flags["flag_values"]).dtype == np.int8

    for attrs in (idata.attrs, idata["posterior"].attrs):
        assert {name: attrs[name] for name in STORED} == STORED
        assert "created_at" in attrs and "max_evaluations" not in attrs
        assert json.loads(attrs["settings"]) == {"step_size": 0.1, "scale": [1.0, 2.0]}
        assert json.loads(attrs["warnings"]) == ATTRS["warnings"]
        assert json.loads(attrs["probes"]) == {"found": 0.5, "at": [3]}

    main = {"posterior", "sample_stats"}
    if warmup is None:
        assert groups(idata) == main
        return
    assert groups(idata) == main | {"warmup_posterior", "warmup_sample_stats"}
    earlier = trace(warmup)
    np.testing.assert_array_equal(idata["warmup_posterior"]["x"], earlier.positions)
    assert set(idata["warmup_sample_stats"].data_vars) == SAVED
    for name in SAVED - {"lp"}:
        np.testing.assert_array_equal(idata["warmup_sample_stats"][name], earlier.stats[name])


def build(draws, warmup):
    return to_arviz(MODEL, trace(draws), None if warmup is None else trace(warmup), ATTRS)


CASES = pytest.mark.parametrize(
    ("draws", "warmup"),
    slow_except([(70, None), (5, 66), (5, 0), (0, None), (0, 7), (0, 0)], [(5, 66), (0, 0)]),
)


@CASES
def test_groups_variables_and_attributes_here_and_in_a_file(tmp_path, draws, warmup):
    check(build(draws, warmup), draws, warmup)
    build(draws, warmup).to_netcdf(tmp_path / "run.nc")
    check(arviz.from_netcdf(tmp_path / "run.nc"), draws, warmup)
    with xarray.open_datatree(tmp_path / "run.nc") as tree:  # without ArviZ
        np.testing.assert_array_equal(tree["posterior"]["x"], trace(draws).positions)
        assert json.loads(tree.attrs["warnings"]) == ATTRS["warnings"]


def test_the_container_is_the_one_of_the_installed_arviz():
    assert type(build(1, None)) is (arviz.InferenceData if LEGACY else xarray.DataTree)


def test_a_long_attribute_survives(tmp_path):
    warnings = ["a sentence that is said often"] * 10_000
    to_arviz(MODEL, trace(2), attrs={"warnings": warnings}).to_netcdf(tmp_path / "run.nc")
    assert json.loads(arviz.from_netcdf(tmp_path / "run.nc").attrs["warnings"]) == warnings


def test_results_do_not_share_memory_with_the_trace():
    kept = trace(3)
    idata = to_arviz(MODEL, kept)
    assert not np.shares_memory(idata["posterior"]["x"].values, kept.positions)
