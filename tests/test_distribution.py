"""What is published: the source distribution and the wheel, the recipe for conda-forge, and the workflows."""

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
WORKFLOWS = ROOT / ".github" / "workflows"
BUILDING = ("build", "hatchling", "pip", "twine")
LACKING = [name for name in BUILDING if importlib.util.find_spec(name) is None]


def python(*arguments, **environment):
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)
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
    (folder / "index.html").write_text("".join(f'<a href="{path.name}">{path.name}</a>' for path in files))
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
    assert (recipe["package"]["name"], recipe["about"]["license"]) == (project["name"], project["license"])


def workflow(name):
    """Its jobs, and all that they run or use."""
    jobs = yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))["jobs"]
    return jobs, {key: [step.get("run") or step.get("uses") for step in job["steps"]] for key, job in jobs.items()}


def test_a_release_is_checked_and_published_without_a_password():
    jobs, steps = workflow("release.yml")
    assert jobs["publish"]["permissions"] == {"id-token": "write"} and jobs["publish"]["needs"] == "build"
    assert "pypa/gh-action-pypi-publish@release/v1" in steps["publish"]
    assert {"twine check --strict dist/*", ".ci/wheel dist"} <= set(steps["build"])
    assert "secrets." not in (WORKFLOWS / "release.yml").read_text(encoding="utf-8")


def test_hosted_jobs_test_other_systems():
    """Their first results are still to come: until then the front page and the index say that Linux is tested."""
    jobs, steps = workflow("check.yml")
    assert jobs["systems"]["strategy"]["matrix"]["os"] == ["windows-latest", "macos-latest"]
    assert 'pytest -q -n auto -m "not slow"' in steps["systems"]
    named = [line for line in PROJECT["project"]["classifiers"] if line.startswith("Operating System")]
    assert named == ["Operating System :: POSIX :: Linux"]
    assert "(tested on Linux)" in (ROOT / "README.md").read_text(encoding="utf-8")
