"""Old names after a renaming: they work for one release, with a DeprecationWarning."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kmc.errors import warn

_Function = TypeVar("_Function", bound=Callable[..., Any])


def renamed_attributes(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's ``__getattr__`` that finds renamed classes and functions under their old names.

    Parameters
    ----------
    module : str
        Its ``__name__``.
    names : mapping of str to str
        Old names, and the new names in the same module.

    Examples
    --------
    >>> import warnings, kmc.mcmc
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     kmc.mcmc.Sweep is kmc.mcmc.Step
    True
    >>> print(caught[0].message)
    kmc.mcmc.Sweep is now kmc.mcmc.Step: the old name will be removed in the next release
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_renamed(f"{module}.{name}", f"{module}.{names[name]}")
        return getattr(sys.modules[module], names[name])

    return get


def renamed_arguments(**names: str) -> Callable[[_Function], _Function]:
    """Decorate a function so that it also takes keyword arguments under their old names.

    Examples
    --------
    >>> from kmc.deprecation import renamed_arguments
    >>> @renamed_arguments(size="count")
    ... def zeros(count=0):
    ...     return [0] * count
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", DeprecationWarning)
    ...     zeros(size=2)
    [0, 0]
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if not names.keys().isdisjoint(kwargs):
                kwargs = _with_new_names(kwargs, names, function.__qualname__.removesuffix(".__init__"))
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def old_argument(unknown: dict[str, Any], old: str, new: str, value: Any) -> Any:
    """The value of an argument that may have been given under its old name, among a function's unknown ones."""
    if old not in unknown:
        return value
    warn_renamed(f"the argument {old}", new)
    return unknown.pop(old)


def _with_new_names(kwargs, names, owner):
    given = dict(kwargs)
    for old, new in names.items():
        if old in given:
            if new in given:
                raise TypeError(
                    f"{owner}: {old}={given[old]!r} and {new}={given[new]!r} are one argument: give only {new}"
                )
            warn_renamed(f"the argument {old} of {owner}", new)
            given[new] = given.pop(old)
    return given


def warn_renamed(old: str, new: str) -> None:
    """Issue a DeprecationWarning at the frame outside of kmc in which the old name was used."""
    warn(f"{old} is now {new}: the old name will be removed in the next release", DeprecationWarning)
