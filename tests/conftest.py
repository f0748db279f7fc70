"""What all tests share."""

import pytest

from kmc.control_variates import annealing
from kmc.unwritable import import_arviz

# Before a test imports it: two processes whose first import of the day is at the same time fail.
import_arviz()


@pytest.fixture(scope="module")
def few_particles():
    """Anneal a sixteenth of the particles: masses have larger errors, which are stated, in a third
    of the time.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(annealing, "_POOL", 2**14)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Do not search tests for examples, which ``--doctest-modules`` asks for: there are none.

    The search takes a fifth of the time of collection.
    """
    found = yield
    return [one for one in found if type(one).__name__ != "DoctestModule"]
