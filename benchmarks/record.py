"""Run benchmarks and write what each prints into a page: ``python benchmarks/record.py accuracy
startup``.

A page, ``results/NAME.md``, has its question as title, the command, the version of kmc, the time,
and the output. Commands that keep rows in CSV files run only what these lack; ``--report`` makes
pages of the rows that there are.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from pages import HERE, head, version

ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


class Page(NamedTuple):
    """A question, the script and its options, its pictures, and the CSV files of scripts that keep
    rows.
    """

    question: str
    command: tuple[str, ...]
    rows: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()


GALERKIN = (1, 2, 3, 4, 5, 6)  # figures; 7 to 10 come from the rows of figure 3
PAGES = {
    "startup": Page("How long until the first draw?", ("startup.py",)),
    "overhead": Page(
        "What do executors, stores and the progress display add to an evaluation?", ("run.py",)
    ),
    "hermite": Page(
        "Figure 1 of kernelized diffusion maps: Hermite polynomials, and the rate of theorem 9",
        ("spectral_hermite.py",),
        ("hermite.csv",),
        pictures=("spectral_hermite.png",),
    ),
    "accuracy": Page(
        "How exact are the first six eigenvalues of Langevin generators, and those on spheres?",
        ("spectral_accuracy.py", "--seeds", "4"),
    ),
    "defaults": Page(
        "Are eigenvalues at the defaults right, or warned of?",
        ("spectral_defaults.py", "--first-seed", "200"),
        ("spectral_defaults.csv",),
    ),
    "circle": Page(
        "Are graph Laplacians on a circle right within a tenth, or warned of?",
        ("spectral_circle.py", "--samples", "300,1000,3000", "--seeds", "3"),
        ("spectral_circle.csv",),
    ),
    "assembly": Page(
        "How near is the assembly of forms to matrix products, and how much faster than klap?",
        ("spectral_speed.py",),
    ),
    "complexity": Page(
        "Table 1 of the Galerkin paper: time and memory in samples, functions and dimension",
        ("spectral_scaling.py",),
        ("spectral_scaling.csv",),
    ),
    "spectral-peers": Page(
        "Spectra and embeddings beside klap, deeptime, pydiffmap and scikit-learn",
        ("spectral_peers.py",),
    ),
    "chains": Page("Spectra of Markov chains beside deeptime", ("spectral_chains.py",)),
    "trajectories": Page(
        "Slow time scales from trajectories beside Markov state models",
        ("trajectories.py",),
        ("trajectories.csv",),
    ),
    "slow-modes": Page(
        "How often does `slow_modes` alarm on right runs, and on a frozen latent?",
        ("slow_modes_rates.py",),
    ),
    "galerkin": Page(
        "Figures 1 to 6 of the Galerkin paper",
        (
            "spectral_galerkin.py",
            "--size",
            "full",
            "--only",
            ",".join(f"figure{k}" for k in GALERKIN),
        ),
        tuple(f"galerkin_figure{k}.csv" for k in GALERKIN),
        tuple(f"galerkin_figure{k}.png" for k in GALERKIN),
    ),
    "sketches": Page(
        "Figures and tables of the paper on sketches of kernel features",
        ("spectral_sketches.py", "--seeds", "30"),
        tuple(
            f"spectral_sketches_{part}.csv"
            for part in ("figure1", "figure2", "table2", "times", "theorem1")
        ),
        ("spectral_sketches_figure1.png",),
    ),
    "scores": Page(
        "Figures 1 to 3 of the paper on Nyström score estimators, its rate, and speed",
        ("scores.py",),
        tuple(
            f"scores_{part}.csv"
            for part in ("figure1", "figure2", "figure3", "figure3b", "convergence", "speed")
        ),
        tuple(
            f"scores_{part}.png"
            for part in ("figure1", "figure2", "figure3", "figure3b", "convergence")
        ),
    ),
    "landmarks": Page(
        "Do leverage scores choose better landmarks?", ("landmarks.py",), ("landmarks.csv",)
    ),
    "score-defaults": Page(
        "Score estimators at their defaults beside kscore's, tuned by the truth",
        ("score_defaults.py", "--seeds", "1"),
    ),
    "kmc-2015": Page(
        "Figures 3 and 5 of the paper on kernel Hamiltonian Monte Carlo",
        ("kmc_2015.py",),
        ("kmc_2015.csv",),
    ),
}


def record(name: str, report: bool, folder: Path) -> None:
    """Run the command of a page, and write the page."""
    page = PAGES[name]
    if report and not page.rows:
        sys.exit(f"{name} keeps no rows to report: leave --report out")
    script, *options = page.command
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(HERE / script), *options, *(["--report"] if report else ())],
        env=os.environ | ONE_THREAD,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    minutes = (time.monotonic() - begun) / 60
    printed = "" if page.rows else f"with kmc as of {version()} in {minutes:.1f} minutes"
    pictures = "".join(f"\n![{picture}](../pictures/{picture})\n" for picture in page.pictures)
    command = f"python benchmarks/record.py {name}"
    called = f"It prints what `python benchmarks/{' '.join(page.command)}` prints.\n\n"
    # tables by themselves
    output = re.sub(r"^(?!\|)(.+)\n(?=\|)", r"\1\n\n", done.stdout.strip(), flags=re.MULTILINE)
    text = head(page.question, command, page.rows, printed) + called + output + "\n" + pictures
    (folder / f"{name}.md").write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", choices=PAGES, metavar="NAME", help=", ".join(PAGES))
    parser.add_argument("--report", action="store_true", help="run no cell that a CSV file lacks")
    parser.add_argument("--folder", type=Path, default=HERE / "results", help="where the pages go")
    options = parser.parse_args()
    for name in options.names:
        record(name, options.report, options.folder)


if __name__ == "__main__":
    main()
