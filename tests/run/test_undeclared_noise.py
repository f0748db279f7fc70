"""A second evaluation of the best start point finds noise that is not declared."""

import numpy as np
import pytest

import kmc
from tests.counted import Counted

QUIET = {"dim": 2, "seed": 1, "progress": False, "sampler": "random-walk"}


def noisy(sd):
    rng = np.random.default_rng(1)
    return lambda x: -0.5 * x @ x + sd * rng.standard_normal()


def test_noise_ends_the_run_at_the_start():
    target = Counted(noisy(1.0))
    with pytest.raises(
        kmc.EvaluationError,
        match=r"returned .* and then .*, at x = .*pass kmc.Model\(..., noisy=True\)",
    ):
        kmc.sample(target, draws=500, **QUIET)
    assert target.n == 5  # four start points, and the best of them again
    np.testing.assert_array_equal(
        target.points[-1], target.points[int(np.argmax(target.values[:4]))]
    )


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_rounding_and_declared_noise_do_not():
    kmc.sample(noisy(1e-3), draws=20, **QUIET)
    kmc.sample(kmc.Model(noisy(1.0), 2, noisy=True), **{**QUIET, "dim": None}, draws=20)


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_the_second_evaluation_counts_and_changes_no_draw():
    """Beside a model that says that it is noisy, which random walks treat alike."""
    target = Counted(lambda x: -0.5 * x @ x)
    checked = kmc.sample(target, draws=None, max_evaluations=200, **QUIET)
    assert checked.attrs["n_evaluations"] == len(target.points) <= 200
    plain = kmc.sample(
        kmc.Model(lambda x: -0.5 * x @ x, 2, noisy=True),
        draws=None,
        max_evaluations=200,
        **{**QUIET, "dim": None},
    )
    x, y = (idata.posterior["x"].values for idata in (checked, plain))
    assert y.shape[1] - 1 <= x.shape[1] <= y.shape[1]
    np.testing.assert_array_equal(x, y[:, : x.shape[1]])
