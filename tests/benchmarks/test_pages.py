"""Tables are written between lines of a page, and nowhere else."""

import pytest
from pages import write_between

PAGE = "Between markers such as `<!-- t: begin -->` are\ntables.\n<!-- t: begin -->\nold\n<!-- t: end -->\nmore\n"


def test_only_the_lines_between_the_markers_change(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    write_between(page, "t", "| new |")
    assert page.read_text() == PAGE.replace("old", "| new |")
    write_between(page, "t", "")
    write_between(page, "t", "old")
    assert page.read_text() == PAGE


@pytest.mark.parametrize("text", ["", "<!-- t: begin -->\nno end\n", "a `<!-- t: begin -->`\n<!-- t: end -->\n"])
def test_a_page_without_them_is_not_touched(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(SystemExit, match="has no lines"):
        write_between(page, "t", "| new |")
    assert page.read_text() == text
