"""Print pip constraints for the oldest versions of dependencies that pyproject.toml declares."""

import re
import sys
import tomllib

OLDEST = re.compile(r"^([\w-]+)(?:\[[^]]*\])?>=([\d.]+)(?:; (.*))?$")


def main(path: str) -> None:
    """One line for each dependency of the core and of the extras that the tests use."""
    with open(path, "rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"]
    for requirement in project["dependencies"] + extras["dask"] + extras["plots"]:
        found = OLDEST.match(requirement)
        if found is None:
            raise SystemExit(
                f"{requirement!r}: expected name>=version, so that the oldest version can be tested"
            )
        name, version, marker = found.groups()
        print(f"{name}=={version}.*" + (f"; {marker}" if marker else ""))


if __name__ == "__main__":
    main(sys.argv[1])
