"""Show a run's progress in a terminal, in a notebook or in a log, or show nothing.

A terminal gets a live panel, a notebook a live line, and a log a line every ten seconds. Everything
goes to standard error (in a notebook: to the cell), so that standard output stays clean for data.
Times come from the records, not from a clock.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol, Self, TypeVar

from rich.console import Console, Group
from rich.live import Live
from rich.progress import track
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kmc.run.progress import Progress

_Item = TypeVar("_Item")
_LIVE_SECONDS = 1 / 3  # drawing takes a millisecond
_LOG_SECONDS = 10.0
_STATES = {
    "start": "starting",
    "warmup": "warm-up",
    "sampling": "sampling",
    "done": "done",  # of a record
    "compiling": "compiling",
    "failed": "failed",
    "interrupted": "interrupted",  # of what is shown
}


class Display(Protocol):
    """A context manager that receives progress records."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def update(self, record: Progress) -> None:
        """Show the record, or keep it for later if another was shown a moment ago."""

    def compiling(self) -> None:
        """Show that numba compiles: no record comes before it has finished."""

    def close(self, state: str | None = None) -> None:
        """Show the last record and release the terminal; repeated calls are harmless.

        ``state`` is "failed" or "interrupted" if the run did not end normally.
        """


def make_display(progress: bool, console: Console | None = None) -> Display:
    """Make a display that suits the destination of standard error.

    Parameters
    ----------
    progress : bool
        False for a display that shows nothing.
    console : rich.console.Console, optional
        Where to write instead of standard error.
    """
    if not progress:
        return _Nothing()
    console = console or Console(stderr=True)
    if console.is_jupyter:
        return _Throttled(_Notebook(), _LIVE_SECONDS)
    if console.is_terminal and not console.is_dumb_terminal:
        return _Throttled(_Panel(console), _LIVE_SECONDS)
    return _Throttled(_Log(console), _LOG_SECONDS)


def steps(
    items: Iterable[_Item],
    what: str,
    progress: bool,
    console: Console | None = None,
    total: int | None = None,
) -> Iterable[_Item]:
    """Yield the items, and meanwhile show a bar in a terminal or a notebook, which goes at the end.

    ``total`` is their number if they have no length.
    """
    console = console or Console(stderr=True)
    if not (progress and (console.is_terminal or console.is_jupyter)):
        return items
    return track(items, what, total, console=console, transient=True, show_speed=False)


class _Nothing:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def update(self, record: Progress) -> None:
        pass

    def compiling(self) -> None:
        pass

    def close(self, state: str | None = None) -> None:
        pass


class _View(Protocol):
    def open(self) -> None: ...

    def show(self, record: Progress) -> None: ...

    def close(self) -> None: ...


class _Throttled:
    """Passes to a view the first record of each phase, one every `seconds`, and the last."""

    def __init__(self, view: _View, seconds: float):
        self._view = view
        self._seconds = seconds
        self._last: Progress | None = None
        self._shown: Progress | None = None
        self._due = self._compiling_due = 0.0
        self._closed = False

    def __enter__(self) -> Self:
        self._view.open()
        return self

    def __exit__(self, *exc: object) -> None:
        kind = exc[0]
        self.close(
            None if kind is None else "interrupted" if kind is KeyboardInterrupt else "failed"
        )

    def update(self, record: Progress) -> None:
        self._last = record
        if self._shown is None or record.phase != self._shown.phase or record.elapsed >= self._due:
            self._show(record)

    def compiling(self) -> None:
        if self._last is not None and self._last.elapsed >= self._compiling_due:
            self._compiling_due = self._last.elapsed + self._seconds
            self._view.show(replace(self._last, phase="compiling", remaining=None))

    def close(self, state: str | None = None) -> None:
        if self._closed:
            return
        self._closed = True
        if self._last is not None and state is not None:
            self._view.show(replace(self._last, phase=state, remaining=None))
        elif self._last is not None and self._last is not self._shown:
            self._show(self._last)
        self._view.close()

    def _show(self, record: Progress) -> None:
        self._shown = record
        self._due = record.elapsed + self._seconds
        self._view.show(record)


