"""docs/paper.md has the form of the Journal of Open Source Software, and its numbers are those of other pages."""

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[1]
_, HEAD, BODY = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8").split("---\n", 2)
BIB = (ROOT / "docs" / "paper.bib").read_text(encoding="utf-8")
TABLE = re.compile(r"<!-- sampling-short: begin -->\n(.*?)<!-- sampling-short: end -->", re.DOTALL)
PROSE = TABLE.sub("", BODY)
SECTIONS = [
    "Summary",
    "Statement of need",
    "State of the field",
    "Software design",
    "Research impact statement",
    "AI usage disclosure",
    "Acknowledgements",
    "References",
]


def flat(text):
    return re.sub(r"\s+", " ", text)


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_metadata_and_sections():
    head = yaml.safe_load(HEAD)
    assert set(head) == {"title", "tags", "authors", "affiliations", "date", "bibliography"}
    names = [author["name"] for author in head["authors"]]
    assert names == [author["name"] for author in yaml.safe_load(page("CITATION.cff"))["authors"]]
    assert {author["affiliation"] for author in head["authors"]} <= {one["index"] for one in head["affiliations"]}
    assert re.findall(r"^# (.+)$", BODY, re.MULTILINE) == SECTIONS
    assert 750 <= len(PROSE.split()) <= 1000  # two pages, with the table


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
