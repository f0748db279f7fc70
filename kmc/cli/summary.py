"""``kernelmc summary``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kmc._names import COMMAND
from kmc.cli import results
from kmc.cli.options import add_var_names, subparser


def add_parser(commands: Any) -> None:
    """Add the subcommand."""
    parser = subparser(
        commands,
        "summary",
        _run,
        "means, spreads and convergence of finished draws",
        "Print ArviZ's summary of the first ten parameters, the number of draws and their price, and the\n"
        "run's warnings.",
        f"  {COMMAND} summary draws.nc --var-names sigma 'slope[A]'",
    )
    parser.add_argument("path", type=Path, metavar="FILE_OR_STORE", help="netCDF file or Zarr store")
    parser.add_argument("--all", action="store_true", help="all parameters, not the first ten")
    add_var_names(parser)


def _run(args: argparse.Namespace) -> None:
    most = None if args.all or args.var_names else results.MOST_ROWS
    results.describe(results.read(args.path), args.var_names, most)
