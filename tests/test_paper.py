"""docs/paper.md: what it cites, and numbers that are those of other pages."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_, _, BODY = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8").split("---\n", 2)
BIB = (ROOT / "docs" / "paper.bib").read_text(encoding="utf-8")
TABLE = re.compile(r"<!-- sampling-short: begin -->\n(.*?)<!-- sampling-short: end -->", re.DOTALL)
PROSE = TABLE.sub("", BODY)


def flat(text):
    return re.sub(r"\s+", " ", text)


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_what_is_cited_is_in_the_bibliography_and_nothing_else():
    cited = re.findall(r"(?<=[\[ ])@(\w+)", PROSE)
    assert set(cited) == set(re.findall(r"^@\w+\{(\w+),$", BIB, re.MULTILINE))


def test_numbers_are_those_of_other_pages():
    (table,) = TABLE.findall(BODY)
    assert [table] == TABLE.findall(page("README.md"))
    (warned,) = re.findall(r"\d+ runs with .* had a warning", flat(PROSE))
    assert warned in flat(page("benchmarks/README.md"))
    assert "none of its runs is wrong" in flat(page("benchmarks/README.md"))
    numbers = set(re.findall(r"(?<![\w-])\d[\d,.]*\d", PROSE))
    assert numbers <= set(re.findall(r"\d[\d,.]*\d", page("README.md") + warned)), numbers
