import io
import math
import sys
import types
from dataclasses import replace

import pytest
from rich.console import Console

from kmc.run.display import make_display, steps
from kmc.run.progress import Progress

pytestmark = pytest.mark.packages

RECORD = Progress(
    phase="sampling",
    draw=0,
    draws=1000,
    n_evaluations=2000,
    max_evaluations=6000,
    ess=math.nan,
    acceptance_rate=0.8123,
    n_divergences=3,
    n_refits=7,
    elapsed=10.0,
    remaining=None,
)


def log():
    return Console(file=io.StringIO(), width=40)


def terminal():
    return Console(
        file=io.StringIO(),
        width=80,
        force_terminal=True,
        force_jupyter=False,
        _environ={"TERM": "xterm"},
    )


def run(console, records):
    with make_display(True, console) as display:
        for record in records:
            display.update(record)
    return console.file.getvalue()


def test_a_log_gets_a_line_every_ten_seconds():
    lines = run(
        log(), [replace(RECORD, draw=i, elapsed=10 + i / 10) for i in range(251)]
    ).splitlines()
    shown = [line.split(",")[1] for line in lines]
    # the first, one every ten seconds and the last
    assert shown == [" 0/1", " 100/1", " 200/1", " 250/1"]


def test_a_line_says_it_all():
    later = replace(RECORD, draw=250, ess=1234.5, elapsed=20.0, remaining=60.0)
    first, last = run(log(), [RECORD, later]).splitlines()
    assert first == (
        "kmc: sampling, 0/1,000 draws, 2,000/6,000 evaluations, acceptance 0.81, divergences 3, "
        "refits 7, 0:00:10"
    )
    assert last.startswith("kmc: sampling, 250/1,000 draws, ESS 1,234, 2,000/6,000 evaluations")
    assert last.endswith("0:00:20, 0:01:00 left")


def test_the_first_line_says_how_many_evaluations_are_planned():
    start = replace(RECORD, phase="start", n_evaluations=0, planned_evaluations=6000)
    later = replace(RECORD, phase="warmup")
    first, second = run(log(), [start, later]).splitlines()
    assert "0/1,000 draws, at most 6,000 evaluations planned" in first and "2,000/6,000" in second
    about = {"max_evaluations": None, "planned_evaluations": 8064}
    first, second = run(log(), [replace(start, **about), replace(later, **about)]).splitlines()
    assert (
        "at most about 8,064 evaluations planned" in first and "2,000/~8,064 evaluations" in second
    )


def test_compilation_is_shown_at_once_without_an_estimate():
    console = log()
    with make_display(True, console) as display:
        display.compiling()  # before there is anything to show
        for i in range(200):
            display.update(replace(RECORD, elapsed=10 + i / 100, remaining=9.0))
            display.compiling()
        assert console.file.getvalue().count("compiling") == 1  # not a line for each function
        display.update(replace(RECORD, elapsed=40.0, remaining=9.0))
    first, compiling, after = console.file.getvalue().splitlines()
    assert first.startswith("kmc: sampling") and compiling.startswith(
        "kmc: compiling, 0/1,000 draws"
    )
    assert (
        "left" not in compiling
        and after.startswith("kmc: sampling")
        and after.endswith("0:00:09 left")
    )


@pytest.mark.parametrize(
    ("error", "said"), [(ZeroDivisionError, "failed"), (KeyboardInterrupt, "interrupted")]
)
def test_a_run_that_breaks_off_is_said_to(error, said, monkeypatch):
    cell, console, notebook = (
        Cell(monkeypatch),
        log(),
        Console(file=io.StringIO(), force_jupyter=True),
    )
    for where in console, notebook, terminal():
        with pytest.raises(error), make_display(True, where) as display:
            display.update(RECORD)
            display.update(replace(RECORD, draw=321, elapsed=10.01, remaining=9.0))
            raise error
    last = console.file.getvalue().splitlines()[-1]
    assert last.startswith(f"kmc: {said}, 321/1,000 draws") and "left" not in last
    assert repr(cell.updates[-1]).startswith(f"{said}, 321/1,000 draws")
    assert said in where.file.getvalue() and "321/1,000 draws" in where.file.getvalue()


@pytest.mark.parametrize(
    "options", [{"force_terminal": True, "force_jupyter": False}, {}], ids=["terminal", "log"]
)
def test_most_records_are_not_printed(options):
    """A terminal gets three updates a second, a log one every ten seconds."""

    class Counting(Console):
        prints = 0

        def print(self, *args, **kwargs):
            Counting.prints += 1

    console = Counting(file=io.StringIO(), _environ={"TERM": "xterm"}, **options)
    with make_display(True, console) as display:
        for i in range(10_001):
            display.update(replace(RECORD, elapsed=10 + i / 5_000))
        assert Counting.prints <= (2 * 3 + 1 if options else 1)


def test_a_long_run_fits_on_two_lines():
    out = run(
        terminal(),
        [
            Progress(
                "sampling",
                99_999,
                100_000,
                800_000,
                900_000,
                55_555.0,
                0.8,
                999,
                99,
                35_999.0,
                35_999.0,
            )
        ],
    )
    assert out[out.rindex("sampling") :].count("\n") == 2  # as it stands in the end
    assert "99,999/100,000 draws, ESS 55,555" in out and "9:59:59, 9:59:59 left" in out
    assert "refits 99" in out and "…" not in out


class Cell:
    """Stands for IPython: what was displayed, and with what it was replaced."""

    def __init__(self, monkeypatch):
        self.displayed, self.updates = [], []
        module = types.ModuleType("IPython.display")
        module.display = self.display
        monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
        monkeypatch.setitem(sys.modules, "IPython.display", module)

    def display(self, shown, *, display_id):
        assert display_id is True
        self.displayed.append(shown)
        return self

    def update(self, shown):
        self.updates.append(shown)


def test_a_notebook_gets_one_line_that_is_replaced(monkeypatch):
    cell = Cell(monkeypatch)
    console = Console(file=io.StringIO(), force_jupyter=True)
    run(console, [replace(RECORD, draw=i, elapsed=10 + i / 100) for i in range(101)])
    assert console.file.getvalue() == ""
    assert len(cell.displayed) == 1 and len(cell.updates) == 3  # of a second
    assert repr(cell.updates[-1]).startswith("sampling, 100/1,000 draws, 2,000/6,000 evaluations")
    html = cell.updates[-1]._repr_html_()
    assert (
        '<progress value="0.333"' in html
        and "sampling, 100/1,000 draws" in html
        and "\n" not in html
    )


def test_standard_output_stays_clean(capsys):
    with make_display(True) as display:
        display.update(RECORD)
    out, err = capsys.readouterr()
    assert out == "" and "kmc: sampling" in err


def test_a_terminal_shows_what_takes_long_and_clears_it():
    console = terminal()
    assert list(steps([1, 2], "kmc.evidence", True, console)) == [1, 2]
    assert "kmc.evidence" in console.file.getvalue()
    assert console.file.getvalue().rstrip().endswith("\x1b[2K")


@pytest.mark.parametrize("progress, console", [(False, terminal), (True, log)])
def test_nothing_is_shown_in_a_log_or_if_it_is_not_wanted(progress, console):
    console = console()
    assert list(steps([1, 2], "kmc.evidence", progress, console)) == [1, 2]
    assert not console.file.getvalue()
