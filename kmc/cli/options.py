"""Common parts of the subcommands: their parsers, and how they print."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, TextIO


def subparser(
    commands: Any,
    name: str,
    command: Callable[[argparse.Namespace], int | None],
    about: str,
    more: str,
    example: str,
) -> argparse.ArgumentParser:
    """Add a subcommand's parser.

    Parameters
    ----------
    commands : return value of ``ArgumentParser.add_subparsers``
    name : str
    command : callable
        Called with the parsed arguments; returns the exit code, None for 0.
    about : str
        One line for ``kernelmc --help``.
    more : str
        For the subcommand's own help.
    example : str
        Command lines and their effects.
    """
    parser = commands.add_parser(
        name,
        help=about,
        description=more,
        epilog=f"example:\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(command=command, parser=parser)
    return parser


def say(text: str, file: TextIO | None = None) -> None:
    r"""Print text with escapes, so that names and warnings of a file cannot control the terminal.

    Every command prints by this function alone.

    Examples
    --------
    >>> say("a parameter named \x1b[2J")
    a parameter named \x1b[2J
    """
    print("".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text), file=file)


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add the option --quiet to a parser."""
    parser.add_argument("--quiet", action="store_true", help="no progress display")


def add_var_names(parser: argparse.ArgumentParser) -> None:
    """Add the option --var-names to a parser."""
    parser.add_argument(
        "--var-names",
        nargs="+",
        metavar="NAME",
        help="parameters, or elements such as 'slope[A]' (default: all)",
    )


def add_max_time(parser: argparse.ArgumentParser) -> None:
    """Add the option --max-time to a parser."""
    parser.add_argument(
        "--max-time",
        type=seconds,
        metavar="SECONDS",
        help="stop then and keep the draws so far; warm-up gets half of it",
    )


def seconds(text: str) -> float:
    """Return text as a positive, finite number of seconds, or raise an ArgumentTypeError."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return number


def natural(text: str, least: int = 0) -> int:
    """Return text as a whole number of at least ``least``, or raise an ArgumentTypeError."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return number


def positive(text: str) -> int:
    """Return text as a whole number of at least 1, or raise an ArgumentTypeError."""
    return natural(text, least=1)
