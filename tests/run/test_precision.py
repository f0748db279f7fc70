"""``kmc.sample(..., precision=...)``: the run ends when the errors are small enough."""

import json

import numpy as np
import pytest

import kmc
from kmc.run.budget import largest_error

QUIET = {"progress": False, "sampler": "adaptive-metropolis"}
MODEL = kmc.Model(
    lambda p: -0.5 * p["a"] ** 2 - p["b"], parameters={"a": kmc.Real(), "b": kmc.Positive()}
)


def normal(x):
    return -0.5 * float(x @ x)


def test_the_run_ends_when_errors_are_small_enough():
    idata = kmc.sample(normal, dim=2, draws=5000, warmup=200, seed=1, precision=0.1, **QUIET)
    draws = idata["posterior"]["x"].values
    assert largest_error(draws) <= 0.1 and 25 <= draws.shape[1] < 5000
    assert largest_error(draws[:, : int(draws.shape[1] / 1.1) - 1]) > 0.1
    assert "few-draws" not in json.loads(idata.attrs["warning_codes"])
    assert np.all(np.abs(draws.mean(axis=(0, 1))) < 0.4) and np.all(
        np.abs(draws.std(axis=(0, 1)) - 1.0) < 0.4
    )


def test_it_is_a_prefix_of_a_longer_run():
    short, long = (
        kmc.sample(normal, dim=1, draws=800, warmup=100, seed=2, precision=p, **QUIET)
        for p in (0.2, None)
    )
    n = short["posterior"].sizes["draw"]
    np.testing.assert_array_equal(short["posterior"]["x"], long["posterior"]["x"][:, :n])


def test_errors_are_those_of_the_parameters_with_names():
    idata = kmc.sample(MODEL, draws=3000, warmup=300, seed=3, precision=0.15, **QUIET)
    posterior = idata["posterior"]
    assert largest_error(np.stack([posterior["a"], posterior["b"]], axis=-1)) <= 0.15


def test_a_run_that_ends_before_is_told():
    with pytest.warns(
        kmc.KmcWarning, match=r"errors of up to 0\.\d+ standard .* precision=0\.01 needs about"
    ):
        kmc.sample(normal, dim=2, draws=60, warmup=100, seed=4, precision=0.01, **QUIET)


def test_the_clock_is_no_excuse():
    with pytest.warns(kmc.KmcWarning, match=r"precision=0\.001 needs about"):
        kmc.sample(normal, dim=1, draws=None, max_time=1.0, seed=6, precision=0.001, **QUIET)


def test_chains_that_never_move_are_not_precise():
    with pytest.warns(kmc.KmcWarning, match="A coordinate never moved"):
        idata = kmc.sample(
            lambda x: 0.0 if np.all(x == 1.0) else -np.inf,
            dim=2,
            initial=np.ones((4, 2)),
            draws=60,
            warmup=20,
            seed=7,
            precision=0.5,
            **QUIET,
        )
    assert idata["posterior"].sizes["draw"] == 60


def test_a_store_is_resumed_to_the_same_end(tmp_path):
    def stop(progress):
        return progress.phase == "sampling" and progress.draw >= 40

    options = {"dim": 2, "draws": 2000, "warmup": 100, "seed": 5, "precision": 0.15, **QUIET}
    whole = kmc.sample(normal, **options)
    kmc.sample(normal, store=tmp_path / "run.zarr", callback=stop, **options)
    for _ in range(2):
        resumed = kmc.sample(normal, store=tmp_path / "run.zarr", resume=True, **options)
        np.testing.assert_array_equal(resumed["posterior"]["x"], whole["posterior"]["x"])


@pytest.mark.parametrize("precision", [0.0, -1.0, np.nan])
def test_it_has_to_be_positive(precision):
    with pytest.raises(
        ValueError, match="precision=.*expected a positive, finite number of standard deviations"
    ):
        kmc.sample(normal, dim=1, precision=precision, **QUIET)
