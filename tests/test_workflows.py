"""The workflows of hosted CI: they are read here, since nothing else runs them before they are pushed."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
JOBS = {
    f"{path.stem}-{name}": job
    for path in WORKFLOWS
    for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items()
}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
EACH = pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)


def commands(job):
    return [shlex.split(line) for step in job["steps"] for line in step.get("run", "").splitlines()]


def test_every_change_and_every_week():
    events = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))[True] for path in WORKFLOWS}  # "on" is True
    assert events["check"]["push"] == {"branches": ["main"]} and "pull_request" in events["check"]
    assert re.fullmatch(r"\d+ \d+ \* \* \d", events["weekly"]["schedule"][0]["cron"])
    assert commands(JOBS["check-check"]) == [[".ci/run"]]
    assert [".ci/run", "--slow"] in commands(JOBS["weekly-slow"])


@EACH
def test_commands_name_files_options_and_extras_that_exist(job):
    assert commands(job) and job["timeout-minutes"] <= 120
    for command in commands(job):
        if command[0] == "pip":
            assert command[:3] == ["pip", "install", "-e"]
            assert set(re.fullmatch(r"\.\[(.+)\]", command[3])[1].split(",")) <= set(EXTRAS)
            continue
        script = ROOT / (command[1] if command[0] == "python" else command[0])
        source = script.read_text(encoding="utf-8")
        assert command[0] == "python" or script.stat().st_mode & 0o100, f"{script} is not executable"
        assert all(option in source for option in command if option.startswith("--"))


@EACH
def test_actions_have_versions_and_pythons_are_supported(job):
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert used[0].startswith("actions/checkout@")
    assert all(re.fullmatch(r"actions/(checkout|setup-python|upload-artifact)@v\d+", action) for action in used)
    for step in job["steps"]:
        if step.get("uses", "").startswith("actions/setup-python"):
            *_, last = step["with"]["python-version"].split()
            assert last == "3.11"  # the last one is what "python" runs
        if step.get("uses", "").startswith("actions/upload-artifact"):
            assert step["with"]["path"] == "docs/_build/html"  # where docs/build.py puts the site


def test_the_script_runs_files_that_exist():
    source = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    paths = set(re.findall(r"\b(?:tests|kmc|docs)/[\w/]+(?:\.py)?", source))
    assert len(paths) > 20 and all((ROOT / path).exists() for path in paths)
