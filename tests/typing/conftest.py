"""For pytest: the program is for a type checker only; what mypy knows of kmc is kept from one test
to the next.
"""

import pytest

collect_ignore = ["program.py"]


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A cache of mypy's."""
    return tmp_path_factory.mktemp("mypy")
