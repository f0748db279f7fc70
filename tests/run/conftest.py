"""Runs of these tests are short, and so is what their last check anneals."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def quick_check(few_particles):
    """See tests/conftest.py."""
