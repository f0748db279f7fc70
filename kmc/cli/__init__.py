"""The ``kernelmc`` command: one module for each subcommand.

It is built on argparse: help has to come at once, and the packages that would make it prettier take as long to import
as the interpreter takes to start.
"""

from kmc.cli.main import main

__all__ = ["main"]
