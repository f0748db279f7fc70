"""The code blocks of README.md run one after the other in one interpreter, each with names of its
own.

Budgets are scaled down here, by the substitutions below; nothing else is changed.
"""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from kmc.control_variates import annealing

README = Path(__file__).parents[1] / "README.md"
SMALLER = [
    (r"max_evaluations=6000", "max_evaluations=500"),
    (r"max_evaluations=600,", "max_evaluations=160,"),
    (r"draws=5000", "draws=2, max_evaluations=60"),
    (r"kmc.expectations\(idata\)", "kmc.expectations(idata, max_surrogate_draws=2000)"),
]
NEEDED = {"kmc.report(": "matplotlib"}  # extras, by what shows that a block needs them


def blocks():
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def smaller(block):
    for pattern, replacement in SMALLER:
        block = re.sub(pattern, replacement, block)
    return block


def bound(block):
    """Names that the block's top level gives a meaning."""
    for node in ast.parse(block).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        for target in getattr(node, "targets", ()):
            yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_the_blocks_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(annealing, "_POOL", 2**14)
    namespace = {"__name__": "readme"}
    for number, block in enumerate(blocks()):
        if all(importlib.util.find_spec(extra) for sign, extra in NEEDED.items() if sign in block):
            exec(compile(smaller(block), f"README.md, block {number}", "exec"), namespace)
    assert "ess_bulk" in capsys.readouterr().out


def test_no_block_takes_a_name_from_another():
    taken = [set(bound(block)) for block in blocks()]
    assert len(taken) > 2 and sum(map(len, taken)) == len(set().union(*taken))


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in SMALLER])
def test_every_substitution_is_of_use(pattern):
    assert any(re.search(pattern, block) for block in blocks())
