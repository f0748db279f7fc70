"""numba's cache is asked for in one place."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import kmc

PACKAGE = Path(kmc.__file__).parent


def test_numba_without_its_compiler_is_a_clear_error():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-c", "import kmc; kmc.sample"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "RuntimeError: NUMBA_DISABLE_JIT=1: kmc needs numba's compiler, so"
    )


def test_only_here_is_a_cache_asked_for():
    """Elsewhere numba would raise an error where nothing is writable."""
    for path in PACKAGE.rglob("*.py"):
        calls = (
            node
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Call)
        )
        for call in calls:
            cached = any(keyword.arg == "cache" for keyword in call.keywords)
            assert path.name == "njit.py" or not ("njit" in ast.unparse(call.func) and cached), path
