"""``kernelmc summary``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kmc._names import COMMAND
from kmc.cli import results
from kmc.cli.options import subparser


def add_parser(commands: Any) -> None:
    """Add the subcommand."""
    parser = subparser(
        commands,
        "summary",
        _run,
        "means, spreads and convergence of finished draws",
        "Print ArviZ's summary of draws, their number and price, and the run's warnings.",
        f"  {COMMAND} summary draws.nc",
    )
    parser.add_argument("path", type=Path, metavar="FILE_OR_STORE", help="netCDF file or Zarr store")


def _run(args: argparse.Namespace) -> None:
    results.describe(results.read(args.path))
