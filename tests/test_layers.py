"""Imports run downward only, and few layers use the packages around kmc."""

import ast
from pathlib import Path

import pytest

import kmc.errors

ROOT = Path(kmc.errors.__file__).parent

ANYWHERE = {"errors", "_names", "_version", "checks", "lazy", "njit", "threads", "interrupts"}
ANYWHERE |= {"pickles", "seeds", "unwritable"}
MAY_IMPORT = {
    "errors": set(),
    "checks": set(),
    "seeds": set(),
    "lazy": set(),
    "njit": set(),
    "unwritable": set(),
    "threads": set(),
    "interrupts": set(),
    "pickles": set(),
    "_names": set(),
    "_version": set(),
    "__main__": {"cli"},
    "kernels": set(),
    "linalg": set(),
    "selection": {"kernels"},
    "jitted": set(),
    "estimator": set(),
    "convergence": set(),
    "bases": {"kernels", "jitted"},
    "forms": {"bases"},
    "landmarks": {"kernels"},
    "source": {"forms", "estimator"},
    "surrogate": {"kernels", "linalg", "jitted", "landmarks"},
    "scores": {
        "kernels",
        "selection",
        "linalg",
        "jitted",
        "bases",
        "forms",
        "landmarks",
        "estimator",
        "source",
    },
    "regression": {"kernels", "selection", "linalg", "bases", "forms", "landmarks", "estimator", "source"},
    "spectral": {"kernels", "selection", "linalg", "bases", "forms", "landmarks", "estimator", "source"},
    "likelihoods": set(),
    "model": {"likelihoods"},
    "samplers": {"jitted", "surrogate"},
    "kernel_hmc": {"convergence", "surrogate", "samplers"},
    "control_variates": {"convergence", "jitted", "kernels", "bases", "surrogate", "samplers"},
    "run": {
        "convergence",
        "surrogate",
        "scores",
        "likelihoods",
        "model",
        "samplers",
        "kernel_hmc",
        "control_variates",
    },
    "posterior": {"convergence", "model", "samplers", "kernel_hmc", "control_variates", "run"},
    "diagnostics": {"convergence", "kernels", "linalg", "bases", "forms", "spectral", "model", "run"},
    "plots": {"diagnostics", "posterior", "model"},
    "testing": {"samplers", "model"},
    "reports": {"diagnostics", "plots", "run"},
    "demo": {"model", "plots", "kmc"},
    "plugins": {"model", "samplers", "kmc"},
    "cli": {"convergence", "run", "diagnostics", "demo", "kmc"},
}
"""By layer, the layers that it imports; those of ``ANYWHERE`` besides."""

UPWARD = {"kmc.samplers.score_hmc": {"kernel_hmc"}}
"""By module, layers above its own: another sampler makes the warm-up."""

SURROUNDINGS = {"arviz", "arviz_base", "arviz_stats", "arviz_plots", "pymc", "pytensor", "bridgestan", "cmdstanpy"}
KNOW_THEM = {"unwritable", "convergence", "run", "diagnostics", "plots", "model", "demo", "cli"}


def layer(module):
    """The layer of a dotted module name: its part below kmc, or kmc for the public surface itself."""
    return module.split(".")[1] if "." in module else module


def imported(module, source, package=False):
    """Dotted names of everything that a module imports, at its top or inside a function."""
    parents = module.split(".") if package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = parents[: len(parents) - node.level + 1] if node.level else []
            origin = ".".join([*origin, *([node.module] if node.module else [])])
            if origin == "kmc":  # from kmc import forms
                yield from (f"kmc.{a.name}" if a.name in MAY_IMPORT else "kmc" for a in node.names)
            else:
                yield origin


def violations(module, source, package=False):
    here = layer(module)
    for name in imported(module, source, package):
        if name.split(".")[0] == "kmc":
            if layer(name) not in MAY_IMPORT[here] | UPWARD.get(module, set()) | ANYWHERE | {here}:
                yield f"{module} imports {name}"
        elif name.split(".")[0] in SURROUNDINGS and here not in KNOW_THEM:
            yield f"{module} imports {name}"


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if package else parts)
        if module != "kmc":
            yield pytest.param(module, path, package, id=module)


@pytest.mark.parametrize(("module", "path", "package"), list(modules()))
def test_imports_run_downward(module, path, package):
    assert layer(module) in MAY_IMPORT, f"{module} is in no layer: give it one here and in docs/architecture.md"
    assert not list(violations(module, path.read_text(encoding="utf-8"), package))


def test_each_allowed_edge_exists():
    used = {name: set() for name in MAY_IMPORT | UPWARD}
    for param in modules():
        module, path, package = param.values
        found = (name for name in imported(module, path.read_text(encoding="utf-8"), package))
        layers = {layer(name) for name in found if name.split(".")[0] == "kmc"}
        for name in {layer(module), module} & used.keys():
            used[name] |= layers
    unused = {name: allowed - used[name] for name, allowed in (MAY_IMPORT | UPWARD).items()}
    assert {name: layers for name, layers in unused.items() if layers} == {}


def edges():
    """By module, the modules that it imports: at its top, in functions and for type checkers."""
    paths = {param.values[0]: param.values[1:] for param in modules()}
    for module, (path, package) in paths.items():
        parents = module.split(".") if package else module.split(".")[:-1]
        found = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                origin = parents[: len(parents) - node.level + 1] if node.level else []
                origin = ".".join([*origin, *([node.module] if node.module else [])])
                found |= {name if (name := f"{origin}.{a.name}") in paths else origin for a in node.names}
        yield module, {name for name in found if name in paths and name != module}


def circle(graph):
    """Modules that import each other in a circle; empty if there is none."""
    left = dict(graph)
    while leaves := [module for module, imports in left.items() if not imports & left.keys()]:
        for module in leaves:
            del left[module]
    while outer := [module for module in left if not any(module in imports for imports in left.values())]:
        for module in outer:
            del left[module]
    return sorted(left)


def test_no_modules_import_each_other():
    assert circle(edges()) == []
