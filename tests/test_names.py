"""Names of the distribution and the command: defined in `kmc._names`, and the same wherever they
are written out.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from kmc._names import COMMAND, DISTRIBUTION
from kmc._version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TEXTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CITATION.cff",
    *sorted((ROOT / "examples").glob("*.py")),
]
SUBCOMMANDS = "demo|sample|resume|report|status|summary"


def test_the_project_has_these_names():
    assert PROJECT["name"] == DISTRIBUTION
    assert PROJECT["scripts"] == {COMMAND: "kmc.cli:main"}
    extras = PROJECT["optional-dependencies"]
    own = [
        line
        for lines in extras.values()
        for line in lines
        if line.startswith(("kmc", DISTRIBUTION))
    ]
    assert all(line.startswith(f"{DISTRIBUTION}[") for line in own)


def test_no_hint_installs_or_runs_another_project():
    for path in [*TEXTS, *sorted((ROOT / "kmc").rglob("*.py"))]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"pip install [^\n]*\bkmc\b|\"kmc\[", text), path
        assert not re.search(
            rf"(``?|^|\"| )kmc ({SUBCOMMANDS})\b(?! continuous)", text, re.MULTILINE
        ), path
        for hint in re.findall(r"pip install \"(\w+)\[(\w+)", text):
            assert hint[0] == DISTRIBUTION and hint[1] in PROJECT["optional-dependencies"], path


def test_the_citation_names_the_distribution():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert DISTRIBUTION in citation and f"version: {__version__}\n" in citation


def test_python_m_kmc_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "kmc", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{DISTRIBUTION} {__version__}\n"
