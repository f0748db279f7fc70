"""Lazy imports: the public names of a package are imported when they are first used."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any


def attach(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a package's ``__getattr__``, ``__dir__`` and ``__all__`` from the imports in its stub.

    The stub lists each public name once, as ``from home import name as name``: type checkers read
    the same list.

    Parameters
    ----------
    package, file : str
        The package's ``__name__`` and ``__file__``.

    Examples
    --------
    >>> import kmc
    >>> from kmc.lazy import attach
    >>> get, names, public = attach("kmc", kmc.__file__)
    >>> get("Model").__name__, "spectral" in names(), "Model" in public
    ('Model', True, True)
    >>> get("Modle")
    Traceback (most recent call last):
        ...
    AttributeError: module 'kmc' has no attribute 'Modle': did you mean 'Model'?
    """
    homes: dict[str, str] = {}
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            homes.update((alias.name, node.module) for alias in node.names)

    def get(name: str) -> Any:
        if name not in homes:
            close = [] if name.startswith("_") else get_close_matches(name, homes, 1)
            hint = f": did you mean {close[0]!r}?" if close else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        if homes[name] == package:  # a public submodule
            return import_module(f"{package}.{name}")
        home = import_module(homes[name])
        if not hasattr(home, name):  # a module of that package, which nothing has imported yet
            import_module(f"{homes[name]}.{name}")
        value = getattr(home, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names, sorted(homes)
