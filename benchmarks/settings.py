"""Count files, lines of code and numeric settings of folders: ``python benchmarks/settings.py
[FOLDER ...]``.

A setting is a number, a tuple of numbers, or each number of a record: a constant of a module, a
default argument or the default of a field. Blank lines, comments and docstrings are no lines of
code.
"""

import ast
import sys
import tokenize
from itertools import chain
from pathlib import Path

NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
PLAIN = {"float", "int", "log", "sqrt", "tuple"}  # functions of numbers that are numbers


def code_lines(text: str) -> int:
    """Return the number of lines that have code."""
    alone = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
    strings = [
        range(node.lineno, node.end_lineno + 1)
        for node in alone
        if isinstance(node.value, ast.Constant)
    ]
    tokens = [
        one
        for one in tokenize.generate_tokens(iter(text.splitlines(True)).__next__)
        if one.type not in NO_CODE
    ]
    return len(
        {line for one in tokens for line in range(one.start[0], one.end[0] + 1)}
        - {*chain(*strings)}
    )


def numbers(value: ast.expr | None) -> int:
    """Return how many settings a value is: one, if it is made of numbers, or those of a record's
    fields.
    """
    match value:
        case ast.Constant(value=int() | float() as number):
            return int(not isinstance(number, bool))
        case ast.UnaryOp(operand=one) | ast.GeneratorExp(elt=one) | ast.BinOp(left=one):
            return numbers(one)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return sum(found for found in map(numbers, parts) if found > 1) or max(
                map(numbers, parts), default=0
            )
        case ast.Call(
            func=ast.Name(id=name) | ast.Attribute(attr=name), args=parts, keywords=named
        ):
            found = sum(map(numbers, [*parts, *(one.value for one in named)]))
            return found if name[0].isupper() else min(found, int(name in PLAIN))
    return 0


def settings(text: str) -> int:
    """Return the number of settings of a module."""
    tree, values = ast.parse(text), []
    for node in ast.walk(tree):
        if node in tree.body and isinstance(node, ast.Assign | ast.AnnAssign):
            several = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
            values += getattr(node.value, "elts", [node.value]) if several else [node.value]
        values += [*node.defaults, *node.kw_defaults] if isinstance(node, ast.arguments) else []
        if isinstance(node, ast.ClassDef):
            values += [field.value for field in node.body if isinstance(field, ast.AnnAssign)]
    return sum(map(numbers, values))


if __name__ == "__main__":
    rows = {}
    root = Path(__file__).parents[1]
    for folder in sys.argv[1:] or (root / "kmc/kernel_hmc", root / "kmc/surrogate"):
        texts = [path.read_text(encoding="utf-8") for path in sorted(Path(folder).rglob("*.py"))]
        if not texts:
            sys.exit(f"{folder}: no modules there")
        rows[Path(folder).name] = len(texts), sum(map(code_lines, texts)), sum(map(settings, texts))
    rows = {
        "folder": ("files", "lines", "settings"),
        **rows,
        "sum": map(sum, zip(*rows.values(), strict=True)),
    }
    for name, found in rows.items():
        print("{:24}{:>8}{:>8}{:>10}".format(name, *found))
