import pytest

from kmc.run.budget import UNKNOWN, Spent
from kmc.run.evaluation_summary import NONE, Rejections
from kmc.run.problems import by_code, problems_of
from kmc.run.run_statistics import FinishedRun
from kmc.run.run_warnings import WARNINGS

WELL = {
    "acceptance": 0.8,
    "tail_acceptance": 0.7,
    "longest_stay": 8,
    "stay": 1.3,
    "rhat": 1.0,
    "tail_ess": 800.0,
    "width_error": 0.04,
    "sd_error": 0.04,
    "bulk_ess": 900.0,
    "burn_in": 0,
    "drift": -0.5,
    "disagreement": -0.5,
}
FITTED = {"surrogate_loo_sd": 0.2, "surrogate_trend_sd": 1.9, "surrogate_metric_spread": 300.0}
ESTIMATOR = {"surrogate": "LiteKEF", "surrogate_acceptance_rate": 0.8, "n_failed_refits": 0}
TWICE_FAILED = ESTIMATOR | {"n_failed_refits": 2, "refit_error": "singular"}
NAN = float("nan")


def sampler_of(facts):
    """The sampler whose report this is."""
    return "score-hmc" if "surrogate" in facts else "kernel-hmc"


def say(
    sampler=None,
    draws=20,
    made=20,
    facts=FITTED,
    cut="",
    reports=None,
    rejected=NONE,
    spent=UNKNOWN,
    **found,
):
    sampler = sampler or sampler_of(facts)
    reports = reports or [facts]
    run = FinishedRun(
        sampler, WELL | found, reports, made, draws=draws, cut=cut, rejected=rejected, spent=spent
    )
    return by_code(problems_of(run, WARNINGS))


@pytest.mark.parametrize("draws", [20, None])
@pytest.mark.parametrize("sampler", ["kernel-hmc", "adaptive-metropolis", "random-walk"])
def test_nothing_is_said_when_all_is_well(sampler, draws):
    assert say(sampler, draws) == {}


@pytest.mark.parametrize(("made", "said"), [(799, ["stuck-chain"]), (801, [])])
def test_a_stay_that_is_a_small_part_of_a_long_chain_is_no_matter(made, said):
    assert list(say(made=made, draws=made, stay=12.0)) == said


@pytest.mark.parametrize("made", [0, 20])
@pytest.mark.parametrize(
    ("rejected", "near", "said"),
    [(10, 0.01, []), (11, 0.0, ["nonfinite-values"]), (3, 0.02, ["nonfinite-values"])],
)
def test_many_or_near_nonfinite_values_cause_a_warning(made, rejected, near, said):
    found = say(
        made=made,
        draws=None,
        rejected=Rejections(rejected, 0, 1000, near, common="all of them have a > 3"),
    )
    assert [name for name in found if name != "no-draws"] == said
    if said:
        sentence = found["nonfinite-values"]
        assert (
            f"NaN or +inf at {rejected} of 1000 evaluations" in sentence
            and "; all of them have a > 3:" in sentence
        )
        assert ("2% of those near the draws" in sentence) == (near > 0.01)


def test_each_rejected_call_causes_a_warning():
    found = say(rejected=Rejections(0, 1, 1000, reasons="1 times ValueError: no"))
    assert found["failed-calls"].startswith(
        "1 of 1000 calls of log_density failed and were taken as -inf (1 times Val"
    )


@pytest.mark.parametrize("name", WELL)
def test_nothing_is_said_of_what_could_not_be_measured(name):
    assert say(**{name: NAN}) == {}


