"""``kernelmc slow-modes``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kmc._names import COMMAND
from kmc.cli import results
from kmc.cli.options import add_var_names, natural, positive, subparser


def add_parser(commands: Any) -> None:
    """Add the subcommand."""
    parser = subparser(
        commands,
        "slow-modes",
        _run,
        "the slowest functions of the parameters, and their effective sample sizes",
        "Say whether the chains have mixed, and print their slowest modes: effective sample size, R-hat,\n"
        "timescale in draws, and the parameters that correlate with each most.",
        f"  {COMMAND} slow-modes draws.nc --modes 3",
    )
    parser.add_argument("path", type=Path, metavar="FILE_OR_STORE", help="netCDF file or Zarr store")
    parser.add_argument("--modes", type=positive, default=5, metavar="N", help="how many (default: 5)")
    parser.add_argument("--lagtime", type=positive, metavar="N", help="in draws (default: several are tried)")
    parser.add_argument("--seed", type=natural, default=0, metavar="S", help="for the landmarks (default: 0)")
    add_var_names(parser)


def _run(args: argparse.Namespace) -> None:
    from kmc.diagnostics import slow_modes
    from kmc.diagnostics.mode_verdicts import goes_with

    lagtime = "auto" if args.lagtime is None else args.lagtime
    data = results.read(args.path)
    modes = slow_modes(data, args.modes, lagtime, var_names=args.var_names, random_state=args.seed)
    table = modes[["ess", "rhat", "timescale", "lagtime", "verdict"]].to_dataframe()
    names = modes["parameter"].values.tolist()
    table["correlates with"] = [goes_with(row.values, names) for row in modes["correlation"]]
    print(modes.attrs["verdict"], end="\n\n")
    formatters = {"rhat": "{:.3f}".format, "timescale": _timescale}
    print(table.to_string(float_format=results.digits, formatters=formatters))


def _timescale(draws: float) -> str:
    """None where the draws of the mode are as good as independent."""
    return results.digits(draws) if draws else "none"
