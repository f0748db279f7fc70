"""The examples are scripts: their folder is where they look for each other."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "examples"))