@pytest.mark.parametrize(
    ("name", "options", "sentence", "remedy"),
    [
        ("interrupted", {"cut": "interrupted"}, "interrupted after 20 draws per chain", ""),
        (
            "interrupted",
            {"cut": "interrupted", "made": 0},
            "interrupted after 0 draws per chain",
            "",
        ),
        ("no-draws", {"made": 0}, "has no draws", "raise max_evaluations or lower warmup"),
        (
            "no-draws",
            {"made": 0, "draws": None},
            "has no draws",
            "raise max_evaluations or lower warmup",
        ),
        ("no-draws", {"made": 0, "cut": "stopped"}, "was stopped within warm-up", "let it run"),
        ("few-draws", {"made": 7}, "Only 7 of 20 draws per chain", "raise max_evaluations"),
        (
            "low-acceptance",
            {"acceptance": 0.03},
            "Only 3.0% of the proposals were accepted",
            "reparametrize",
        ),
        (
            "low-acceptance",
            {"acceptance": 0.3},
            "Only 30% of the proposals were accepted",
            "allow more evaluations",
        ),
        (
            "chains-disagree",
            {"rhat": 1.4},
            "chains disagree (R-hat 1.40)",
            "allow more evaluations",
        ),
        ("constant-coordinate", {"rhat": float("inf")}, "never moved", "kmc.find_start"),
        (
            "runs-disagree",
            {"disagreement": -6.3},
            "disagree on a mean or a tail (p = 5e-07)",
            "allow several times",
        ),
        (
            "drift",
            {"drift": -5.0},
            "still change from one fifth of the run to the next (p = 1e-05)",
            "allow more",
        ),
        (
            "drift",
            {"drift": -400.0},
            "still change from one fifth of the run to the next (p < 1e-10)",
            "allow more",
        ),
        (
            "stuck-chain",
            {"stay": 12.0},
            "in one state 12 times as long as its acceptance",
            "allow more evaluations",
        ),
        (
            "few-effective-draws",
            {"bulk_ess": 34.0},
            "means rest on 34 effective draws",
            "make more draws",
        ),
        (
            "few-tail-draws",
            {"tail_ess": 43.0},
            "quantiles rest on 43 effective draws",
            "make more draws",
        ),
        (
            "few-tail-draws",
            {"width_error": 0.28},
            "quantiles has a standard error of 28%",
            "make more draws",
        ),
        (
            "few-tail-draws",
            {"sd_error": 0.28},
            "standard deviation has a standard error of 28%",
            "make more draws",
        ),
        (
            "curved-ridge",
            {"tail_acceptance": 0.43},
            "misses it by 1.9 nats, and only 43%",
            "several times as many",
        ),
        (
            "poor-tails",
            {"tail_acceptance": 0.08, "facts": FITTED | {"surrogate_trend_sd": 0.3}},
            "Only 8% of the proposals from a tail",
            "allow more evaluations",
        ),
        ("failed-fits", {"facts": TWICE_FAILED}, "LiteKEF, 2 fits failed", "regularize it more"),
        (
            "no-surrogate",
            {"facts": {"surrogate": "LiteKEF", "refit_error": "singular"}},
            "no surrogate (singular)",
            "raise warmup",
        ),
        (
            "no-surrogate",
            {"facts": {"surrogate": "LiteKEF"}},
            "was too short for a fit",
            "raise warmup",
        ),
        (
            "poor-surrogate",
            {"facts": FITTED | {"surrogate_loo_sd": 2.34}},
            "misses the log-density by 2.3 nats",
            "allow more evaluations",
        ),
    ],
)
def test_one_sentence_with_its_remedy(name, options, sentence, remedy):
    ((found, said),) = say(**options).items()
    assert found == name and sentence in said and remedy in said
    assert said.endswith(".") and said[0].isupper() and "\n" not in said


def test_tails_are_judged_by_the_curvature():
    """Beyond the data, a surrogate is right where the target is nearly quadratic, and worst along a
    curved ridge.
    """
    assert "curved-ridge" in say(tail_acceptance=0.3)
    assert say(tail_acceptance=0.3, facts=FITTED | {"surrogate_trend_sd": 0.3}) == {}
    assert say(tail_acceptance=0.3, facts=FITTED | {"surrogate_metric_spread": 9.0}) == {}


