"""The value of each draw is the log-density there: over samplers, executors, stores, histories,
modes and resume.

Nothing else can be a state: neither a prediction of a surrogate nor a value that was given.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kmc
from kmc.samplers.base import MOVES
from tests.correctness.test_calibration import OPTIONS, SAMPLERS
from tests.grids import slow_except
from tests.values import check_values

pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")  # of short runs

RNG = np.random.default_rng(7)


def log_density(x):
    """A banana."""
    return float(-0.5 * (x[0] ** 2 / 4 + (x[1] - 0.3 * x[0] ** 2) ** 2))


def gradient(x):
    """Of it."""
    bent = x[1] - 0.3 * x[0] ** 2
    return np.array([-x[0] / 4 + 0.6 * x[0] * bent, -bent])


def two_modes(x):
    """Two normal modes that no chain crosses by chance."""
    return float(np.logaddexp(-0.5 * np.sum((x - 3) ** 2), 0.5 - 2 * np.sum((x + 3) ** 2)))


def sampled(target=log_density, **options):
    return kmc.sample(
        target,
        **{
            "dim": 2,
            "draws": None,
            "max_evaluations": 800,
            "seed": 3,
            "progress": False,
            "save_warmup": True,
        }
        | options,
    )


EVERY = {name: options for name, (options, _) in (SAMPLERS | OPTIONS).items()} | {
    "kernel HMC": "kernel-hmc",
    "gradients": kmc.KernelHMC(gradients=gradient),
}


@pytest.mark.parametrize("sampler", slow_except(EVERY, {"kernel HMC", "adaptive-metropolis"}))
def test_samplers(sampler):
    check_values(sampled(sampler=sampler), log_density, 2)


@pytest.mark.slow
@pytest.mark.parametrize("independent_runs", [1, 2])
def test_executors(independent_runs):
    with ThreadPoolExecutor(3) as pool:
        idata = sampled(executor=pool, independent_runs=independent_runs)
    check_values(idata, log_density, 2)


@pytest.mark.parametrize("sampler", ["kernel-hmc", "adaptive-metropolis"])
def test_stores_and_resume(tmp_path, sampler):
    path = tmp_path / "run.zarr"
    sampled(sampler=sampler, store=path, callback=lambda record: record.n_evaluations > 300)
    check_values(sampled(sampler=sampler, store=path, resume=True), log_density, 2)
    check_values(kmc.load(path), log_density, 2)
    check_values(kmc.extend(path, draws=20, target=log_density, progress=False), log_density, 2)


# where wrong values would have it learn as long as it may
SHORT = kmc.KernelHMC(learning_share=0.1)


def test_histories_with_wrong_values():
    x = RNG.standard_normal((60, 2)) * [2.0, 1.0]
    values = np.array([log_density(row) for row in x])
    values[::20] += 6.0
    check_values(sampled(history=(x, values), sampler=SHORT, max_evaluations=250), log_density, 2)


def check_jumps(idata):
    """Chains have jumped between the modes."""
    jumped = (idata.sample_stats["move"] == MOVES.index("mode-jump")) & idata.sample_stats[
        "accepted"
    ]
    assert jumped.values.any()
    check_values(idata, two_modes, 2)


@pytest.mark.slow
def test_modes_and_a_history_with_wrong_values():
    """Both modes are known from the history alone, with some values that are wrong."""
    x = np.vstack([3.0 + RNG.standard_normal((40, 2)), -3.0 + 0.5 * RNG.standard_normal((40, 2))])
    values = np.array([two_modes(row) for row in x])
    values[::40] += 1.0
    check_jumps(sampled(two_modes, history=(x, values), sampler=SHORT, max_evaluations=600))


@pytest.mark.slow
def test_modes_without_a_history():
    initial = np.array([[3.0, 3.0], [-3.0, -3.0], [2.0, 3.0], [-3.0, -2.5]])
    check_jumps(sampled(two_modes, initial=initial, max_evaluations=1000))
