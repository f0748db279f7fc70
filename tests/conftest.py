"""What all tests share."""

import pytest

from kmc.control_variates import annealing


@pytest.fixture
def few_particles(monkeypatch):
    """Anneal a sixteenth of the particles: masses have larger errors, which are stated, in a third of the time."""
    monkeypatch.setattr(annealing, "_POOL", 2**14)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Do not search tests for examples, which ``--doctest-modules`` asks for: there are none.

    The search takes a fifth of the time of collection.
    """
    found = yield
    return [one for one in found if type(one).__name__ != "DoctestModule"]
