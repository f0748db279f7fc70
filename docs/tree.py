"""The tree of architecture.md, from the package itself; ``conf.py`` puts it into the page."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "kmc"
PLACE = re.compile(r"^% .*tree\.py.*$", re.MULTILINE)


def filled(page: str) -> str:
    """Return the page with the tree in place of the comment that names its source."""
    text = f"```text\n{tree()}\n```"
    return PLACE.sub(lambda _: text, page, count=1)


def tree() -> str:
    """Return the folders and files directly below kmc, those that import others first, and the
    files in each folder.
    """
    below = [
        path
        for path in sorted(PACKAGE.iterdir())
        if path.suffix == ".py" or (path / "__init__.py").exists()
    ]
    lines = ["kmc/"]
    for path in _in_layers([path for path in below if path.stem != "__init__"]):
        lines += _lines(path, 1)
    return "\n".join(lines)


def _lines(path: Path, depth: int) -> list[str]:
    """Return a line for a file; for a folder, one for it and those of what is in it."""
    folder = path.is_dir()
    head = "  " * depth + path.name + ("/" if folder else "")
    lines = [f"{head:38}{_first_sentence(path / '__init__.py' if folder else path)}".rstrip()]
    inside = sorted(path.iterdir()) if folder else []
    for one in sorted(inside, key=lambda one: not one.is_dir()):
        if (one / "__init__.py").exists() or (one.suffix == ".py" and one.stem != "__init__"):
            lines += _lines(one, depth + 1)
    return lines


def _first_sentence(path: Path) -> str:
    """Return the first line of a module's docstring, without the period."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].rstrip(".")


def _in_layers(paths: list[Path]) -> list[Path]:
    """Return the paths, first those whose files have the longest way down along imports."""
    edges = {
        path: _imported(path)
        for path in PACKAGE.rglob("*.py")
        if path.parent != PACKAGE or path.stem[0] != "_"
    }

    @cache
    def way(path: Path) -> int:
        return max((way(other) + 1 for other in edges[path] if other in edges), default=0)

    def longest(path: Path) -> int:
        return max(way(file) for file in edges if file == path or path in file.parents)

    return sorted(
        (path for path in paths if path.stem[0] != "_"),
        key=lambda path: (-longest(path), path.stem),
    )


def _imported(path: Path) -> set[Path]:
    """Return the files of kmc that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "kmc":
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {
        (PACKAGE.parent / Path(*name.split("."))).with_suffix(".py") for name in names if name
    } - {path}


if __name__ == "__main__":
    print(tree())
