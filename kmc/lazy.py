"""Modules whose names are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, homes: Mapping[str, str], modules: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's ``__getattr__`` and ``__dir__``.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping of str to str
        The module in which each public name is defined.
    modules : collection of str
        Public submodules.

    Examples
    --------
    >>> from kmc.lazy import lazy
    >>> get, names = lazy("kmc", {"Model": "kmc.targets.model"}, ("spectral",))
    >>> get("Model").__name__, "spectral" in names()
    ('Model', True)
    >>> get("Modle")
    Traceback (most recent call last):
        ...
    AttributeError: module 'kmc' has no attribute 'Modle'
    """

    def get(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes, *modules})

    return get, names
