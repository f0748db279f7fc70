import pytest

from kmc.run.verdict import verdict
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
