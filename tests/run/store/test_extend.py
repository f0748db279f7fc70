"""``kmc.extend`` adds draws of the same chains."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kmc
from tests.grids import slow_except
from tests.run.store.runs import SAMPLERS, Interrupted, Stop, assert_same, log_density, settings

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")


@pytest.mark.parametrize("name", slow_except(list(SAMPLERS), {"delayed", "kernel-hmc", "nystrom"}))
def test_more_draws(tmp_path, name):
    path = tmp_path / "run.zarr"
    result = kmc.sample(log_density, store=path, **settings(name, max_evaluations=None, warmup=20))
    made = result.posterior.sizes["draw"]
    assert made == settings(name)["draws"]
    longer = kmc.extend(path, draws=25, target=log_density, progress=False)
    assert longer.posterior.sizes["draw"] == made + 25
    assert np.array_equal(longer.posterior["x"][:, :made], result.posterior["x"])
    assert np.all(np.asarray(longer.posterior["x"][:, made:].std("draw")) > 0)
    assert longer.attrs["n_evaluations_warmup"] == result.attrs["n_evaluations_warmup"]
    spent = int(longer.sample_stats["n_evaluations"].sum()) - int(
        result.sample_stats["n_evaluations"].sum()
    )
    # vanishing adaptation probes
    assert longer.attrs["n_evaluations"] >= result.attrs["n_evaluations"] + spent
    assert_same(kmc.load(path), longer)


def test_in_two_steps_as_in_one(tmp_path):
    """With a given warm-up, random walks do not depend on the number of draws."""
    asked = settings("random-walk", warmup=30, max_evaluations=None)
    whole = kmc.sample(log_density, **{**asked, "draws": 70})
    kmc.sample(log_density, store=tmp_path / "run.zarr", **asked)
    kmc.extend(tmp_path / "run.zarr", draws=10, target=log_density, progress=False)
    assert_same(
        kmc.extend(tmp_path / "run.zarr", draws=20, target=log_density, progress=False), whole
    )


@pytest.mark.slow
def test_a_budget(tmp_path):
    result = kmc.sample(
        log_density, store=tmp_path / "run.zarr", **settings("kernel-hmc", draws=None)
    )
    longer = kmc.extend(
        tmp_path / "run.zarr", max_evaluations=50, target=log_density, progress=False
    )
    spent = longer.attrs["n_evaluations"] - result.attrs["n_evaluations"]
    assert 48 <= spent <= 50
    n = result.posterior.sizes["draw"]
    assert np.array_equal(longer.posterior["x"][:, :n], result.posterior["x"])


def test_what_a_budget_cut_off_comes_first(tmp_path):
    """The sweep that was proposed when the budget ended is made with the extended budget."""
    asked = settings("random-walk", warmup=10, draws=None)
    whole = kmc.sample(log_density, **{**asked, "max_evaluations": 161})
    kmc.sample(log_density, store=tmp_path / "run.zarr", **{**asked, "max_evaluations": 101})
    longer = kmc.extend(
        tmp_path / "run.zarr", max_evaluations=61, target=log_density, progress=False
    )
    assert_same(longer, whole)


@pytest.mark.slow
def test_an_extension_that_was_interrupted(tmp_path):
    asked = settings("kernel-hmc", max_evaluations=None, warmup=60)
    for path in (tmp_path / "a.zarr", tmp_path / "b.zarr"):
        kmc.sample(log_density, store=path, **asked)
    longer = kmc.extend(tmp_path / "a.zarr", draws=30, target=log_density, progress=False)
    with pytest.raises(kmc.EvaluationError):
        kmc.extend(tmp_path / "b.zarr", draws=30, target=Interrupted(20, Stop()), progress=False)
    with pytest.raises(ValueError, match="not finished.*resume=True"):
        kmc.extend(tmp_path / "b.zarr", draws=30)
    assert_same(kmc.sample(log_density, store=tmp_path / "b.zarr", resume=True, **asked), longer)


def test_an_executor_and_a_callback(tmp_path):
    asked = settings("random-walk", warmup=30, max_evaluations=None)
    kmc.sample(log_density, store=tmp_path / "run.zarr", **asked)
    with ThreadPoolExecutor(1) as pool:
        threads = []
        target = lambda x: threads.append(threading.current_thread()) or log_density(x)  # noqa: E731
        longer = kmc.extend(
            tmp_path / "run.zarr",
            draws=30,
            target=target,
            executor=pool,
            callback=lambda progress: progress.draw >= asked["draws"] + 10,
            progress=False,
        )
    assert threading.main_thread() not in threads
    assert asked["draws"] + 10 <= longer.posterior.sizes["draw"] < asked["draws"] + 30


def test_a_target_that_cannot_be_pickled(tmp_path):
    class Local:
        def __call__(self, x):
            return log_density(x)

        def __reduce__(self):
            raise TypeError("not this one")

    path = tmp_path / "run.zarr"
    kmc.sample(Local(), store=path, **settings("random-walk"))
    with pytest.raises(ValueError, match="no target that can be loaded here: pass target="):
        kmc.extend(path, draws=5)
    assert (
        kmc.extend(path, draws=5, target=log_density, progress=False).posterior.sizes["draw"] == 45
    )


def test_bad_arguments(tmp_path):
    kmc.sample(log_density, store=tmp_path / "run.zarr", **settings("random-walk"))
    with pytest.raises(ValueError, match="draws=None and max_evaluations=None"):
        kmc.extend(tmp_path / "run.zarr")
    with pytest.raises(ValueError, match="draws=0"):
        kmc.extend(tmp_path / "run.zarr", draws=0)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        kmc.extend(tmp_path / "nowhere.zarr", draws=10)
    with pytest.raises(ValueError, match="dim=2, and this one has 3"):
        kmc.extend(tmp_path / "run.zarr", draws=10, target=kmc.Model(log_density, dim=3))


@pytest.mark.slow
@pytest.mark.parametrize("cut", [None, 150])
def test_larger_limits_of_a_resumed_run_extend_it(tmp_path, cut):
    """Finished or not, its first draws are those of the first plan."""
    asked = settings("kernel-hmc", max_evaluations=None, draws=80)
    first = kmc.sample(log_density, **asked)
    path = tmp_path / "run.zarr"
    stop = None if cut is None else lambda progress: progress.n_evaluations > cut
    kmc.sample(log_density, store=path, callback=stop, **asked)
    larger = {**asked, "draws": 95}
    longer = kmc.sample(log_density, store=path, resume=True, **larger)
    assert_same(longer, kmc.load(path))
    np.testing.assert_array_equal(longer.posterior["x"][:, :80], first.posterior["x"])
    assert longer.posterior.sizes["draw"] == 95
    again = kmc.sample(log_density, store=path, resume=True, **larger)
    assert_same(again, longer)
    assert kmc.sample(log_density, store=path, resume=True, **asked).posterior.sizes["draw"] == 95
    with pytest.raises(ValueError, match="is of a run with draws=80, and this one has 79"):
        kmc.sample(log_density, store=path, resume=True, **{**asked, "draws": 79})


def test_a_larger_budget_of_a_resumed_run(tmp_path):
    asked = settings("random-walk", warmup=10, draws=None)
    whole = kmc.sample(log_density, **{**asked, "max_evaluations": 161})
    kmc.sample(log_density, store=tmp_path / "run.zarr", **{**asked, "max_evaluations": 101})
    longer = kmc.sample(
        log_density, store=tmp_path / "run.zarr", resume=True, **{**asked, "max_evaluations": 161}
    )
    np.testing.assert_array_equal(longer.posterior["x"], whole.posterior["x"])
