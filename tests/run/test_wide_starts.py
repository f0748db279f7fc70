"""Runs of densities that are zero near the origin."""

import numpy as np
import pytest

import kmc

SMALL = kmc.KernelHMC()

pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")


def run(target, **options):
    settings = {
        "dim": 2,
        "sampler": "random-walk",
        "draws": 5,
        "warmup": 0,
        "seed": 1,
        "progress": False,
    }
    return kmc.sample(target, **settings | options)


@pytest.mark.parametrize("size", [1e-5, 30.0, 3e5])
@pytest.mark.parametrize("independent_runs", [1, 2])
def test_a_box_of_another_size_is_found(size, independent_runs):
    seen = []

    def in_a_box(x):
        seen.append(x)
        return 0.0 if np.all((x > 0.1 * size) & (x < size)) else -np.inf

    idata = run(in_a_box, independent_runs=independent_runs)
    assert np.isfinite(idata["sample_stats"]["lp"]).all()
    assert idata.attrs["n_evaluations"] == len(seen)
    first = [x for x in seen if np.all((x > 0.1 * size) & (x < size))][:4]
    assert len({tuple(x) for x in first}) == 4  # one start for each chain


@pytest.mark.slow
def test_kernel_hmc_begins_there():
    """A logistic growth curve's box, as PINTS has it: the surroundings of the start are not a
    million wide.
    """

    def log_density(x):
        rate, capacity = x
        if not (0 < rate < 1 and 0 < capacity < 1000):
            return -np.inf
        return -0.5 * ((rate - 0.3) / 0.05) ** 2 - 0.5 * ((capacity - 500) / 50) ** 2

    idata = run(log_density, sampler=SMALL, draws=None, max_evaluations=1500, warmup=None)
    x = idata["posterior"]["x"].values
    np.testing.assert_allclose(x.mean(axis=(0, 1)), [0.3, 500], rtol=0.1)


def test_a_function_that_fails_far_away_does_not_hide_what_was_tried():
    def fails_far_away(x):
        if np.abs(x).max() > 50:
            raise OverflowError("too far")
        return -np.inf

    with pytest.raises(
        ValueError, match=r"-inf at each of .*log_density raised OverflowError: too far.*initial="
    ):
        run(fails_far_away)


def test_a_named_model_is_not_told_to_use_names():
    model = kmc.Model(lambda p: -np.inf, parameters={"a": kmc.Real(2)})
    with pytest.raises(ValueError, match="supports of the parameters agree") as caught:
        run(model, dim=None)
    assert "Interval(0, 10)" not in str(caught.value)