@pytest.mark.parametrize("name", ["curved-ridge", "poor-tails"])
def test_tails_that_were_visited_often_are_not_cut_short(name):
    accepted = {"curved-ridge": 0.45, "poor-tails": 0.1}[name]
    facts = FITTED if name == "curved-ridge" else FITTED | {"surrogate_trend_sd": 0.3}
    assert list(say(tail_acceptance=accepted, facts=facts)) == [name]
    assert say(tail_acceptance=accepted, facts=facts, tail_ess=1200.0) == {}


def test_tails_are_judged_by_the_acceptance_everywhere():
    """In sixteen dimensions all acceptance is lower, and a run that is right was told that its
    tails are cut short.
    """
    assert say(acceptance=0.65, tail_acceptance=0.5) == {}
    assert list(say(acceptance=0.65, tail_acceptance=0.44)) == ["curved-ridge"]
    # a run of 3,000 that was wrong
    assert list(say(acceptance=0.57, tail_acceptance=0.30)) == ["curved-ridge"]


def test_a_funnel_whose_neck_is_hardly_accepted_causes_a_warning():
    """Centered eight schools: .77 and .26 were accepted, and the sd of log tau was .72 of the true
    one.
    """
    funnel = {"surrogate_loo_sd": 0.6, "surrogate_trend_sd": 1.1, "surrogate_metric_spread": 140.0}
    said = say(
        acceptance=0.77,
        tail_acceptance=0.26,
        tail_ess=250.0,
        facts=funnel | {"surrogate_driver": 0},
    )
    assert list(said) == ["funnel-neck"] and "non-centered" in said["funnel-neck"]
    assert (
        say(acceptance=0.77, tail_acceptance=0.26, facts=funnel | {"surrogate_driver": None}) == {}
    )
    assert say(acceptance=0.77, tail_acceptance=0.45, facts=funnel | {"surrogate_driver": 0}) == {}
    assert say(tail_acceptance=0.26, tail_ess=1100.0, facts=funnel | {"surrogate_driver": 0}) == {}


SPENT = Spent(evaluations=6000, warmup=2000, dim=10, learns=True)


@pytest.mark.parametrize(
    ("found", "name", "remedy"),
    [
        (
            {"tail_ess": 80.0},
            "few-tail-draws",
            "make about 100 draws per chain (about 22,000 evaluations in all)",
        ),
        (
            {"width_error": 0.14},
            "few-tail-draws",
            "make about 110 draws per chain (about 23,000 evaluations in all)",
        ),
        (
            {"tail_ess": 4.0},
            "few-tail-draws",
            "make about 200 draws per chain (about 42,000 evaluations in all)",
        ),
        ({"rhat": 1.4}, "chains-disagree", "allow about 12,000 evaluations"),
        ({"rhat": 1.4, "tail_ess": 80.0}, "chains-disagree", "allow about 30,000 evaluations"),
        ({"tail_acceptance": 0.3}, "curved-ridge", "allow about 24,000 evaluations"),
        ({"drift": -9.0}, "drift", "allow about 12,000 evaluations"),
        ({"made": 10}, "few-draws", "raise max_evaluations to about 10,000"),
    ],
)
def test_remedies_give_numbers(found, name, remedy):
    assert remedy in say(spent=SPENT, **found)[name]


def test_a_remedy_is_no_less_than_what_the_dimension_asks_for():
    said = say(spent=Spent(1000, 500, dim=50, learns=True), rhat=1.4)["chains-disagree"]
    assert "allow about 4,100 evaluations" in said
    assert (
        "allow about 2,000 evaluations"
        in say("random-walk", spent=Spent(1000, 500, dim=50), rhat=1.4)["chains-disagree"]
    )


def test_what_a_run_could_not_check():
    def checked(sampler, *reports):
        return FinishedRun(sampler, WELL, reports, 20, draws=20).not_checked()

    assert "evaluated points alone" in checked("kernel-hmc", FITTED, FITTED)[0]
    assert "values are noisy" in checked("kernel-hmc", NOISY)[0]
    assert "without a frozen surrogate" in checked("delayed-acceptance", {})[0]


