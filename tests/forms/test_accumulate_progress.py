import io
import sys

import numpy as np
import pytest
from rich.console import Console

from kmc.bases import Monomials
from kmc.forms import accumulate

HOME = sys.modules["kmc.forms.accumulate"]  # whose function has the same name

X = np.random.default_rng(0).standard_normal((5000, 2))


@pytest.fixture
def console(monkeypatch):
    """A terminal."""
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr("rich.console.Console", lambda **options: console)
    return console


def test_a_long_pass_shows_how_far_it_is(console, monkeypatch):
    monkeypatch.setattr(HOME, "PATIENCE", 0.0)
    accumulate(Monomials(2, 2), X, ("mass",))
    assert "of 5,000 samples" in console.file.getvalue()


def test_the_number_of_rows_may_not_be_known(console, monkeypatch):
    monkeypatch.setattr(HOME, "PATIENCE", 0.0)
    accumulate(Monomials(2, 2), iter([X]), ("mass",))
    assert "5,000 samples" in console.file.getvalue()
    assert " of " not in console.file.getvalue()


def test_a_short_pass_shows_nothing(console):
    accumulate(Monomials(2, 2), X, ("mass",))
    assert not console.file.getvalue()


def test_another_bar_stays_alone(console, monkeypatch):
    monkeypatch.setattr(HOME, "PATIENCE", 0.0)
    with console.status("working"):
        forms = accumulate(Monomials(2, 2), X, ("mass",))
    assert forms.weight == 5000
    assert "samples" not in console.file.getvalue()


def test_no_bar_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(HOME, "PATIENCE", 0.0)
    accumulate(Monomials(2, 2), X, ("mass",))
    assert not capsys.readouterr().err
