"""The ``kmc`` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kmc._version import __version__

# Numba, ArviZ and Matplotlib take seconds to import: a subcommand imports what it needs when it runs.

_EXAMPLE = """\
example:
  kmc demo --directory results --seed 7
      draws from a posterior whose likelihood is an ODE solver, in less than two minutes
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 0, 1 after an error, 2 for wrong arguments, 130 after Ctrl-C."""
    args = _parser().parse_args(argv)
    try:
        args.command(args)
    except KeyboardInterrupt:
        print("kmc: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if args.debug:
            raise
        print(f"kmc: {type(error).__name__}: {error}", file=sys.stderr)
        print("kmc: run it again with --debug for the traceback", file=sys.stderr)
        return 1
    return 0


def _demo(args: argparse.Namespace) -> None:
    from kmc import demo

    demo.run(args.directory, max_evaluations=args.evaluations, seed=args.seed, progress=not args.quiet)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kmc",
        description="Sample posteriors without gradients.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kmc {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    demo = commands.add_parser(
        "demo",
        help="lynx and hares: sample a real posterior and compare with the published one",
        description="Fit the Lotka-Volterra equations to a century-old record of lynx and hare pelts. Writes the "
        "draws (kmc-demo.nc) and a picture (kmc-demo.png).",
    )
    demo.add_argument("--directory", default=".", metavar="D", help="where to write (default: here)")
    demo.add_argument("--evaluations", type=_positive, default=6000, metavar="N", help="budget (default: 6000)")
    demo.add_argument("--seed", type=_natural, default=1900, metavar="S", help="random seed (default: 1900)")
    demo.add_argument("--quiet", action="store_true", help="no progress display")
    demo.add_argument("--debug", action="store_true", help="show the traceback of an error")
    demo.set_defaults(command=_demo)
    return parser


def _natural(text: str, least: int = 0) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return number


def _positive(text: str) -> int:
    return _natural(text, least=1)


if __name__ == "__main__":
    sys.exit(main())