class _Panel:
    """Two lines, redrawn in place."""

    def __init__(self, console: Console):
        # Output of the user's code goes above the panel, unless standard output is redirected.
        shared = sys.stdout is not None and sys.stdout.isatty()
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=shared)

    def open(self) -> None:
        self._live.start()

    def show(self, record: Progress) -> None:
        self._live.update(_panel(record), refresh=True)

    def close(self) -> None:
        self._live.stop()


class _Notebook:
    """One line in the cell's output, which each record replaces."""

    def __init__(self) -> None:
        self._cell: Any = None

    def open(self) -> None:
        pass

    def show(self, record: Progress) -> None:
        from IPython.display import display

        if self._cell is None:
            self._cell = display(Line(record), display_id=True)
        else:
            self._cell.update(Line(record))

    def close(self) -> None:
        pass


class Line:
    """A record as a line of HTML for a notebook, or as plain text."""

    def __init__(self, record: Progress):
        self._record = record

    def __repr__(self) -> str:
        return _line(self._record)

    def _repr_html_(self) -> str:
        done = self._record.fraction
        value = "" if done is None else f' value="{done:.3f}"'
        return (
            f'<progress{value} style="width: 10em"></progress> <code>{_line(self._record)}</code>'
        )


class _Log:
    """One line for each record."""

    def __init__(self, console: Console):
        self._console = console

    def open(self) -> None:
        pass

    def show(self, record: Progress) -> None:
        self._console.print(f"kmc: {_line(record)}", soft_wrap=True, markup=False, highlight=False)

    def close(self) -> None:
        pass


def _panel(record: Progress) -> Group:
    done = record.fraction
    bar = ProgressBar(
        total=1.0,
        completed=done or 0.0,
        width=12,
        pulse=done is None,
        animation_time=record.elapsed,
    )
    head = Table.grid(padding=(0, 1))
    head.add_row(
        Text(f"{_STATES[record.phase]:<8}", style="bold"), bar, _draws(record), _clock(record)
    )
    return Group(head, Text(_quality(record), style="dim", no_wrap=True, overflow="ellipsis"))


def _line(record: Progress) -> str:
    return f"{_STATES[record.phase]}, {_draws(record)}, {_quality(record)}, {_clock(record)}"


def _draws(record: Progress) -> str:
    ess = "" if math.isnan(record.ess) else f", ESS {record.ess:,.0f}"
    return f"{record.draw:,}{_of(record.draws)} draws{ess}"


def _quality(record: Progress) -> str:
    if record.phase == "start" and record.planned_evaluations is not None:
        about = "about " if record.max_evaluations is None else ""
        return f"at most {about}{record.planned_evaluations:,} evaluations planned"
    of = _of(record.max_evaluations)
    if record.max_evaluations is None and record.planned_evaluations is not None:
        of = f"/~{record.planned_evaluations:,}"
    evaluations = f"{record.n_evaluations:,}{of} evaluations"
    acceptance = (
        "" if math.isnan(record.acceptance_rate) else f", acceptance {record.acceptance_rate:.2f}"
    )
    return (
        f"{evaluations}{acceptance}, divergences {record.n_divergences:,}, "
        f"refits {record.n_refits:,}"
    )


def _of(limit: int | None) -> str:
    return "" if limit is None else f"/{limit:,}"


def _clock(record: Progress) -> str:
    left = (
        ""
        if record.phase == "done" or record.remaining is None
        else f", {duration(record.remaining)} left"
    )
    return f"{duration(record.elapsed)}{left}"


def duration(seconds: float) -> str:
    """Return seconds as h:mm:ss."""
    return str(timedelta(seconds=round(seconds)))
