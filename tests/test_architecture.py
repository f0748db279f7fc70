"""The names in docs/architecture.md and CONTRIBUTING.md exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in ("docs/architecture.md", "CONTRIBUTING.md")
}
NAMED = re.compile(r"`((?:kmc|tests)/[\w/]+\.py)`")
FILES = sorted({(name, path) for name, text in PAGES.items() for path in NAMED.findall(text)})


@pytest.mark.parametrize(("page", "path"), FILES)
def test_each_file_exists(page, path):
    assert (ROOT / path).is_file()


def test_each_function_beside_a_file_is_in_it():
    found = re.findall(r"`([\w.]+)`\s+\(`(kmc/[\w/]+\.py)`", PAGES["docs/architecture.md"])
    assert len(found) > 20
    for name, path in found:
        if name != "kmc.sample":
            last = name.split(".")[-1]
            assert re.search(rf"(def|class) {last}\b", (ROOT / path).read_text(encoding="utf-8")), (
                name,
                path,
            )
