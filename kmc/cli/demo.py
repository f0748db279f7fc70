"""``kernelmc demo``."""

from __future__ import annotations

import argparse
from typing import Any

from kmc._names import COMMAND
from kmc.cli.options import add_quiet, natural, positive, subparser

# Numba, ArviZ and Matplotlib take seconds to import: a subcommand imports what it needs when it runs.


def add_parser(commands: Any) -> None:
    """Add the subcommand."""
    parser = subparser(
        commands,
        "demo",
        _run,
        "lynx and hares: sample a real posterior and compare with the published one",
        "Fit the Lotka-Volterra equations to a century-old record of lynx and hare pelts. Writes the\n"
        "draws (kmc-demo.nc) and a picture (kmc-demo.png).",
        f"  {COMMAND} demo --directory results --seed 7",
    )
    parser.add_argument("--directory", default=".", metavar="D", help="where to write (default: here)")
    parser.add_argument("--evaluations", type=positive, default=6000, metavar="N", help="budget (default: 6000)")
    parser.add_argument("--seed", type=natural, default=1900, metavar="S", help="random seed (default: 1900)")
    add_quiet(parser)


def _run(args: argparse.Namespace) -> None:
    from kmc import demo

    demo.run(args.directory, max_evaluations=args.evaluations, seed=args.seed, progress=not args.quiet)
