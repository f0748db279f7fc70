"""`import kmc` compiles nothing and loads no optional package."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.arviz
CORE = "numpy, scipy, numba, arviz, xarray, rich.live"
OPTIONAL = {
    "matplotlib",
    "pymc",
    "pints",
    "sklearn",
    "torch",
    "dask",
    "distributed",
    "zarr",
    "bridgestan",
    "pandas",
}
OPTIONAL |= {"jax"}

LOADED_BY_KMC = f"""
import json, sys
import {CORE}
before = set(sys.modules)
import kmc
print(json.dumps(sorted({{name.split(".")[0] for name in set(sys.modules) - before}})))
"""

COMPILED = """
import gc, json
import kmc
from numba.core.dispatcher import Dispatcher
ours = (f for f in gc.get_objects() if issubclass(type(f), Dispatcher) and f.py_func.__module__.startswith("kmc"))
print(json.dumps(sorted(f.py_func.__qualname__ for f in ours if f.signatures)))
"""  # noqa: E501


def output_of(program):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.packages
def test_no_optional_package_is_loaded():
    assert not set(output_of(LOADED_BY_KMC)) & OPTIONAL


def test_a_public_module_is_there_although_nothing_else_has_imported_it():
    assert (
        output_of("import json, kmc; print(json.dumps(kmc.moves.__name__))") == "kmc.samplers.moves"
    )


def test_nothing_is_compiled():
    assert output_of(COMPILED) == []


def test_the_lower_layers_do_without_arviz():
    modules = "kmc.errors", "kmc.samplers.base", "kmc.model.evaluate"
    assert not output_of(
        f"import json, sys, {', '.join(modules)}; print(json.dumps('arviz' in sys.modules))"
    )
