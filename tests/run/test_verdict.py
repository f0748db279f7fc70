import numpy as np
import pytest

from kmc.run.verdict import longest_stay, verdict
from tests.run.sweeps import trace


def after(draws, acceptance=0.5):
    """A trace of that many draws with that acceptance rate."""
    made = trace(draws)
    made.stats["acceptance_rate"][:] = acceptance
    return made


FITTED = {"surrogate_loo_sd": 0.2}
ESTIMATOR = {"surrogate": "LiteKEF", "surrogate_acceptance_rate": 0.8, "n_failed_refits": 0}
TWICE_FAILED = ESTIMATOR | {"n_failed_refits": 2, "refit_error": "singular"}


def say(sampler="kernel-hmc", draws=20, made=20, acceptance=0.5, facts=FITTED, interrupted=False, rhat=1.0):
    return verdict(sampler, after(made, acceptance), facts, draws, interrupted, rhat)


@pytest.mark.parametrize("draws", [20, None])
@pytest.mark.parametrize("sampler", ["kernel-hmc", "adaptive-metropolis", "random-walk"])
def test_nothing_is_said_when_all_is_well(sampler, draws):
    assert say(sampler, draws) == []


@pytest.mark.parametrize(
    ("options", "sentence", "remedy"),
    [
        ({"interrupted": True}, "interrupted after 20 draws per chain", ""),
        ({"interrupted": True, "made": 0}, "interrupted after 0 draws per chain", ""),
        ({"made": 0}, "has no draws", "raise max_evaluations or lower warmup"),
        ({"made": 0, "draws": None}, "has no draws", "raise max_evaluations or lower warmup"),
        ({"made": 7}, "Only 7 of 20 draws per chain", "raise max_evaluations"),
        ({"acceptance": 0.03}, "Only 3.0% of the proposals were accepted", "reparametrise"),
        ({"rhat": 1.4}, "chains disagree (R-hat 1.40)", "allow more evaluations"),
        ({"rhat": float("inf")}, "never moved", "start nearer"),
        ({"facts": {}}, "too short for a surrogate", "raise warmup or max_evaluations"),
        (
            {"facts": TWICE_FAILED},
            "LiteKEF, 2 fits failed",
            "regularise it more",
        ),
        ({"facts": {"surrogate": "LiteKEF", "refit_error": "singular"}}, "no surrogate (singular)", "raise warmup"),
        ({"facts": {"surrogate": "LiteKEF"}}, "was too short for a fit", "raise warmup"),
        ({"facts": {"surrogate_loo_sd": 2.34}}, "misses the log-density by 2.3 nats", "allow more evaluations"),
    ],
)
def test_one_sentence_with_its_remedy(options, sentence, remedy):
    (said,) = say(**options)
    assert sentence in said and remedy in said
    assert said.endswith(".") and said[0].isupper() and "\n" not in said


def test_a_fitted_estimator_says_nothing():
    assert say(facts=ESTIMATOR) == []


def test_surrogates_are_the_business_of_kernel_hmc_alone():
    assert say("random-walk", facts={}) == []


def test_several_sentences():
    said = say(made=7, acceptance=0.01, facts={"surrogate_loo_sd": 5.0})
    assert len(said) == 3 and len(set(said)) == 3


def test_an_interrupted_run_is_not_told_to_raise_its_budget():
    assert not any("max_evaluations" in s for s in say("random-walk", interrupted=True, made=3))


# Noisy targets


NOISY = FITTED | {"noisy": True, "noise_sd": 1.0}


def stays(draws, longest):
    """A trace of chains that move at every draw, but for one stay."""
    made = after(draws)
    made.stats["accepted"][:] = True
    made.stats["accepted"][1, 5 : 4 + longest] = False
    return made


def about_noise(facts, draws=400, longest=30):
    return verdict("kernel-hmc", stays(draws, longest), facts, draws, False, 1.0)


def test_a_usual_noise_is_not_mentioned():
    assert about_noise(NOISY) == []
    assert about_noise(NOISY, longest=80) == []


def test_loud_noise_and_how_many_simulations_cure_it():
    """(e^4 - 1) / (e - 1) = 31.2 times as many, as the variance of the average of log-normal estimates falls with n."""
    (said,) = about_noise(NOISY | {"noise_sd": 2.0, "surrogate_loo_sd": 2.01})
    assert "sd of about 2.0 nats" in said and "about 32 times as many simulations" in said


def test_a_chain_that_sticks():
    (said,) = about_noise(NOISY, longest=81)
    assert "stayed 81 draws in one state" in said and "average more simulations" in said


def test_sticking_is_seen_where_nothing_estimates_the_noise():
    (said,) = verdict("random-walk", stays(400, 90), {"noisy": True}, 400, False, 1.0)
    assert "stayed 90 draws" in said


def test_noise_is_not_held_against_the_surrogate_nor_the_proposals():
    loud = NOISY | {"noise_sd": 2.5, "surrogate_loo_sd": 2.6}
    assert len(say(facts=loud, acceptance=0.05, made=20)) == 1  # of what the noise allows, .077, it is most
    assert any("proposals were accepted" in said for said in say(facts=loud, acceptance=0.005))
    (said,) = about_noise(NOISY | {"surrogate_loo_sd": 1.6})
    assert "misses the log-density by 1.2 nats" in said


@pytest.mark.parametrize(
    ("accepted", "longest"),
    [([[1, 1, 1]], 1), ([[0, 0, 0]], 3), ([[1, 0, 0, 1], [1, 1, 1, 1]], 3), ([[0, 0, 1, 0]], 2)],
)
def test_the_longest_stay(accepted, longest):
    assert longest_stay(np.array(accepted, bool)) == longest
