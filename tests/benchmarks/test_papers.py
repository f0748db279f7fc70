"""docs/papers.md: every figure and table of the four papers, with a command and a verdict."""

import re
from collections import Counter
from pathlib import Path

import papers
import pytest
from paper_entries import VERDICTS, Claim, Entry

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = [make() for paper in papers.PAPERS.values() for make in paper.ENTRIES]
EXPECTED = {
    "001": {*(f"Figure {k}" for k in range(1, 11)), "Table 1"},
    "002": {"Figure 1", "Figure 2", "Table 1", "Table 2"},
    "003": {"Figure 1"},
    "004": {"Figure 1", "Figure 2", "Figure 3"},
}


def test_the_page_is_what_the_command_writes():
    assert papers.PAGE.read_text(encoding="utf-8") == papers.page()


def test_every_figure_and_table_is_listed_once():
    for paper, expected in EXPECTED.items():
        items = [
            re.match(r"\w+ \d+( \(\w\))?", entry.item)[0]
            for entry in ENTRIES
            if entry.paper == paper
        ]
        assert max(Counter(items).values()) == 1
        assert {
            item.partition(" (")[0] for item in items if not item.startswith("Theorem")
        } == expected


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.paper} {entry.item}")
def test_each_entry_has_a_command_that_exists_and_a_verdict_with_a_reason(entry):
    python, script, *options = entry.command.split()
    text = (ROOT / script).read_text(encoding="utf-8")
    assert python == "python" and script.startswith("benchmarks/")
    assert all(f'"{option}"' in text for option in options if option.startswith("--"))
    for name in options[options.index("--only") + 1].split(",") if "--only" in options else ():
        assert f'"{name}"' in text
    assert entry.verdict in VERDICTS
    assert bool(entry.reason) == (entry.verdict != "reproduced")


@pytest.mark.parametrize(
    ("holds", "limits", "verdict"),
    [
        ([True, True], "", "reproduced"),
        ([True, True], "fewer samples", "in part"),
        ([True, False], "", "in part"),
        ([False], "", "not reproduced"),
        ([], "no data", "not measured"),
    ],
)
def test_the_verdict_follows_from_the_statements(holds, limits, verdict):
    claims = [Claim("It is so.", "0.1", one) for one in holds]
    assert (
        Entry("001", "Figure 1", "python benchmarks/papers.py", claims, limits).verdict == verdict
    )
