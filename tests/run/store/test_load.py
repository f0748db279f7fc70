"""``kmc.load`` gives the result of ``kmc.sample``, read from disk on access."""

import subprocess
import sys

import numpy as np
import pytest

import kmc
from kmc.model.space import ParameterSpace
from tests.grids import slow_except
from tests.run.store.runs import assert_same, groups, log_density, settings

pytestmark = [pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning"), pytest.mark.packages]


@pytest.mark.parametrize("save_warmup", slow_except([False, True], {True}))
@pytest.mark.parametrize(
    "options",
    slow_except(
        {
            "plain": {},
            "runs": {"independent_runs": 2, "chains": 4},
            "short": {"max_evaluations": 60},
        },
        {"runs"},
    ),
)
def test_a_finished_run(tmp_path, options, save_warmup):
    asked = settings("kernel-hmc", save_warmup=save_warmup, store=tmp_path / "run.zarr", **options)
    result, loaded = kmc.sample(log_density, **asked), kmc.load(str(tmp_path / "run.zarr"))
    assert type(loaded) is type(result)
    assert loaded.attrs == result.attrs and loaded.posterior.attrs == result.posterior.attrs
    assert_same(loaded, result)
    assert ("warmup_posterior" in groups(loaded)) == save_warmup
    move, expected = loaded.sample_stats["move"].attrs, result.sample_stats["move"].attrs
    assert move["flag_meanings"] == expected["flag_meanings"]


def test_elements_are_read_as_numpy_has_them(tmp_path):
    asked = settings(
        "random-walk", store=tmp_path / "run.zarr", independent_runs=2, chains=4, save_warmup=True
    )
    result = kmc.sample(log_density, **asked)
    x, expected = (
        kmc.load(tmp_path / "run.zarr").warmup_posterior["x"],
        result.warmup_posterior["x"].values,
    )
    assert not x.variable._in_memory
    keys = [
        np.s_[1],
        np.s_[:, 3],
        np.s_[2:, -5:, 1],
        np.s_[:, ::-3],
        np.s_[3, 7, 0],
        np.s_[:, 5:5],
        np.s_[::2, :, ::-1],
    ]
    for key in [*keys, np.s_[[0, 3], [1, 2, 9]]]:
        want = (
            expected[np.ix_(*key)]
            if isinstance(key, tuple) and isinstance(key[0], list)
            else expected[key]
        )
        assert np.array_equal(x[key].values, want), key
    assert np.array_equal(x.mean("draw"), expected.mean(axis=1))


@pytest.mark.slow
def test_a_run_that_goes_on_is_seen_from_another_process(tmp_path, often):
    path, seen = tmp_path / "run.zarr", []
    script = (
        f"import kmc; i = kmc.load({str(path)!r}); "
        "print(i.posterior.sizes['draw'], float(i.posterior['x'].sum()))"
    )

    def look(record):
        if record.draw == 17 and not seen:
            seen.append(
                subprocess.run(
                    [sys.executable, "-c", script], capture_output=True, text=True, check=True
                )
            )

    result = kmc.sample(log_density, callback=look, store=path, **settings("random-walk"))
    n, total = seen[0].stdout.split()
    assert 0 < int(n) <= 17
    assert float(total) == pytest.approx(float(result.posterior["x"][:, : int(n)].sum()))


def test_before_the_first_draw(tmp_path):
    kmc.sample(
        log_density,
        callback=lambda record: True,
        store=tmp_path / "run.zarr",
        **settings("kernel-hmc"),
    )
    loaded = kmc.load(tmp_path / "run.zarr")
    assert loaded.posterior["x"].shape == (2, 0, 2)
    assert loaded.attrs["n_evaluations"] == 0 and loaded.attrs["unfinished"].startswith(
        "the run has not ended"
    )


def test_xarray_reads_a_finished_store_by_itself(tmp_path):
    pytest.importorskip("zarr")
    import xarray

    result = kmc.sample(log_density, store=tmp_path / "run.zarr", **settings("random-walk"))
    trace = xarray.open_zarr(
        tmp_path / "run.zarr", group="draws/trace", chunks=None, consolidated=False
    )
    assert np.array_equal(trace["position"].values.swapaxes(0, 1), result.posterior["x"].values)
    history = xarray.open_zarr(
        tmp_path / "run.zarr", group="history", chunks=None, consolidated=False
    )
    assert history["point"].shape == (result.attrs["n_evaluations"], 2)
    assert [log_density(x) for x in history["point"].values] == history["value"].values.tolist()


def test_size(tmp_path):
    """A store of a small run is small on disk."""
    kmc.sample(log_density, store=tmp_path / "run.zarr", **settings("random-walk"))
    files = [file.stat() for file in (tmp_path / "run.zarr").rglob("*") if file.is_file()]
    assert 512 * sum(getattr(file, "st_blocks", 0) for file in files) < 1e6


def test_data_come_back(tmp_path):
    """Such as a PyMC model's observations; objects become strings."""

    class Observed(ParameterSpace):
        data = {  # noqa: RUF012
            "observed_data": {"y": (("time",), np.array([1.0, np.nan]))},
            "constant_data": {"name": ((), np.array("a", dtype=object)), "n": ((), np.array(3))},
        }

    model = kmc.Model(lambda x: -0.5 * float(x @ x), space=Observed({"a": kmc.Real()}, None, None))
    kmc.sample(model, store=tmp_path / "run.zarr", **settings("random-walk", dim=None))
    found = kmc.load(tmp_path / "run.zarr")
    np.testing.assert_array_equal(found["observed_data"]["y"], [1.0, np.nan])
    assert found["observed_data"]["y"].dims == ("time",)
    assert found["constant_data"]["name"].item() == "a" and found["constant_data"]["n"].item() == 3
