"""Tables that commands write into pages, between markers such as ``<!-- name: begin -->``."""

from __future__ import annotations

import sys
from pathlib import Path


def write_between(page: Path, name: str, text: str) -> None:
    """Write the text between the page's markers of that name, each a line of its own."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, first, rest = f"\n{page.read_text()}".partition(f"\n{begin}\n")
    _, last, after = f"\n{rest}".partition(f"\n{end}")
    if not (first and last):
        sys.exit(f"{page} has no lines {begin!r} and {end!r} to write between")
    page.write_text(f"{before}{first}{text}{last}{after}".removeprefix("\n"))
