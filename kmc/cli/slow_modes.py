"""``kernelmc slow-modes``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kmc._names import COMMAND
from kmc.cli import results
from kmc.cli.options import natural, positive, subparser

_NAMED = 3  # parameters beside each mode


def add_parser(commands: Any) -> None:
    """Add the subcommand."""
    parser = subparser(
        commands,
        "slow-modes",
        _run,
        "the slowest functions of the parameters, and how well draws determine them",
        "Print the slowest modes of the chains: effective sample size, R-hat, timescale in draws, and the\n"
        "parameters that correlate with each most. An R-hat above 1.05 is an alarm.",
        f"  {COMMAND} slow-modes draws.nc --modes 3",
    )
    parser.add_argument("path", type=Path, metavar="FILE_OR_STORE", help="netCDF file or Zarr store")
    parser.add_argument("--modes", type=positive, default=5, metavar="N", help="how many (default: 5)")
    parser.add_argument("--lagtime", type=positive, metavar="N", help="in draws (default: several are tried)")
    parser.add_argument("--seed", type=natural, default=0, metavar="S", help="for the landmarks (default: 0)")


def _run(args: argparse.Namespace) -> None:
    from kmc.diagnostics import slow_modes

    lagtime = "auto" if args.lagtime is None else args.lagtime
    modes = slow_modes(results.read(args.path), args.modes, lagtime, random_state=args.seed)
    table = modes[["ess", "rhat", "timescale", "lagtime"]].to_dataframe()
    table["correlates with"] = [_strongest(row) for row in modes["correlation"]]
    print(table.to_string(float_format=results.digits, formatters={"rhat": "{:.3f}".format}))


def _strongest(correlations: Any) -> str:
    """The parameters with the largest correlations (parameter,)."""
    order = abs(correlations).fillna(0.0).argsort().values[::-1][:_NAMED]
    return ", ".join(f"{float(row):+.2f} {row['parameter'].item()}" for row in correlations[order])
