"""Tables that commands write: between markers such as ``<!-- name: begin -->``, or as a page of
``results``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def write_between(page: Path, name: str, text: str) -> None:
    """Write the text between the page's markers of that name, each a line of its own."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, first, rest = f"\n{page.read_text()}".partition(f"\n{begin}\n")
    _, last, after = f"\n{rest}".partition(f"\n{end}")
    if not (first and last):
        sys.exit(f"{page} has no lines {begin!r} and {end!r} to write between")
    page.write_text(f"{before}{first}{text}{last}{after}".removeprefix("\n"))


def head(title: str, command: str, rows: tuple[str, ...] = (), printed: str = "") -> str:
    """Return the first lines of a page: its title, its command, and when its numbers were measured.

    That is said of each file of rows in ``results``, or of what was `printed`.
    """
    lines = [f"# {title}", "", f"    {command}", ""]
    lines += [
        f"- Rows: [{name}]({name}), last changed {_when(HERE / 'results' / name)}." for name in rows
    ]
    return "\n".join([*lines, *([f"Measured {printed}."] if printed else []), "", ""])


def _when(path: Path) -> str:
    """Return when a file was changed last: the commit, or that it is not committed yet."""
    if _git("status", "--porcelain", "--", str(path)):
        return f"with kmc as of {version()}"
    return f"by commit {_git('log', '-1', '--format=%h (%cs)', '--', str(path)) or 'unknown'}"


def version() -> str:
    """Return the commit that changed the package last, and its date."""
    return _git("log", "-1", "--format=%h (%cs)", "--", str(HERE.parent / "kmc")) or "unknown"


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):  # no git, or an archive of the sources
        return ""
    return done.stdout.strip()
