"""Arguments of samplers and of the warnings have types, and long lists of them have names.

In the packages of the default sampler and its surrogate, functions without a leading underscore have types.
"""

import ast
from pathlib import Path

import pytest

import kmc.errors

ROOT = Path(kmc.errors.__file__).parent
FILES = [
    *sorted((ROOT / "samplers").glob("*.py")),
    ROOT / "run" / "run_warnings.py",
    ROOT / "run" / "run_statistics.py",
]
LEARNING = [*sorted((ROOT / "kernel_hmc").glob("*.py")), *sorted((ROOT / "surrogate").rglob("*.py"))]
MOST = 3  # positional arguments
PROTOCOL = {"_longest_warmup"}  # which samplers from outside have, too


def jitted(function):
    return any("njit" in ast.unparse(decorator) for decorator in function.decorator_list)


def positional(function):
    return [arg for arg in function.args.posonlyargs + function.args.args if arg.arg not in ("self", "cls")]


def without_types(function):
    arguments = positional(function) + function.args.kwonlyargs
    return [f"{function.name}: {arg.arg}" for arg in arguments if arg.annotation is None]


def faults(source):
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef) or jitted(node) or node.name in PROTOCOL:
            continue
        if len(positional(node)) > MOST:
            yield f"{node.name} takes {len(positional(node))} positional arguments"
        yield from without_types(node)


def public(source):
    """Functions and methods that other modules may call: those inside functions are not among them."""
    body = ast.parse(source).body
    for node in [*body, *(inner for outer in body if isinstance(outer, ast.ClassDef) for inner in outer.body)]:
        if isinstance(node, ast.FunctionDef) and not jitted(node) and not node.name.startswith("_"):
            yield node


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_arguments_have_types_and_few_are_positional(path):
    if path.name == "score_field.py":
        return  # its inner function is jitted by call
    assert list(faults(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", LEARNING, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_arguments_of_public_functions_have_types(path):
    assert [fault for node in public(path.read_text(encoding="utf-8")) for fault in without_types(node)] == []


def test_faults_are_seen():
    assert list(faults("def f(a: int, b): pass")) == ["f: b"]
    assert list(faults("def f(a: int, b: int, c: int, d: int): pass")) == ["f takes 4 positional arguments"]
    assert list(faults("@numba.njit(cache=True)\ndef f(a, b, c, d): pass")) == []
    functions = public("def f(a): pass\ndef _g(b): pass\nclass A:\n    def h(self, c): pass\n    def _i(self, d): pass")
    assert [fault for node in functions for fault in without_types(node)] == ["f: a", "h: c"]
