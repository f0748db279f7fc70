"""``kernelmc sample``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kmc._names import COMMAND
from kmc.cli import results, targets
from kmc.cli.options import OldName, add_max_time, add_quiet, natural, positive, subparser

# Options that go to kmc.sample as they are: its own defaults hold for those that are not given.
_HANDED_ON = (
    "dim",
    "warmup",
    "chains",
    "max_evaluations",
    "max_time",
    "seed",
    "sampler",
    "independent_runs",
    "executor",
    "store",
)

_EXAMPLE = f"""\
  {COMMAND} sample pendulum.py:log_density --dim 4 --max-evaluations 20000 --output draws.nc
      pendulum.py defines log_density(x), for an array x of shape (4,)
  {COMMAND} sample --model pendulum.py:model --draws 2000 --executor 8 --store pendulum.zarr
      it defines model = kmc.Model(...); eight processes evaluate it, and "{COMMAND} resume" can resume the run
"""


def add_parser(commands: Any) -> None:
    """Add the subcommand."""
    parser = subparser(
        commands,
        "sample",
        _run,
        "draw from a log-density of your own",
        "Draw from a log-density: a function of one array, or a kmc.Model. Prints a summary and writes\nthe draws.",
        _EXAMPLE,
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "target",
        nargs="?",
        type=targets.as_name,
        metavar="MODULE:FUNCTION",
        help="a function, as FILE.py:FUNCTION, too",
    )
    target.add_argument("--model", type=targets.as_name, metavar="FILE.py:NAME", help="a kmc.Model")
    parser.add_argument("--dim", type=positive, metavar="D", help="number of parameters, for a function")
    parser.add_argument(
        "--draws",
        type=positive,
        metavar="N",
        help="draws per chain (default: as many as --max-evaluations or --max-time allows; 1000 without these)",
    )
    parser.add_argument("--warmup", type=natural, metavar="N", help="sweeps of warm-up (default: the sampler decides)")
    parser.add_argument("--chains", type=positive, metavar="N", help="(default: 4)")
    parser.add_argument("--max-evaluations", type=positive, metavar="N", help="budget, warm-up included")
    add_max_time(parser)
    parser.add_argument("--seed", type=natural, metavar="S", help="random seed")
    parser.add_argument("--sampler", metavar="NAME", help="kernel-hmc (default), adaptive-metropolis or random-walk")
    parser.add_argument("--independent-runs", type=positive, metavar="N", help="independent runs that share the chains")
    parser.add_argument("--replicas", type=positive, dest="independent_runs", action=OldName, help=argparse.SUPPRESS)
    parser.add_argument("--executor", type=positive, metavar="N", help="processes that evaluate the log-density")
    parser.add_argument(
        "--initial", type=Path, metavar="FILE", help="start points, one per row: .npy, or .csv without a header"
    )
    parser.add_argument("--store", type=Path, metavar="DIR", help="Zarr store that is written while sampling")
    results.add_output(parser)
    add_quiet(parser)


def _run(args: argparse.Namespace) -> int:
    import kmc

    if args.output is None and args.store is None:
        args.parser.error("give --output or --store: the draws have to go somewhere")
    options = {name: value for name in _HANDED_ON if (value := getattr(args, name)) is not None}
    if (args.draws, args.max_evaluations, args.max_time) != (None, None, None):
        options["draws"] = args.draws
    if args.initial is not None:
        options["initial"] = _read_points(args.initial)
    output = results.Output(args.output, args.overwrite)
    output.check()
    with output.kept_after_errors():
        idata = kmc.sample(targets.load(args.target or args.model), progress=not args.quiet, **options)
    return output.deliver(idata, args.store)


def _read_points(path: Path) -> Any:
    import numpy as np

    if path.suffix not in (".npy", ".csv"):
        raise ValueError(f"--initial {str(path)!r}: expected a file .npy or .csv")
    try:
        return np.load(path) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"--initial {str(path)!r}: {error}") from error
