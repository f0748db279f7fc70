"""Score estimators compared with the truth and the paper, and timed: ``python benchmarks/scores.py
--help``.

The experiments of Sutherland, Strathmann, Arbel and Gretton (2018), "Efficient and principled score
estimation with Nyström kernel exponential families", section 5, the rate of their theorem 2, and
speed. Every part consists of cells; each cell is a line of results/scores_<part>.csv, written as
soon as it is ready and not run again. Cells that differ only in their last name (usually the model)
share a process, which has one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import groupby
from pathlib import Path
from types import ModuleType

import score_convergence
import score_dimensions
import score_glass
import score_speed
import score_subsampling
import score_surface
from score_results import Results

HERE = Path(__file__).parent
PICTURES = HERE / "pictures"
PARTS: dict[str, ModuleType] = {
    "figure1": score_dimensions,
    "figure2": score_subsampling,
    "figure3": score_glass,
    "figure3b": score_surface,
    "convergence": score_convergence,
    "speed": score_speed,
}
"""Each has KEY, the order of some columns in tables, cells(options), run(group, names, options),
tables(rows), and pictures(rows, folder)."""


def run_part(name: str, options: argparse.Namespace) -> list[str]:
    """Run the cells that the CSV lacks; return failures."""
    part, results = PARTS[name], Results(HERE / "results" / f"scores_{name}.csv", PARTS[name].KEY)
    cells = [
        cell for cell in part.cells(options) if options.models is None or cell[-1] in options.models
    ]
    cells = [cell for cell in cells if options.rerun or cell not in results.rows]
    failures, begun = [], time.perf_counter()
    for group, members in groupby(cells, key=lambda cell: cell[:-1]):
        names = [cell[-1] for cell in members]
        for line in launch(name, group, names, options):
            if isinstance(line, str):
                failures.append(line)
                print(line, flush=True)
            else:
                results.add(line)
                print(
                    f"[{time.perf_counter() - begun:5.0f} s] {name} "
                    f"{' '.join(map(str, line.values()))}",
                    flush=True,
                )
    return failures


def launch(name: str, group: tuple, names: list[str], options: argparse.Namespace):
    """Rows of a group of cells, as printed by its process; a string if it fails."""
    environment = os.environ | {
        f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")
    }
    task = {"part": name, "group": group, "names": names}
    command = [sys.executable, __file__, *sys.argv[1:], "--task", json.dumps(task)]
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        ) as child:
            for line in child.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
        errors.seek(0)
        if child.returncode:
            yield f"{name} {group}: {errors.read()}"


def report(name: str) -> None:
    """Print the part's tables, and draw its figures."""
    rows = list(Results(HERE / "results" / f"scores_{name}.csv", PARTS[name].KEY).rows.values())
    if not rows:
        return
    for column, order in PARTS[name].ORDER.items():
        rows = sorted(
            (row for row in rows if row[column] in order), key=lambda row: order.index(row[column])
        )
    for title, text in PARTS[name].tables(rows).items():
        print(f"\n{name}: {title}\n{text}")
    PICTURES.mkdir(exist_ok=True)
    PARTS[name].pictures(rows, PICTURES)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=list(PARTS), help="parts, with commas"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument(
        "--dims",
        type=int,
        nargs="+",
        default=[2, 5, 10, 15, 20],
        help="dimensions of ring and grid",
    )
    parser.add_argument("--models", nargs="+", help="only cells with these names; all by default")
    parser.add_argument(
        "--data",
        type=Path,
        help="figure3: posterior sketch, .npy of shape (2000, 9), as score_glass_sketch.py makes",
    )
    parser.add_argument("--glass", type=Path, help="figure3: UCI's glass.data")
    parser.add_argument(
        "--repetitions", type=int, default=50, help="figure3: trajectories of each seed"
    )
    parser.add_argument(
        "--inputs",
        default="whitened",
        choices=score_glass.INPUTS,
        help="figure3: inputs of the classifier",
    )
    parser.add_argument("--rerun", action="store_true", help="run cells even if the CSV has them")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--task", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"--only {','.join(sorted(unknown))}: expected some of {', '.join(PARTS)}")
    if options.task:
        run = PARTS[options.task["part"]].run
        for row in run(tuple(options.task["group"]), options.task["names"], options):
            print(json.dumps(row), flush=True)
        return
    failures = []
    for name in options.only:
        if not options.report:
            failures += run_part(name, options)
        report(name)
    print(*failures, sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
