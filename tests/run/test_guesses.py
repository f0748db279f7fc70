"""Workers that would wait evaluate points that chains will probably need: same draws, fewer rounds."""

import pytest

import kmc
from kmc.mcmc.kernel_hmc_state import KernelHMCState
from tests.grids import slow_except
from tests.run.store.runs import assert_same, log_density, settings
from tests.run.streams import Disorder, Rounds

pytestmark = pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")

PLAIN = settings("kernel-hmc", chains=2, warmup=60, max_evaluations=None, draws=80)


@pytest.fixture(scope="module")
def in_step():
    """Chains that wait for each other."""
    return kmc.sample(log_density, **PLAIN)


def same(found, expected):
    found.attrs["n_evaluations_unused"] = 0  # the only difference
    assert_same(found, expected)


def test_rounds_fall_and_draws_stay(in_step):
    """With sixteen workers two chains need a third of the rounds, and at most half as many evaluations again."""
    few, many = Rounds(workers=2, prefetch=True), Rounds(workers=16, prefetch=True)
    same(kmc.sample(log_density, executor=few, **PLAIN), in_step)
    found = kmc.sample(log_density, executor=many, **PLAIN)
    unused = found.attrs["n_evaluations_unused"]
    same(found, in_step)
    assert many.n_rounds < few.n_rounds / 3
    assert many.n_alone + many.n_together == found.attrs["n_evaluations"] + unused and unused > 0


@pytest.mark.parametrize(
    "asked",
    slow_except(
        {
            "budget": settings("kernel-hmc", chains=3, draws=None, max_evaluations=301),
            "score": settings("nystrom", chains=2) | {"independent_runs": 2, "chains": 4, "max_evaluations": 500},
        },
        {"budget"},
    ),
)
def test_the_same_draws_in_any_order(asked):
    order = Disorder(3, workers=9, prefetch=True)
    found = kmc.sample(log_density, executor=order, **asked)
    assert found.attrs["n_evaluations_unused"] > 0
    same(found, kmc.sample(log_density, **asked))


def test_failures_at_points_that_are_not_needed_are_no_failures(in_step):
    """Only points that the run without guesses evaluates are legal."""
    needed = set()

    def noting(x):
        needed.add(x.tobytes())
        return log_density(x)

    kmc.sample(noting, **PLAIN)

    def strict(x):
        if x.tobytes() not in needed:
            raise ZeroDivisionError
        return log_density(x)

    same(kmc.sample(strict, executor=Rounds(workers=16, prefetch=True), **PLAIN), in_step)


@pytest.mark.slow
def test_chains_take_the_proposals_that_guesses_were_made_of(monkeypatch):
    """Each proposal is made once: for each evaluation, needed or not, and for some that are made ready in advance."""
    made, propose = [0], KernelHMCState._proposal

    def counted(*args):
        made[0] += 1
        return propose(*args)

    monkeypatch.setattr(KernelHMCState, "_proposal", counted)  # of chains on their own
    kmc.sample(log_density, executor=Rounds(workers=2), **PLAIN)
    alone, made[0] = made[0], 0
    found = kmc.sample(log_density, executor=Rounds(workers=6, prefetch=True), **PLAIN)
    unused = found.attrs["n_evaluations_unused"]
    assert unused > 0 and alone < made[0] < alone + 2 * unused + 20
