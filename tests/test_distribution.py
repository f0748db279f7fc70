"""What is published: the source distribution and the wheel, and the recipe for conda-forge."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import kmc

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BUILDING = ("build", "hatchling", "pip", "twine")
LACKING = [name for name in BUILDING if importlib.util.find_spec(name) is None]


def python(*arguments, **environment):
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}")
def test_files_are_valid_and_installed_by_name_from_an_index(tmp_path):
    """The index is a folder as in PEP 503; dependencies are those of this environment."""
    index, installed = tmp_path / "simple", tmp_path / "installed"
    folder = index / "kernelmc"
    python("-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    files = sorted(folder.iterdir())
    assert [path.name for path in files] == [
        f"kernelmc-{kmc.__version__}-py3-none-any.whl",
        f"kernelmc-{kmc.__version__}.tar.gz",
    ]
    assert python("-m", "twine", "check", "--strict", *files).count("PASSED") == 2
    (folder / "index.html").write_text(
        "".join(f'<a href="{path.name}">{path.name}</a>' for path in files)
    )
    where = ["--index-url", index.as_uri(), "--target", installed, "--no-deps", "--no-compile"]
    python("-m", "pip", "--isolated", "install", *where, "kernelmc")
    alone = {"PYTHONPATH": str(installed), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    script = f"import os; os.chdir({str(tmp_path)!r}); import kmc; print(kmc.__file__)"
    assert Path(python("-c", script, **alone).strip()) == installed / "kmc" / "__init__.py"
    assert kmc.__version__ in python("-P", installed / "bin" / "kernelmc", "--version", **alone)


def test_the_recipe_agrees_with_the_project():
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    project = PROJECT["project"]
    python_min = recipe["context"]["python_min"]
    assert recipe["context"]["version"] == kmc.__version__
    assert f">={python_min}" == project["requires-python"]
    run = [re.sub(r"\s", "", line) for line in recipe["requirements"]["run"]]
    assert run == ["python>=${{python_min}}", *project["dependencies"]]
    host = [re.sub(r"\s", "", line) for line in recipe["requirements"]["host"]]
    assert set(PROJECT["build-system"]["requires"]) <= set(host)
    scripts = [f"{name} = {target}" for name, target in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert (recipe["package"]["name"], recipe["about"]["license"]) == (
        project["name"],
        project["license"],
    )
