"""Every warning can be produced, and problems of one cause are one message."""

import json
import re
from pathlib import Path

import pytest

import kmc
from kmc.run.budget import Spent
from kmc.run.evaluation_summary import Rejections
from kmc.run.problems import by_code, problems_of
from kmc.run.run_statistics import AtBothEnds, FinishedRun
from kmc.run.run_warnings import CODES, WARNINGS
from tests.run.test_run_warnings import FITTED, NOISY, TWICE_FAILED, WELL, sampler_of

ROOT = Path(__file__).parents[2]
CALM = FITTED | {"surrogate_trend_sd": 0.3}

CASES = {
    "interrupted": {"cut": "interrupted"},
    "no-draws": {"made": 0},
    "few-draws": {"made": 7},
    "failed-calls": {"rejected": Rejections(n_failed=1, n_evaluations=100)},
    "nonfinite-values": {"rejected": Rejections(n_nonfinite=50, n_evaluations=100)},
    "not-a-logarithm": {"density_range": (0.0, 0.4)},
    "low-acceptance": {"acceptance": 0.03},
    "constant-coordinate": {"rhat": float("inf")},
    "chains-disagree": {"rhat": 1.4},
    "runs-disagree": {"disagreement": -6.0},
    "burn-in": {"burn_in": 22},
    "drift": {"drift": -5.0},
    "few-tail-draws": {"tail_ess": 43.0},
    "few-effective-draws": {"bulk_ess": 34.0},
    "against-prior": {"against_prior": ["a"]},
    "both-ends": {"ends": [AtBothEnds("phase", 0.0, 6.0, True)]},
    "stuck-chain": {"stay": 12.0},
    "loud-noise": {"facts": NOISY | {"noise_sd": 2.0}},
    "unused-history": {"facts": FITTED | {"n_history": 0}},
    "no-surrogate": {"facts": {"surrogate": "LiteKEF"}},
    "failed-fits": {"facts": TWICE_FAILED},
    "poor-surrogate": {"facts": FITTED | {"surrogate_loo_sd": 2.3}},
    "surrogate-disagrees": {"contradiction": "its means differ by 7.0 standard errors"},
    "wall": {
        "acceptance": 0.3,
        "facts": CALM | {"surrogate_wall": "x[0] > 0", "surrogate_wall_share": 0.3},
    },
    "curved-ridge": {"tail_acceptance": 0.3},
    "funnel-neck": {"tail_acceptance": 0.26, "facts": CALM | {"surrogate_driver": 0}},
    "poor-tails": {"tail_acceptance": 0.08, "facts": CALM},
    "unvisited-mode": {"facts": FITTED | {"modes_left": [[1.0, 2.0, -3.0]]}},
}


def problems(made=20, facts=FITTED, table=WARNINGS, **options):
    found = {name: options.pop(name, value) for name, value in WELL.items()}
    return problems_of(
        FinishedRun(sampler_of(facts), found, [facts], made, draws=20, **options), table
    )


@pytest.mark.parametrize("code", CODES)
def test_each_code_can_be_produced(code):
    assert code in by_code(problems(**CASES[code]))


def test_causes_come_before_what_they_explain():
    codes = list(CODES)
    for i, warning in enumerate(WARNINGS):
        assert codes.index(warning.code) == i  # once
        assert all(codes.index(code) > i for code in warning.explains)
        assert set(warning.silences) <= set(codes)


def test_problems_of_one_cause_are_one_message():
    facts = FITTED | {"surrogate_loo_sd": 2.3}
    (problem,) = problems(facts=facts, acceptance=0.3, rhat=1.4, drift=-5.0, tail_ess=43.0)
    assert problem.message == (
        "The surrogate misses the log-density by 2.3 nats (sd of its predictions), so expect slow "
        "mixing in places: allow more evaluations, or reparametrize. Likely consequences: only 30% "
        "of the proposals were accepted, while a good surrogate has 80 % [low-acceptance]; the "
        "chains disagree (R-hat 1.40) and have not converged [chains-disagree]; the draws still "
        "change from one fifth of the run to the next (p = 1e-05) [drift]; the 5 % and 95 % "
        "quantiles rest on 43 effective draws in the worst coordinate [few-tail-draws]. "
        "[poor-surrogate]"
    )
    said = by_code([problem])
    assert list(said) == [
        "poor-surrogate",
        "low-acceptance",
        "chains-disagree",
        "drift",
        "few-tail-draws",
    ]
    assert said["poor-surrogate"].endswith("reparametrize.")
    assert said["chains-disagree"].endswith(
        "not converged: a likely consequence of poor-surrogate."
    )


def test_problems_of_two_causes_are_two_messages():
    found = problems(rejected=Rejections(n_failed=1, n_evaluations=100), rhat=1.4, tail_ess=43.0)
    assert [(each.code, list(each.consequences)) for each in found] == [
        ("failed-calls", []),
        ("chains-disagree", ["few-tail-draws"]),
    ]


def test_too_few_draws_are_the_cause_of_few_effective_ones_and_the_advice_is_for_both():
    for ess, draws in ((800.0, 1), (43.0, 161)):
        (problem,) = problems(made=19, tail_ess=ess, spent=Spent(2000, 100))
        assert (
            problem.code == "few-draws" and f"kmc.extend(idata, draws={draws}," in problem.sentence
        )
        assert list(problem.consequences) == ["few-tail-draws"] * (ess < 100)


@pytest.mark.parametrize("code", CODES)
def test_a_message_has_at_most_three_sentences(code):
    for problem in problems(
        **{"has_evaluations": True, "bulk_ess": 34.0, "rhat": 1.4, "drift": -5.0} | CASES[code]
    ):
        assert len(re.findall(r"\. [A-Zi]", problem.message)) < 3


def test_a_warning_is_added_as_the_documentation_says():
    section = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8").split("## A warning")[1]
    names = {}
    exec(re.search(r"```\{code-cell\}\n(.*?)```", section, re.DOTALL)[1], names)
    assert names["messages"] == [
        "Warm-up took 100% of the evaluations: raise max_evaluations, or lower warmup. Likely "
        "consequences: the run ended within warm-up and has no draws [no-draws]. [long-warmup]"
    ]


def test_a_result_has_the_codes_beside_the_sentences_and_a_warning_ends_in_its_own(tmp_path):
    options = {"dim": 2, "sampler": "random-walk", "draws": 20, "warmup": 5, "chains": 2, "seed": 1}
    with pytest.warns(kmc.KmcWarning) as shown:
        idata = kmc.sample(
            lambda x: -0.5 * float(x @ x), store=tmp_path / "run.zarr", progress=False, **options
        )
    sentences, found = (json.loads(idata.attrs[name]) for name in ("warnings", "warning_codes"))
    assert "few-tail-draws" in found and len(sentences) == len(found)
    for warning in shown:
        message, code = re.fullmatch(r"(.*) \[([\w-]+)\]", str(warning.message)).groups()
        assert message.startswith(sentences[found.index(code)])
    assert set(found) <= set(
        re.findall(r"\[([\w-]+)\]", "".join(str(warning.message) for warning in shown))
    )
    assert "effective draws" in sentences[found.index("few-tail-draws")]
    assert kmc.load(tmp_path / "run.zarr").attrs["warning_codes"] == idata.attrs["warning_codes"]
