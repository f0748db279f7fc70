"""A bar for passes over many samples."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from kmc.forms.stream import Block

PATIENCE = 5.0
"""Seconds before a bar is shown."""


def shown(parts: Iterator[Block], rows: int | None) -> Iterator[Block]:
    """Yield the blocks, and after five seconds show in a terminal or a notebook how many of the rows were read.

    ``rows`` is None if their number is not known. The bar goes at the end.
    """
    due, read, bar = time.monotonic() + PATIENCE, 0, None
    try:
        for part in parts:
            yield part
            read += len(part.x)
            if bar is None and time.monotonic() > due:
                due, bar = float("inf"), _bar(rows)
            if bar is not None:
                bar.update(0, completed=read)
    finally:
        if bar is not None:
            bar.stop()


def _bar(rows: int | None) -> Any:
    """Return a bar on standard error; None if it would not be seen, or if another one is there."""
    from rich.console import Console
    from rich.errors import LiveError
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        return None
    text = "{task.completed:,.0f} samples" if rows is None else "{task.completed:,.0f} of {task.total:,.0f} samples"
    bar = Progress(TextColumn(text), BarColumn(), TimeRemainingColumn(), console=console, transient=True)
    bar.add_task("", total=rows)
    try:
        bar.start()
    except LiveError:
        return None
    return bar
