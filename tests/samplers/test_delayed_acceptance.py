"""Delayed acceptance: what is not evaluated. Its stationary distribution is tested in
tests/correctness.
"""

import numpy as np
import pytest

import kmc
from kmc.samplers.adaptive_metropolis import AdaptiveMetropolis
from kmc.samplers.delayed_acceptance import DelayedAcceptance
from kmc.samplers.metropolis import Proposal
from kmc.scores import GaussianScore
from tests.samplers.test_adaptive_langevin import NORMAL, drive, started

PLAIN = AdaptiveMetropolis(moves=("random-walk",))


def counts(steps):
    return np.array([step.stats["n_evaluations"].sum() for step in steps])


def test_rejected_proposals_are_not_evaluated():
    """On a Gaussian with a fitted Gaussian nearly all that is evaluated is accepted, except for one
    in twenty.
    """
    state = started(DelayedAcceptance(PLAIN, GaussianScore()), warmup=300)
    steps = drive(state, 1000)
    assert np.all(counts(steps[:30]) == 4)
    later = steps[300:]
    accepted = np.mean([step.stats["accepted"].mean() for step in later])
    evaluated = counts(later).mean() / 4
    assert 0.15 < accepted < 0.35 and accepted < evaluated < accepted + 0.12


class Here:
    """Proposes one point, with a ratio."""

    def propose(self, rng, x):
        return Proposal(np.array([1.0]), 0.3, 0)


class Known:
    """A learned density with these values at 0 and 1."""

    def __init__(self, *values):
        self.values = values

    def log_density(self, x):
        return self.values[int(x[0])]


class Learner:
    def __init__(self, learned):
        self.learned = learned


def test_the_two_stages():
    """The first accepts with probability min(1, s' q / (s q')); the second has the ratio s / s'."""
    from kmc.samplers.delayed_acceptance import ScreenedProposer

    rng, x = np.random.default_rng(1), np.zeros(1)
    proposer = ScreenedProposer(Here(), Learner(Known(0.0, -1.0)))
    made = [proposer.propose(rng, x) for _ in range(4000)]
    ratios = np.array([proposal.log_ratio if proposal.moved else np.nan for proposal in made])
    screened, plain = np.mean(ratios == 1.0), np.mean(ratios == 0.3)
    p = 0.95 * np.exp(-0.7)
    assert abs(screened - p) < 5 * np.sqrt(p * (1 - p) / 4000) and abs(plain - 0.05) < 0.02
    assert screened + plain + np.mean(np.isnan(ratios)) == pytest.approx(1.0)
    assert np.all([proposal.position[0] == proposal.moved for proposal in made])


@pytest.mark.parametrize("values", [(0.0, -np.inf), (0.0, np.nan), (-np.inf, -np.inf)])
def test_a_learned_density_of_zero_screens_all_but_a_few(values):
    from kmc.samplers.delayed_acceptance import ScreenedProposer

    rng = np.random.default_rng(1)
    proposer = ScreenedProposer(Here(), Learner(Known(*values)))
    with np.errstate(invalid="ignore"):
        moved = [proposer.propose(rng, np.zeros(1)).moved for _ in range(2000)]
    assert 0.03 < np.mean(moved) < 0.07


class NoValues:
    def fit(self, X):
        return self

    def gradient(self, X):
        return -X


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"sampler": kmc.RandomWalkMetropolis()},
            "sampler=Random.*expected kmc.AdaptiveMetropolis",
        ),
        ({"estimator": NoValues()}, "estimator=.*has no method log_density"),
        ({"estimator": 3}, "estimator=3 has no method fit"),
        ({"max_states": "many"}, "max_states='many'"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(TypeError, match=message):
        DelayedAcceptance(**options)


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_the_budget_counts_evaluations_only():
    idata = kmc.sample(
        NORMAL, dim=3, sampler=DelayedAcceptance(PLAIN, GaussianScore()), draws=None,
        max_evaluations=400, seed=1, progress=False,
    )  # fmt: skip
    assert idata.attrs["n_evaluations"] <= 400 < 4 * idata.posterior.sizes["draw"] + 100
