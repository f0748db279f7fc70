"""A small version of the campaign of crashes at file operations, ``benchmarks/crashes.py``."""

import sys

import pytest

from benchmarks import crashes

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="forks a process that has run numba"
    ),
]


def test_a_run_is_resumed_after_a_crash_at_any_file_operation(tmp_path):
    result = crashes.campaign("random-walk", 6, tmp_path)
    assert result.stopped == result.right == 6 and not result.wrong
    assert result.operations > 100
