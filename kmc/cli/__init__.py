"""The ``kernelmc`` command: its parser, its errors and its exit codes.

It uses argparse because help has to appear at once: packages with prettier help take as long to
import as the interpreter takes to start.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
import warnings
from collections.abc import Collection, Sequence
from typing import Any

from kmc._names import COMMAND, DISTRIBUTION
from kmc._version import __version__
from kmc.cli.options import say
from kmc.cli.results import add_report, add_status, add_summary
from kmc.cli.runs import add_demo, add_resume, add_sample
from kmc.errors import EvaluationError, KmcWarning

_COMMANDS = (add_demo, add_sample, add_resume, add_status, add_summary, add_report)

_EXAMPLES = f"""\
examples:
  {COMMAND} demo --directory results --seed 7
      samples a posterior whose likelihood is an ODE solver, in less than two minutes
  {COMMAND} sample pendulum.py:log_density --dim 4 --max-evaluations 20000 --output draws.nc
      samples your own; then
  {COMMAND} summary draws.nc
  {COMMAND} report draws.nc

exit codes:
  0 success, 1 error, 2 wrong arguments, 130 interrupted (draws made so far are kept)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    The exit code is 0, 1 after an error, 2 for wrong arguments, and 130 after Ctrl-C.
    """
    args = _parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            # the commands print the warnings in the results
            warnings.simplefilter("ignore", KmcWarning)
            warnings.showwarning = _show_warning
            return args.command(args) or 0
    except KeyboardInterrupt:
        say(f"{COMMAND}: interrupted", sys.stderr)
        return 130
    except Exception as error:
        if args.debug:
            say(traceback.format_exc(), sys.stderr)
            return 1
        message = (
            str(error) if isinstance(error, EvaluationError) else in_options(str(error), vars(args))
        )
        say(f"{COMMAND}: {type(error).__name__}: {message}", sys.stderr)
        say(f"{COMMAND}: run it again with --debug for the traceback", sys.stderr)
        return 1


def _show_warning(
    message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Print a warning: it may quote the names in a file."""
    say(warnings.formatwarning(message, category, filename, lineno, line).rstrip(), sys.stderr)


def in_options(message: str, names: Collection[str]) -> str:
    """Translate a message about Python arguments to options of the command.

    Examples
    --------
    >>> in_options("dim=None: a callable needs its number of parameters, such as dim=3", ["dim"])
    '--dim: a callable needs its number of parameters, such as --dim 3'
    >>> in_options("store='a' exists: pass resume=True to continue it; y=2", ["store"])
    "--store 'a' exists: use kernelmc resume to continue it; y=2"
    """
    message = re.sub(r"\bpass resume=True", f"use {COMMAND} resume", message)
    if "model" in names and "target" not in names:  # the subcommand `resume`
        message = message.replace("target=...", "--model FILE.py:NAME")
    for name in names:
        option = "--" + name.replace("_", "-")
        message = re.sub(rf"\b{name}=(None\b|True\b|\.\.\.)", option, message)
        message = re.sub(rf"\b{name}=(?=[\w'\"(\[<-])", f"{option} ", message)
    return message


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Sample posteriors without gradients.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{DISTRIBUTION} {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in _COMMANDS:
        add(commands)
    return parser
