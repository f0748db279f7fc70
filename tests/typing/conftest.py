"""For pytest: the program is for a type checker only."""

collect_ignore = ["program.py"]

import pytest


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """Where mypy keeps what it knows of kmc, from one test to the next."""
    return tmp_path_factory.mktemp("mypy")
