"""``kmc.simulation_based_calibration``: right and wrong models, any executor, runs that are killed,
test and band.
"""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kmc
from kmc.diagnostics.calibration import _result, uniformity
from kmc.run.run_warnings import CODES
from kmc.run.store.files import StoreError
from kmc.unwritable import import_arviz

QUICK = {"sampler": "adaptive-metropolis", "draws": 60, "progress": False}


def simulate(parameters, rng):
    return rng.normal(parameters["mu"], 1.0, 3)


def log_likelihood(parameters, y, scale=1.0):
    return -0.5 * np.sum(((y - np.reshape(parameters["mu"], (-1, 1))) / scale) ** 2, axis=1)


def conjugate(scale=1.0, **options):
    """A mean whose posterior has a closed form; vectorized, as that is faster."""
    parameters = {"mu": kmc.Normal(0, 2)}
    return kmc.Model(
        log_likelihood=log_likelihood,
        parameters=parameters,
        args=(None, scale),
        vectorized=True,
        **options,
    )


@pytest.fixture(scope="module")
def found():
    return kmc.simulation_based_calibration(conjugate(), simulate, 30, seed=1, **QUICK)


def test_a_right_model_has_uniform_ranks(found):
    assert found["p_value"]["mu"] > 0.01 and found["p_value"]["log_likelihood"] > 0.01
    assert json.loads(found.attrs["warnings"]) == []
    ranks, draws = found["ranks"]["mu"].values, found["runs"]["n_draws"].values
    assert ranks.shape == draws.shape == (1, 30) and np.all((ranks >= 0) & (ranks <= draws))
    assert np.median(draws) > 60
    u = found["prior_sbc"]["mu"].values
    assert np.all((u * (draws + 1) >= ranks) & (u * (draws + 1) <= ranks + 1))
    assert abs(found["prior"]["mu"].values.mean()) < 4 * 2 / np.sqrt(30)
    assert found["runs"]["warned"].sel(code="few-effective-draws").shape == (1, 30)


@pytest.mark.slow
def test_a_wrong_likelihood_is_seen():
    """Its scale is twice the simulator's; or the simulator is shifted by one standard deviation."""
    with pytest.warns(
        kmc.KmcWarning, match=r"The ranks of .*log_likelihood \(p = .* are not uniform"
    ):
        found = kmc.simulation_based_calibration(conjugate(2.0), simulate, 40, seed=2, **QUICK)
    assert len(json.loads(found.attrs["warnings"])) == 1
    with pytest.warns(kmc.KmcWarning, match=r"The ranks of mu \(p = "):
        kmc.simulation_based_calibration(
            conjugate(), lambda p, rng: simulate(p, rng) + 1.0, 20, seed=3, **QUICK
        )


class Map:
    """A pool that has only ``map``."""

    def map(self, function, items):
        return [function(item) for item in items]


@pytest.mark.slow
def test_ranks_are_those_of_the_seed_for_any_executor_and_number_of_runs(found):
    first = found["prior_sbc"]["mu"].values[:, :3]
    with ThreadPoolExecutor(3) as threads:
        for executor in (threads, Map(), 2):
            again = kmc.simulation_based_calibration(
                conjugate(), simulate, 3, seed=1, executor=executor, **QUICK
            )
            np.testing.assert_array_equal(again["prior_sbc"]["mu"].values, first)
    other = kmc.simulation_based_calibration(conjugate(), simulate, 3, seed=2, **QUICK)
    assert not np.any(other["prior_sbc"]["mu"].values == first)


class Killed:
    """A simulator that fails at one of its calls."""

    def __init__(self, at):
        self.calls, self._at = 0, at

    def __call__(self, parameters, rng):
        self.calls += 1
        if self.calls == self._at:
            raise OSError("the machine goes down")
        return simulate(parameters, rng)


def test_finished_runs_survive(found, tmp_path):
    store = tmp_path / "calibration"
    with pytest.raises(OSError, match="goes down"):
        kmc.simulation_based_calibration(conjugate(), Killed(5), 8, seed=1, store=store, **QUICK)
    with pytest.raises(FileExistsError, match="resume=True"):
        kmc.simulation_based_calibration(conjugate(), simulate, 8, seed=1, store=store, **QUICK)
    again = Killed(0)
    resumed = kmc.simulation_based_calibration(
        conjugate(), again, 8, store=store, resume=True, **QUICK
    )
    assert again.calls == 1 + 4  # one to see that nothing has changed
    np.testing.assert_array_equal(
        resumed["prior_sbc"]["mu"].values, found["prior_sbc"]["mu"].values[:, :8]
    )
    np.testing.assert_array_equal(
        resumed["runs"]["warned"].values, found["runs"]["warned"].values[:, :8]
    )
    for changed in ({"seed": 2}, {"draws": 61}):
        with pytest.raises(StoreError, match="other options"):
            kmc.simulation_based_calibration(
                conjugate(), simulate, 8, store=store, resume=True, **{**QUICK, **changed}
            )
    with pytest.raises(StoreError, match="run 0 in the store differs"):
        kmc.simulation_based_calibration(
            conjugate(2.0), simulate, 8, store=store, resume=True, **QUICK
        )


