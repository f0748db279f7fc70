"""Arguments of samplers, of the surrogate's fit and of the warnings have types, and long lists of them have names."""

import ast
from pathlib import Path

import pytest

import kmc.errors

ROOT = Path(kmc.errors.__file__).parent
FILES = [
    *sorted((ROOT / "mcmc").glob("*.py")),
    *sorted((ROOT / "surrogates").glob("*.py")),
    ROOT / "run" / "run_warnings.py",
    ROOT / "run" / "run_statistics.py",
]
MOST = 3  # positional arguments
PROTOCOL = {"_longest_warmup"}  # which samplers from outside have, too


def jitted(function):
    return any("njit" in ast.unparse(decorator) for decorator in function.decorator_list)


def faults(source):
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef) or jitted(node) or node.name in PROTOCOL:
            continue
        given = [arg for arg in node.args.posonlyargs + node.args.args if arg.arg not in ("self", "cls")]
        if len(given) > MOST:
            yield f"{node.name} takes {len(given)} positional arguments"
        yield from (f"{node.name}: {arg.arg}" for arg in given + node.args.kwonlyargs if arg.annotation is None)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_arguments_have_types_and_few_are_positional(path):
    if path.name == "score_field.py":
        return  # its inner function is jitted by call
    assert list(faults(path.read_text(encoding="utf-8"))) == []


def test_faults_are_seen():
    assert list(faults("def f(a: int, b): pass")) == ["f: b"]
    assert list(faults("def f(a: int, b: int, c: int, d: int): pass")) == ["f takes 4 positional arguments"]
    assert list(faults("@numba.njit(cache=True)\ndef f(a, b, c, d): pass")) == []
