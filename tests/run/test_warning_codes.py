"""Every warning has a code, every code is documented, and each can be produced."""

import ast
import json
import re
from pathlib import Path

import pytest

import kmc
from kmc.run.evaluation_summary import NONE, Rejections
from kmc.run.run_statistics import AtBothEnds
from kmc.run.run_warnings import FinishedRun, run_warnings
from kmc.run.warning_codes import CODES
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
    "wall": {"acceptance": 0.3, "facts": CALM | {"surrogate_wall": "x[0] > 0", "surrogate_wall_share": 0.3}},
    "curved-ridge": {"tail_acceptance": 0.3},
    "funnel-neck": {"tail_acceptance": 0.26, "facts": CALM | {"surrogate_driver": 0}},
    "poor-tails": {"tail_acceptance": 0.08, "facts": CALM},
    "unvisited-mode": {"facts": FITTED | {"modes_left": [[1.0, 2.0, -3.0]]}},
}


def codes(
    made=20,
    facts=FITTED,
    cut="",
    rejected=NONE,
    density_range=None,
    ends=(),
    contradiction="",
    against_prior=(),
    **found,
):
    return list(
        run_warnings(
            FinishedRun(
                sampler_of(facts),
                WELL | found,
                [facts],
                made,
                draws=20,
                cut=cut,
                rejected=rejected,
                density_range=density_range,
                ends=ends,
                contradiction=contradiction,
                against_prior=against_prior,
            )
        )
    )


@pytest.mark.parametrize("code", CODES)
def test_each_code_can_be_produced(code):
    assert code in codes(**CASES[code])


def test_each_warning_has_a_code_of_the_table():
    source = (Path(kmc.__file__).parent / "run" / "run_warnings.py").read_text(encoding="utf-8")
    made = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict):
            made |= {key.value for key in node.keys}
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            made.add(node.slice.value)
    assert made == set(CODES)


def test_the_documentation_has_the_table():
    text = (ROOT / "docs" / "warnings.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `([\w-]+)` \| (.+?) \|", text, re.M)) == CODES


def test_a_result_has_the_codes_beside_the_sentences_and_a_warning_ends_in_its_own(tmp_path):
    options = {"dim": 2, "sampler": "random-walk", "draws": 20, "warmup": 5, "chains": 2, "seed": 1}
    with pytest.warns(kmc.KmcWarning) as shown:
        idata = kmc.sample(lambda x: -0.5 * float(x @ x), store=tmp_path / "run.zarr", progress=False, **options)
    sentences, found = (json.loads(idata.attrs[name]) for name in ("warnings", "warning_codes"))
    assert "few-tail-draws" in found and len(sentences) == len(found)
    expected = [f"{sentence} [{code}]" for code, sentence in zip(found, sentences, strict=True)]
    assert [str(warning.message) for warning in shown] == expected
    assert "effective draws" in sentences[found.index("few-tail-draws")]
    assert kmc.load(tmp_path / "run.zarr").attrs["warning_codes"] == idata.attrs["warning_codes"]
