"""How a summary is printed: within a terminal's width, rounded, with the warnings of the run."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from html import escape
from typing import Any, ClassVar

import pandas as pd

WIDTH = 80
_LEAST = ("mcse_sd", "mcse_mean")
"""Columns that are left out first."""


class Table(pd.DataFrame):
    """A summary; ``attrs["warnings"]`` is a list of sentences. Parts of it are plain data frames."""

    _metadata: ClassVar[list[str]] = []

    @property
    def _constructor(self) -> Callable[..., Any]:
        return pd.DataFrame

    def __repr__(self) -> str:
        return "\n".join([text_of(self), *_wrapped(self.attrs.get("warnings", ()))])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.attrs.get("warnings", ()))
        return self.to_html(**_style()) + (f"<p>Warnings:</p><ul>{items}</ul>" if items else "")


def text_of(table: Any) -> str:
    """Return the rows of a summary, of at most 80 characters if names allow; the rest continues below."""
    for n in range(len(_LEAST) + 1):
        text: str = table.drop(columns=list(_LEAST[:n]), errors="ignore").to_string(**_style())
        if max(map(len, text.splitlines())) <= WIDTH:
            return text
    return table.drop(columns=list(_LEAST), errors="ignore").to_string(line_width=WIDTH, **_style())


def digits(value: float) -> str:
    """Format a number for a table.

    Examples
    --------
    >>> digits(1234.5), digits(0.012345)
    ('1234', '0.0123')
    """
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _style() -> dict[str, Any]:
    return {
        "float_format": digits,
        "formatters": {"r_hat": "{:.2f}".format},
        "max_rows": pd.get_option("display.max_rows"),
    }


def _wrapped(sentences: Any) -> list[str]:
    return [line for each in sentences for line in textwrap.wrap(f"Warning: {each}", WIDTH, subsequent_indent="  ")]