@pytest.mark.parametrize("sampler", ["adaptive-metropolis", "delayed-acceptance", "score-hmc"])
def test_tails_from_which_no_proposal_is_accepted_are_the_business_of_all(sampler):
    """Delayed acceptance by a kernel estimator on a banana: sds were 7.1 for 10 and 2.0 for 4.4."""
    rates = {"facts": ESTIMATOR, "acceptance": 0.283, "tail_acceptance": 0.135}
    assert list(say(sampler, **rates)) == ["poor-tails"]
    assert (
        say(sampler, **rates, tail_ess=1001.0)
        == say(sampler, **rates | {"tail_acceptance": 0.2})
        == {}
    )


def test_the_worst_independent_run_is_spoken_of():
    assert "4.0 nats" in say(reports=[FITTED, FITTED | {"surrogate_loo_sd": 4.0}])["poor-surrogate"]
    runs = [ESTIMATOR | {"surrogate_misfit_sd": misfit} for misfit in (0.4, 2.3)]
    assert "2.3 nats" in say("score-hmc", reports=runs)["poor-surrogate"]
    assert say("score-hmc", reports=runs[:1]) == {}


# Noisy targets


NOISY = FITTED | {"noisy": True, "noise_sd": 1.0}


def about_noise(facts=NOISY, sampler="kernel-hmc", draws=400, **found):
    return say(
        sampler,
        draws,
        draws,
        facts,
        **({"acceptance": 0.4, "tail_acceptance": 0.1, "stay": 9.0} | found),
    )


def test_a_usual_noise_is_not_mentioned():
    assert about_noise() == {}
    assert about_noise(longest_stay=80) == {}


def test_loud_noise_and_how_many_simulations_cure_it():
    """(e^4 - 1) / (e - 1) = 31.2 times as many, as the variance of the average of log-normal
    estimates falls with n.
    """
    said = about_noise(NOISY | {"noise_sd": 2.0, "surrogate_loo_sd": 2.01})
    assert list(said) == ["loud-noise"]
    assert (
        "sd of about 2.0 nats" in said["loud-noise"]
        and "about 32 times as many simulations" in said["loud-noise"]
    )


def test_noise_is_not_held_against_the_surrogate_nor_the_proposals():
    loud = NOISY | {"noise_sd": 2.5, "surrogate_loo_sd": 2.6}
    # of what the noise allows, .077, it is most
    assert list(about_noise(loud, acceptance=0.05)) == ["loud-noise"]
    assert "low-acceptance" in about_noise(loud, acceptance=0.005)
    assert (
        "misses the log-density by 1.2 nats"
        in about_noise(NOISY | {"surrogate_loo_sd": 1.6})["poor-surrogate"]
    )


def test_a_mode_without_draws_is_named_with_its_place_and_its_mass():
    left = FITTED | {"modes_left": [[1.0, 2.0, -3.0]]}
    (sentence,) = say(facts=left | {"mass_left": 0.3}).values()
    assert (
        "is -3.0 near (1, 2)" in sentence
        and "another mode with 30% of the mass by the surrogate;" in sentence
    )
    assert "mass" not in say(facts=left | {"mass_left": 0.0})["unvisited-mode"]


@pytest.mark.parametrize(("acceptance", "said"), [(0.3, ["wall", "low-acceptance"]), (0.5, [])])
def test_a_wall_that_costs_acceptance_is_named_with_the_supports_that_remove_it(acceptance, said):
    facts = FITTED | {"surrogate_wall": "x[0] > 0.01", "surrogate_wall_share": 0.31}
    found = say(facts=facts, acceptance=acceptance)
    assert list(found) == said
    if said:
        assert "zero at 31% of the evaluations" in found["wall"] and "x[0] > 0.01" in found["wall"]
        assert "kmc.Positive" in found["wall"]
