"""The table and the sections of warnings.md, from the table of the package; ``conf.py`` puts them
into the page.
"""

from __future__ import annotations

import re

from kmc.run.run_warnings import WARNINGS

PLACE = re.compile(r"^% .*run_warnings\.py.*$", re.MULTILINE)


def filled(page: str) -> str:
    """Return the page with the table and the sections in place of the comment that names their
    source.
    """
    rows = [
        f"| `{each.code}` | {each.meaning} | [help](#warning-{each.code}) |" for each in WARNINGS
    ]
    sections = [f"### Warning: {each.code}\n\n{each.help}" for each in WARNINGS]
    text = "\n\n".join(
        ["\n".join(["| code | meaning | |", "| --- | --- | --- |", *rows]), *sections]
    )
    return PLACE.sub(lambda _: text, page, count=1)
