"""Public functions have complete type annotations, which a type checker accepts."""

import inspect
import types
from pathlib import Path

import pytest

import kmc

PROGRAM = Path(__file__).with_name("program.py")
SILENT = "--follow-imports=silent"  # errors in kmc itself are found elsewhere
STRICT = [SILENT, "--strict", "--disallow-any-unimported"]


@pytest.mark.slow
def test_a_typed_program(cache):
    """Valid uses have the stated types, and invalid ones are found."""
    api = pytest.importorskip("mypy.api")
    config = PROGRAM.parents[2] / "pyproject.toml"
    said, failed, status = api.run(
        [str(PROGRAM), f"--config-file={config}", f"--cache-dir={cache}", *STRICT]
    )
    assert status == 0, said + failed


def public():
    """Functions, methods and properties of kmc and its public modules, by name."""
    modules = [
        thing for name in kmc.__all__ if isinstance(thing := getattr(kmc, name), types.ModuleType)
    ]
    for module in (kmc, *modules):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing):
                yield from members(f"{module.__name__}.{name}", thing)
            elif callable(thing):
                # of a jitted function
                yield f"{module.__name__}.{name}", getattr(thing, "py_func", thing)


def members(where, cls):
    for name, member in inspect.getmembers(cls):
        function = member.fget if isinstance(member, property) else member
        ours = inspect.isroutine(function) and (
            getattr(function, "__module__", None) or ""
        ).startswith("kmc")
        if (
            ours
            and hasattr(function, "__annotations__")
            and (not name.startswith("_") or name == "__init__")
        ):
            yield f"{where}.{name}", function


PUBLIC = dict(public())


def test_every_parameter_and_return_is_annotated():
    missing = []
    for name, function in PUBLIC.items():
        signature = inspect.signature(function)
        missing += [
            f"{name}({parameter.name})"
            for parameter in signature.parameters.values()
            if parameter.annotation is parameter.empty and parameter.name not in ("self", "cls")
        ]
        if signature.return_annotation is signature.empty and not name.endswith("__init__"):
            missing.append(f"{name} -> ?")
    assert not missing
