"""Cells in several processes, and rows that are written one after another."""

import operator
from functools import partial

from csv_rows import append_row, read_rows, run_cells

COLUMNS = ("value", "text")


def finish(path, value):
    append_row(path, COLUMNS, {"value": value, "text": "a"})
    return f"was {value}"


def test_each_row_is_written_and_failures_are_named(tmp_path, capsys):
    path = tmp_path / "new" / "rows.csv"
    cells = [(1.0, 3.0), (1.0, 0.0), (8.0, 2.0)]
    failures = run_cells(operator.truediv, cells, 2, partial(finish, path))
    assert sorted(row["value"] for row in read_rows(path)) == ["0.3333", "4"]
    assert len(failures) == 1 and failures[0].startswith("1.0 0.0: ZeroDivisionError")
    said = capsys.readouterr().out
    assert "[3/3]" in said and "8.0 2.0: was 4.0" in said


def test_no_cell_begins_after_the_time(tmp_path):
    assert run_cells(operator.truediv, [(1.0, 0.0)], 1, partial(finish, tmp_path / "rows.csv"), max_time=0.0) == []
    assert read_rows(tmp_path / "rows.csv") == []


def test_digits_and_line_ends(tmp_path):
    path = tmp_path / "rows.csv"
    for value in (1.23456789, 2):
        append_row(path, COLUMNS, {"value": value, "text": "a,b"}, digits=5, line_end="\r\n")
    assert path.read_bytes() == b'value,text\r\n1.2346,"a,b"\r\n2,"a,b"\r\n'
