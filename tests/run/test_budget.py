"""The cost of a run, shown at its start."""

import warnings

import numpy as np
import pytest

import kmc
from kmc.errors import KmcWarning


def normal(x):
    return -0.5 * float(x @ x)


def planned(**options):
    run = kmc.iterate(normal, **{"dim": 2, "seed": 1} | options)
    return next(run).planned_evaluations


def test_a_budget_is_the_plan():
    assert planned(max_evaluations=5000) == 5000
    assert planned(max_evaluations=5000, draws=None) == 5000


def test_without_a_budget_draws_and_warmup_are():
    assert planned() == 4 + (8000 // 2 + 15 * 4) + 4000
    assert planned(draws=100) == 4 + (4500 // 2 + 15 * 4) + 400
    assert planned(sampler="random-walk", draws=100, warmup=30) == 4 + 4 * (30 + 100)
    assert planned(max_evaluations=None, draws=None, max_time=9.0) is None


def test_warmup_is_planned_for_the_dimension():
    """Half of the default budget fits a surrogate of any dimension twice."""
    needed = kmc.surrogates.values_needed(60)
    assert planned(dim=60, draws=100) == 4 + (2 * needed + 15 * 4) + 400


@pytest.mark.parametrize(
    "options", [{"draws": 60}, {"draws": 20, "warmup": 30}, {"draws": 30, "sampler": "random-walk"}]
)
@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
def test_no_run_takes_more_than_was_planned(options):
    records = list(
        kmc.iterate(
            normal, dim=2, seed=1, sampler=options.pop("sampler", kmc.KernelHMC(min_warmup_evaluations=200)), **options
        )
    )
    assert records[-1].n_evaluations <= 1.05 * records[0].planned_evaluations


def test_a_budget_that_fits_no_surrogate_is_said_at_the_start():
    def never(x):
        raise AssertionError("the warning comes first")

    with warnings.catch_warnings():
        warnings.simplefilter("error", KmcWarning)
        with pytest.raises(
            KmcWarning,
            match=r"max_evaluations=3000 is few for 50 parameters: a surrogate needs 1,524 "
            r"values, .* at least 6,096\.",
        ):
            kmc.sample(never, dim=50, max_evaluations=3000, progress=False)
        with pytest.raises(KmcWarning, match="divided among 2 independent runs, is few for 2 .* at least 960"):
            kmc.iterate(never, dim=2, max_evaluations=400, independent_runs=2)
        kmc.iterate(normal, dim=50, max_evaluations=3100)
        kmc.iterate(normal, dim=50, max_evaluations=3000, sampler="random-walk")
        kmc.iterate(normal, dim=50, max_evaluations=3000, warmup=10)
        kmc.iterate(normal, dim=50, max_evaluations=3000, history=(np.eye(50), np.full(50, -0.5)))
