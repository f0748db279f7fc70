"""``kernelmc status``."""

from __future__ import annotations

import argparse
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kmc._names import COMMAND
from kmc.cli.options import subparser


def add_parser(commands: Any) -> None:
    """Add the subcommand."""
    parser = subparser(
        commands,
        "status",
        _run,
        "progress of the run in a store",
        "Print the progress of the run in a store, while it is running or afterwards.",
        f"  {COMMAND} status pendulum.zarr",
    )
    parser.add_argument("store", type=Path, metavar="STORE", help=f"what was given to {COMMAND} sample --store")


def _run(args: argparse.Namespace) -> None:
    from kmc.run.store.commit import read_commit

    header, commit = read_commit(args.store)
    settings = header["settings"]
    phase = "finished" if commit.finished else "sampling" if commit.n_draws else "warm-up"
    rows = {
        "phase": phase,
        "sampler": settings["sampler"],
        "parameters": f"{settings['dim']:,}",
        "chains": f"{settings['chains']} in {settings['independent_runs']} independent run(s)",
        "warm-up": f"{min(commit.n_warmup):,} sweeps",
        "draws": f"{commit.n_draws:,}{_of(commit.draws)} per chain",
        "evaluations": f"{commit.n_evaluations:,}{_of(commit.max_evaluations)}",
        "least ESS": _ess(args.store, header["named"]) if commit.n_draws else "none yet",
        "sampling": _time(commit.seconds),
        "written": f"{_time((datetime.now(UTC) - datetime.fromisoformat(commit.at)).total_seconds())} ago",
    }
    for name, value in rows.items():
        print(f"{name:<12}{value}")


def _ess(store: Path, named: bool) -> str:
    """The bulk effective sample size of the worst parameter."""
    import kmc
    from kmc.run.ess import worst_bulk_ess

    idata = kmc.load(store)
    ess = worst_bulk_ess(idata["unconstrained_posterior" if named else "posterior"]["x"].values)
    return "none yet" if math.isnan(ess) else f"{ess:,.0f}"


def _of(limit: int | None) -> str:
    return "" if limit is None else f" of {limit:,}"


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