def test_a_run_that_is_interrupted_is_not_a_result(tmp_path):
    """kmc.sample returns the draws so far after Ctrl-C: their ranks would be wrong."""
    calls = []

    def interrupted(parameters, y):
        calls.append(1)
        if len(calls) == 550:
            raise KeyboardInterrupt
        return log_likelihood(parameters, y)

    model = kmc.Model(log_likelihood=interrupted, parameters={"mu": kmc.Normal(0, 2)})
    with pytest.raises(KeyboardInterrupt):
        kmc.simulation_based_calibration(
            model, simulate, 4, seed=1, store=tmp_path / "store", **QUICK
        )
    calls += [1]
    resumed = kmc.simulation_based_calibration(
        model, simulate, 4, store=tmp_path / "store", resume=True, **QUICK
    )
    assert len(np.unique(resumed["runs"]["n_evaluations"])) == 1


SCRIPT = """
import os, sys
import numpy as np
import kmc

def simulate(p, rng):
    if sys.argv[1] == "dies" and os.path.exists("store/run-1.json"):
        os._exit(9)
    return rng.normal(p["mu"], 1.0, 3)

model = kmc.Model(log_likelihood=lambda p, y: -0.5 * np.sum((y - p["mu"]) ** 2), parameters={"mu": kmc.Normal(0, 2)})
options = {"sampler": "random-walk", "draws": 20, "warmup": 20, "progress": False}
executor = 2 if sys.argv[1] == "processes" else None
found = kmc.simulation_based_calibration(
    model, simulate, 4, seed=1, store="store", resume=True, executor=executor, **options
)
print(found["ranks"]["mu"].values.tolist())
"""  # noqa: E501


@pytest.mark.slow
def test_a_script_that_was_killed_goes_on_in_processes_without_a_guard(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)

    def run(how, folder):
        folder.mkdir(exist_ok=True)
        command = [sys.executable, str(tmp_path / "script.py"), how]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    assert run("dies", tmp_path / "a").returncode == 9
    assert sorted(path.name for path in (tmp_path / "a" / "store").glob("run-*")) == [
        "run-0.json",
        "run-1.json",
    ]
    resumed, whole = run("processes", tmp_path / "a"), run("one process", tmp_path / "b")
    assert resumed.returncode == whole.returncode == 0, resumed.stderr + whole.stderr
    assert resumed.stdout == whole.stdout and resumed.stdout


@pytest.mark.parametrize("vectorized", [False, True])
def test_names_shapes_known_values_and_labels(vectorized):
    def regress(p, y):
        mean = p["slope"] @ np.array([1.0, 2.0]) + p["offset"]
        return -0.5 * np.sum((y - mean[..., None] if vectorized else y - mean) ** 2, axis=-1)

    def simulated(p, rng):
        assert type(p["offset"]) is float and p["offset"] == 3.0 and p["slope"].shape == (2,)
        return p["slope"] @ [1.0, 2.0] + 3.0 + rng.standard_normal(4)

    model = kmc.Model(
        log_likelihood=regress,
        parameters={"slope": kmc.Normal(0, 1), "offset": 3.0},
        dims={"slope": ["drug"]},
        coords={"drug": ["A", "B"]},
        vectorized=vectorized,
    )
    found = kmc.simulation_based_calibration(model, simulated, 3, seed=1, **QUICK)
    assert found["ranks"]["slope"].dims == ("chain", "draw", "drug") and set(
        found["ranks"].data_vars
    ) == {
        "slope",
        "log_likelihood",
    }
    assert list(found["p_value"]["slope"].coords["drug"].values) == ["A", "B"]


def test_models_of_vectors():
    def normal(x, y):
        return -0.5 * float((y - x) @ (y - x))

    cube = kmc.Model(log_likelihood=normal, prior_transform=lambda u: 2 * u - 1, dim=2)
    drawn = kmc.Model(
        log_likelihood=normal,
        log_prior=lambda x: -0.5 * float(x @ x),
        dim=2,
        prior=lambda rng, n: rng.standard_normal((n, 2)),
    )
    for model in (cube, drawn):
        found = kmc.simulation_based_calibration(
            model, lambda x, rng: rng.normal(x), 3, seed=1, **QUICK
        )
        assert found["ranks"]["x"].shape == (1, 3, 2)
    assert np.all(
        np.abs(kmc.simulation_based_calibration(cube, lambda x, rng: x, 3, **QUICK)["prior"]["x"])
        < 1
    )


