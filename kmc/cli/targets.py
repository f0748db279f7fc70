"""The log-density or model that a command line names."""

from __future__ import annotations

import argparse
import sys
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple


class Name(NamedTuple):
    """Of an object in a module or in a file of Python."""

    where: str  # package.module or path/to/file.py
    what: str  # a name in it, dotted for an attribute


def as_name(text: str) -> Name:
    """``module:name`` or ``file.py:name``."""
    where, colon, what = text.rpartition(":")
    if not (colon and where and what):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form module:name or file.py:name")
    return Name(where, what)


def look_here() -> None:
    """Have modules looked for in the current folder, too."""
    _look_in(Path.cwd())


def load(name: Name) -> Any:
    """Import the object. Modules are looked for here as well, and beside a file those that it imports.

    A file is imported as a module, by its name: that is how the processes of an executor find its functions.

    Raises
    ------
    FileNotFoundError, ImportError, AttributeError
        With what was looked for and where.
    """
    module = _import_file(Path(name.where)) if name.where.endswith(".py") else _import(name.where, Path.cwd())
    try:
        return reduce(getattr, name.what.split("."), module)
    except AttributeError as error:
        raise AttributeError(f"{name.where} has no {name.what!r}") from error


def _import_file(path: Path):
    if not path.is_file():
        raise FileNotFoundError(f"{str(path)!r}: there is no such file")
    module = _import(path.stem, path.resolve().parent)
    found = getattr(module, "__file__", None)
    if found is None or not path.samefile(found):
        raise ImportError(f"{str(path)!r} has the name of another module ({found or 'built in'}): rename it")
    return module


def _import(module: str, directory: Path):
    _look_in(directory)
    return import_module(module)


def _look_in(directory: Path):
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
