"""Pages of results have what their commands print."""

import re
from pathlib import Path

import pytest
import record
from pages import HERE


def test_a_page_has_the_output_and_says_when_it_was_measured(tmp_path, monkeypatch):
    (tmp_path / "script.py").write_text("import sys\nprint('title\\n| a |\\n| --- |\\n| 1 |\\n', sys.argv[1:])\n")
    page = record.Page("How many?", (str(tmp_path / "script.py"), "--seeds", "2"))
    kept = page._replace(rows=("sampling.csv",))
    monkeypatch.setattr(record, "PAGES", {"new": page, "kept": kept})
    monkeypatch.setattr(record, "version", lambda: "abc1234")
    record.record("new", False, tmp_path)
    text = (tmp_path / "new.md").read_text()
    assert text.startswith("# How many?\n\n    python benchmarks/record.py new\n\nMeasured with kmc as of abc1234 in ")
    assert text.endswith("title\n\n| a |\n| --- |\n| 1 |\n ['--seeds', '2']\n")
    record.record("kept", True, tmp_path)
    text = (tmp_path / "kept.md").read_text()
    assert "\n- Rows: [sampling.csv](sampling.csv), last changed " in text and "['--seeds', '2', '--report']" in text
    with pytest.raises(SystemExit, match="new keeps no rows"):
        record.record("new", True, tmp_path)


@pytest.mark.parametrize("name", record.PAGES)
def test_pages_have_scripts_that_can_report_the_rows_and_pictures_that_there_are(name):
    page = record.PAGES[name]
    source = (HERE / page.command[0]).read_text()
    assert not page.rows or '"--report"' in source
    files = [HERE / "results" / f"{name}.md", *(HERE / "results" / row for row in page.rows)]
    files += [HERE / "pictures" / one for one in page.pictures]
    assert all(path.exists() for path in files)


def test_the_overview_links_to_what_there_is_and_is_short():
    text = (HERE / "README.md").read_text()
    targets = re.findall(r"\]\(([^)#]+)\)", text)
    assert all((HERE / target).exists() for target in targets)
    pages = {path.name for path in (HERE / "results").glob("*.md")}
    assert pages == {
        Path(target).name for target in targets if target.startswith("results/") and target.endswith(".md")
    }
    assert len(text.split()) <= 2000
