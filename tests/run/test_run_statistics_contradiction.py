from types import SimpleNamespace

import numpy as np
import pytest

import kmc
from kmc.posterior.results import read
from kmc.run import outcome
from kmc.run.run_statistics import contradiction


def log_density(x):
    """Even in each coordinate, with its mass on both sides of zero."""
    return -0.5 * x @ x


def sample(budget=400, **options):
    options = {"draws": None, "max_evaluations": budget, "seed": 3, "progress": False} | options
    return kmc.sample(options.pop("model", log_density), dim=2, **options)


@pytest.fixture(scope="module")
def replicate():
    """The chains of a good run."""
    return read(sample(), None).replicates[0]


def checked(replicate, positions):
    trace = SimpleNamespace(
        positions=positions,
        log_density=replicate.log_density,
        proposals={"x": replicate.proposals, "lp": replicate.proposal_log_density},
        stats={"move": replicate.move},
    )
    return contradiction([trace], [replicate.density], np.random.SeedSequence(4))


def test_draws_of_the_target_agree(replicate):
    assert checked(replicate, replicate.draws) == ""


def test_draws_of_one_half_contradict(replicate):
    """Mirrored into x > 0, their values are the same: only the surrogate shows what is missing."""
    half = replicate.draws * np.where(replicate.draws[..., :1] < 0, [-1.0, 1.0], 1.0)
    assert "the surrogate has mass where the draws have none" in checked(replicate, half)


def test_a_run_without_a_surrogate_is_not_checked(replicate):
    trace = SimpleNamespace(proposals={})
    assert contradiction([trace, trace], [None, replicate.density], np.random.SeedSequence(4)) == ""


def test_a_contradiction_is_a_warning_and_leaves_the_draws_unchanged(monkeypatch):
    good = sample()
    monkeypatch.setattr(outcome, "contradiction", lambda *_: "they differ by 7.0 standard errors")
    with pytest.warns(
        kmc.KmcWarning, match=r"disagree, as they differ by 7.0 standard .* \[surrogate-disagrees\]"
    ):
        bad = sample()
    np.testing.assert_array_equal(bad.posterior["x"], good.posterior["x"])


@pytest.mark.parametrize("error", [KeyboardInterrupt, np.linalg.LinAlgError, FloatingPointError])
def test_a_check_that_fails_loses_no_draws(error, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(outcome, "contradiction", fail)
    idata = sample()
    assert (
        idata.posterior.sizes["draw"] > 20
        and "surrogate-disagrees" not in idata.attrs["warning_codes"]
    )


@pytest.mark.parametrize(
    "options",
    [
        {"save_surrogate": False},
        {"sampler": "adaptive-metropolis"},
        {"model": kmc.Model(log_density, 2, noisy=True)},
        {"callback": lambda progress: progress.draw > 20},
    ],
    ids=["without its proposals", "without a surrogate", "noisy", "stopped"],
)
def test_what_cannot_be_compared_is_not(options, monkeypatch):
    monkeypatch.setattr(outcome, "contradiction", lambda *_: pytest.fail("compared"))
    sample(**options)


def test_many_draws_are_not_compared(replicate):
    """The same draws twice, of which half would be too few."""
    x = np.abs(np.concatenate([replicate.draws, replicate.draws], axis=1))
    assert x[..., 0].size >= 400 > replicate.draws[..., 0].size
    trace = SimpleNamespace(log_density=np.zeros(x.shape[:2]), proposals={"x": x})
    assert contradiction([trace], [replicate.density], np.random.SeedSequence(4)) == ""
