"""The site in docs/: every public name is in its reference, links lead somewhere, and code is
executed by the build.

These tests need no Sphinx. `python docs/build.py` builds the site, and fails on any warning.
"""

import ast
import inspect
import pydoc
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest

import kmc
from kmc.run.run_warnings import CODES

DOCS = Path(__file__).resolve().parents[1] / "docs"
EXAMPLES = DOCS.parent / "examples"
# pages that the build makes
GALLERY = {"gallery/index", *(f"gallery/{path.stem}" for path in EXAMPLES.glob("*.py"))}
PAGES = {
    str(path.relative_to(DOCS)): path.read_text(encoding="utf-8")
    for path in sorted(DOCS.rglob("*.md"))
}
PAGES = {
    name: text
    for name, text in PAGES.items()
    if not name.startswith("_build") and name != "paper.md"
}
PAGES["warnings.md"] = runpy.run_path(str(DOCS / "warning_sections.py"))["filled"](
    PAGES["warnings.md"]
)
PUBLIC = ["kmc", *(f"kmc.{name}" for name in kmc.__all__ if inspect.ismodule(getattr(kmc, name)))]
DIRECTIVE = re.compile(r"^\.\. auto(?:class|function|exception|data):: ([\w.]+)", re.MULTILINE)
OPTIONS = re.compile(r"\A(?:---\n(.*?)\n---\n)?", re.DOTALL)
FENCE = re.compile(r"^(`{3,}|:{3,})(\S*)[^\n]*\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


value = pydoc.locate  # imports what has to be imported


def documented():
    return [
        name
        for page, text in PAGES.items()
        if page.startswith("api/")
        for name in DIRECTIVE.findall(text)
    ]


def test_every_public_name_is_in_the_reference_once():
    public = {f"{module}.{name}" for module in PUBLIC for name in value(module).__all__}
    expected = {name for name in public - {"kmc.__version__"} if not inspect.ismodule(value(name))}
    found = Counter(documented())
    assert len(expected) > 100 and expected - found.keys() == set()
    assert {name for name, times in found.items() if times > 1} == set()


def test_no_object_is_in_the_reference_under_two_names():
    assert [
        times for times in Counter(id(value(name)) for name in documented()).values() if times > 1
    ] == []


@pytest.mark.parametrize("page", PAGES)
def test_each_page_has_one_title_and_is_in_a_table_of_contents(page):
    prose = FENCE.sub("", PAGES[page])
    assert len(re.findall(r"^# ", prose, re.MULTILINE)) == 1
    folder = Path(page).parent
    listed = {
        str(Path(home).parent / line)
        for home, text in PAGES.items()
        for _, kind, body in FENCE.findall(text)
        if kind == "{toctree}"
        for line in body.splitlines()
    }
    assert page == "index.md" or str(folder / Path(page).stem) in listed


def anchors(text):
    """The names of a page's headings, as GitHub and myst make them, and its own labels."""
    heads = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    plain = (
        re.sub(r"[^\w\- ]", "", head.replace("`", "").lower()).replace(" ", "-") for head in heads
    )
    return {*plain, *re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES)
def test_no_link_is_dead(page):
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", FENCE.sub("", PAGES[page])):
        path, _, anchor = target.partition("#")
        file = (DOCS / page).parent / path if path else DOCS / page
        assert file.exists() and file.resolve().is_relative_to(DOCS), target
        if anchor:
            assert anchor in anchors(PAGES[str(file.resolve().relative_to(DOCS))]), target
    for target in re.findall(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`", PAGES[page]):
        assert target in GALLERY or ((DOCS / page).parent / f"{target}.md").exists(), target


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith("api/")])
def test_code_is_executed_by_the_build(page):
    kinds = [(kind, body) for _, kind, body in FENCE.findall(PAGES[page])]
    cells = [body for kind, body in kinds if kind == "{code-cell}"]
    for body in cells:
        options, code = OPTIONS.match(body)[1] or "", OPTIONS.sub("", body)
        ast.parse(code)
        assert not code.rstrip().endswith(";") or "alt: " in options, (
            "a picture without a text that says what it shows"
        )
    assert "python" not in dict(kinds), "code that no build executes: make it a {code-cell}"
    assert bool(cells) == PAGES[page].startswith("---\nfile_format: mystnb")


@pytest.mark.parametrize("page", PAGES)
def test_every_name_of_the_package_on_a_page_exists(page):
    # plugins need their packages
    names = re.findall(r"(?<![\w/.-])kmc(?!\.plugins)(?:\.[A-Za-z]\w*)+", PAGES[page])
    assert [name for name in names if value(name) is None] == []


def test_extensions_on_the_page_are_short():
    sections = re.split(r"^## ", PAGES["extending.md"], flags=re.MULTILINE)[1:]
    titles = [section.splitlines()[0] for section in sections]
    assert (
        " ".join(title.split()[-1] for title in titles)
        == "kernel basis estimator move type executor sampler warning"
    )
    for section in sections:
        code = "".join(
            OPTIONS.sub("", body)
            for _, kind, body in FENCE.findall(section)
            if kind == "{code-cell}"
        )
        assert 0 < len([line for line in code.splitlines() if line.strip()]) < 40


def test_each_example_has_a_title_and_a_test():
    tests = "".join(
        path.read_text(encoding="utf-8") for path in sorted((DOCS.parent / "tests").rglob("*.py"))
    )
    for path in EXAMPLES.glob("*.py"):
        title, line, *_ = ast.get_docstring(
            ast.parse(path.read_text(encoding="utf-8"))
        ).splitlines()
        assert line == "=" * len(title), path.name
        assert (
            re.search(rf"\b{path.stem}\b", tests) or path.stem.removesuffix("_problem") in tests
        ), path.name


def test_each_warning_has_a_section():
    codes = re.findall(r"^### Warning: ([\w-]+)$", PAGES["warnings.md"], re.MULTILINE)
    assert len(codes) == len(set(codes)) and set(codes) == set(CODES)


def test_dead_links_of_a_built_site_are_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    from links import dead

    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "a.png").touch()
    shown = (
        '<img src="../_static/a.png" alt="a">'
        '<img src="../_static/b.png" alt="b"><img src="../_static/a.png">'
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "one.html").write_text(
        f'<h1 id="top">x</h1><a href="#top">x</a><a href="#no">x</a>{shown}'
    )
    links = [
        "sub/one.html#top",
        "sub/one.html#no",
        "sub/two.html",
        "https://example.org/x",
        "mailto:a@b.c",
    ]
    (tmp_path / "index.html").write_text("".join(f'<a href="{link}">x</a>' for link in links))
    assert sorted(dead(tmp_path)) == [
        "index.html: sub/one.html#no",
        "index.html: sub/two.html",
        "sub/one.html: #no",
        "sub/one.html: ../_static/b.png",
        "sub/one.html: missing-alt-of/../_static/a.png",
    ]
