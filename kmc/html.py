"""What a notebook shows of an object with options: its name, and a table of them with the changed ones in bold."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from html import escape
from typing import Any

_LONGEST = 200  # characters of a value


def table_of_options(title: str, values: Mapping[str, Any], changed: Mapping[str, Any], note: str = "") -> str:
    """A line that unfolds to a table of options.

    Parameters
    ----------
    title : str
        Name of the class.
    values : mapping
        All options by name.
    changed : mapping
        Those that differ from their defaults.
    note : str
        Shown behind the title.

    Examples
    --------
    >>> from kmc.html import table_of_options
    >>> html = table_of_options("Walk", {"scale": 0.5, "rate": 1}, {"scale": 0.5}, "fitted")
    >>> "<b>Walk</b>(scale=0.5), fitted" in html, "<td><b>0.5</b></td>" in html, "<td>1</td>" in html
    (True, True, True)
    """
    head = ", ".join(f"{name}={_shown(value)}" for name, value in changed.items())
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{_bold(_shown(value), name in changed)}</td></tr>'
        for name, value in values.items()
    )
    title = f"<b>{escape(title)}</b>({head}){f', {escape(note)}' if note else ''}"
    return f"<details><summary><code>{title}</code></summary><table>{rows}</table></details>"


def fields_as_html(options: Any) -> str:
    """The table of a dataclass; for use as its ``_repr_html_``."""
    fields = [field for field in dataclasses.fields(options) if field.repr]
    values = {field.name: getattr(options, field.name) for field in fields}
    changed = {field.name: values[field.name] for field in fields if not _same(values[field.name], _default(field))}
    return table_of_options(type(options).__name__, values, changed)


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def _bold(text: str, bold: bool) -> str:
    return f"<b>{text}</b>" if bold else text


def _shown(value: Any) -> str:
    text = repr(value)
    return escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")