def test_what_cannot_be_calibrated():
    with pytest.raises(TypeError, match=r"model=.*expected a kmc\.Model"):
        kmc.simulation_based_calibration(log_likelihood, simulate)
    with pytest.raises(ValueError, match="no prior for sd"):
        model = kmc.Model(
            log_likelihood=log_likelihood, parameters={"mu": kmc.Normal(0, 1), "sd": kmc.Positive()}
        )
        kmc.simulation_based_calibration(model, simulate)
    with pytest.raises(ValueError, match="no prior"):
        kmc.simulation_based_calibration(kmc.Model(log_likelihood, dim=1), simulate)
    with pytest.raises(ValueError, match="noisy=True"):
        kmc.simulation_based_calibration(conjugate(noisy=True), simulate)
    with pytest.raises(TypeError, match="simulate=3"):
        kmc.simulation_based_calibration(conjugate(), 3)
    with pytest.raises(TypeError, match="progress='yes'"):
        kmc.simulation_based_calibration(conjugate(), simulate, progress="yes")
    with pytest.raises(ValueError, match="store=None"):
        kmc.simulation_based_calibration(conjugate(), simulate, resume=True)
    with pytest.raises(ValueError, match="within warm-up"):
        kmc.simulation_based_calibration(
            conjugate(), simulate, 1, warmup=500, max_evaluations=100, **QUICK
        )
    with pytest.raises(TypeError, match="use warmup="):
        kmc.simulation_based_calibration(conjugate(), simulate, 1, tune=5)


@pytest.mark.parametrize("executor", [None, 1])
def test_a_failing_model_fails_alike_everywhere(executor):
    def failing(parameters, y):
        raise ZeroDivisionError("of the user")

    model = kmc.Model(log_likelihood=failing, parameters={"mu": kmc.Normal(0, 1)})
    with pytest.raises(kmc.EvaluationError, match="ZeroDivisionError: of the user, at mu = "):
        kmc.simulation_based_calibration(model, simulate, 2, seed=1, executor=executor, **QUICK)


def test_uniform_numbers_are_within_the_band_as_often_as_it_says():
    n, sets = 40, 2000
    rng = np.random.default_rng(1)
    z, low, high = uniformity(rng.random(n))[1]
    below = (
        np.array([np.searchsorted(np.sort(rng.random(n)), z, side="right") for _ in range(sets)])
        / n
    )
    inside = np.mean(np.all((below >= low) & (below <= high), axis=1))
    assert abs(inside - 0.95) < 4 * np.sqrt(0.95 * 0.05 / sets)  # the band itself is of 10,000 sets
    p = np.array([uniformity(rng.random(n))[0] for _ in range(sets)])
    assert abs(np.mean(p < 0.1) - 0.1) < 4 * np.sqrt(0.1 * 0.9 / sets)


def test_many_quantities_are_not_too_many_for_a_warning():
    """With 10,000 sets of uniform numbers no p-value is below 0.01 / 150."""
    parameters = {"mu": kmc.Normal(0, 1, shape=150)}
    model = kmc.Model(
        log_likelihood=lambda p, y: -np.sum((y - p["mu"]) ** 2), parameters=parameters
    )
    runs = [
        {"pit": np.full(151, 0.001), "rank": np.zeros(151), "truth": np.zeros(151)}
        for _ in range(20)
    ]
    runs = [
        {**run, "n_draws": 1, "n_evaluations": 1, "warned": np.zeros(len(CODES), bool)}
        for run in runs
    ]
    with pytest.warns(kmc.KmcWarning, match="not uniform"):
        _result(model, runs, np.random.SeedSequence(1))


def test_the_band_is_that_of_arviz():
    n = 100
    z, low, high = uniformity(np.random.default_rng(2).random(n))[1]
    if hasattr(import_arviz(), "plot_ecdf"):
        from arviz.stats.ecdf_utils import ecdf_confidence_band

        theirs = ecdf_confidence_band(n, z[1:-1], z[1:-1], 0.95, method="optimized")
    else:
        from arviz_stats.ecdf_utils import ecdf_pit

        theirs = [values[1:-1] for values in ecdf_pit(z[1:], 0.95, 2000)[2:]]
    # theirs is simulated, or found to some digits
    for ours, their in zip((low, high), theirs, strict=True):
        assert np.max(np.abs(ours[1:-1] - their)) < 1.5 / n
