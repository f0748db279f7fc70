"""Modules import each other in no circle, and few folders use the packages around kmc."""

import ast
from pathlib import Path

import kmc.errors

ROOT = Path(kmc.errors.__file__).parent
SURROUNDINGS = {
    "arviz",
    "arviz_base",
    "arviz_stats",
    "arviz_plots",
    "pymc",
    "pytensor",
    "bridgestan",
    "cmdstanpy",
}
KNOW_THEM = {"unwritable", "convergence", "run", "diagnostics", "plots", "model", "demo", "cli"}
"""What lies directly below kmc and may import them."""


def modules():
    """By dotted name, the path of each module and whether it is that of a folder."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        package = parts[-1] == "__init__"
        found[".".join(parts[:-1] if package else parts)] = path, package
    return found


def imported(module, path, package):
    """Dotted names of everything that a module imports: at its top, in functions and for type
    checkers.
    """
    parents = module.split(".") if package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = parents[: len(parents) - node.level + 1] if node.level else []
            origin = ".".join([*origin, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def circle(graph):
    """Modules that import each other in a circle; empty if there is none."""
    left = dict(graph)
    while leaves := [module for module, imports in left.items() if not imports & left.keys()]:
        for module in leaves:
            del left[module]
    while outer := [
        module for module in left if not any(module in imports for imports in left.values())
    ]:
        for module in outer:
            del left[module]
    return sorted(left)


def test_no_modules_import_each_other():
    paths = {module: where for module, where in modules().items() if module != "kmc"}
    assert len(paths) > 100
    edges = {}
    for module, where in paths.items():
        found = {
            name if name in paths else name.rpartition(".")[0] for name in imported(module, *where)
        }
        edges[module] = (found & paths.keys()) - {module}
    assert circle(edges) == []


def test_few_folders_use_the_packages_around_kmc():
    found = [
        f"{module} imports {name}"
        for module, where in modules().items()
        for name in imported(module, *where)
        if name.split(".")[0] in SURROUNDINGS
        and module.split(".")[1:2] not in ([one] for one in KNOW_THEM)
    ]
    assert not found
