"""Results of runs: ``summary``, ``report`` and ``status``, and how results are written."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kmc._names import COMMAND
from kmc.cli.options import add_var_names, say, subparser
from kmc.interrupts import ignored
from kmc.run.problems import sentences_of
from kmc.unwritable import import_arviz

_UNCHECKED_BYTES = 2**28  # of an array in a netCDF file that may be all fill values
# largest ratio of the size of an array to that in the file: that of deflate
_MOST_COMPRESSED = 1100
MOST_ROWS = 10  # of a summary, unless more are asked for


def add_summary(commands: Any) -> None:
    """Add ``kernelmc summary``."""
    parser = subparser(
        commands,
        "summary",
        _summary,
        "means, spreads and convergence of finished draws",
        "Print ArviZ's summary of the first ten parameters, the number of draws and their cost, "
        "and the\n"
        "run's warnings.",
        f"  {COMMAND} summary draws.nc --var-names sigma 'slope[A]'",
    )
    parser.add_argument(
        "path", type=Path, metavar="FILE_OR_STORE", help="netCDF file or Zarr store"
    )
    parser.add_argument("--all", action="store_true", help="all parameters, not the first ten")
    add_var_names(parser)


def _summary(args: argparse.Namespace) -> None:
    most = None if args.all or args.var_names else MOST_ROWS
    describe(read(args.path), args.var_names, most)


def add_report(commands: Any) -> None:
    """Add ``kernelmc report``."""
    parser = subparser(
        commands,
        "report",
        _report,
        "a web page about finished draws",
        "Write one HTML page that needs no network: the run's cost, verdict and warnings, the "
        "summary and\n"
        "pictures. An existing page is replaced.",
        f"  {COMMAND} report pendulum.zarr --output pendulum.html",
    )
    parser.add_argument(
        "path", type=Path, metavar="FILE_OR_STORE", help="netCDF file or Zarr store"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE.html",
        help="(default: the name of the draws with .html, in this folder)",
    )
    parser.add_argument("--title", metavar="TEXT", help="heading (default: the name of the draws)")
    add_var_names(parser)


def _report(args: argparse.Namespace) -> None:
    import kmc

    output = args.output or Path(args.path.with_suffix(".html").name)
    page = kmc.report(
        read(args.path), output, var_names=args.var_names, title=args.title or args.path.stem
    )
    say(str(page))


def add_status(commands: Any) -> None:
    """Add ``kernelmc status``."""
    parser = subparser(
        commands,
        "status",
        _status,
        "progress of the run in a store",
        "Print the progress of the run in a store, while it is running or afterwards.",
        f"  {COMMAND} status pendulum.zarr",
    )
    parser.add_argument(
        "store", type=Path, metavar="STORE", help=f"path given to {COMMAND} sample --store"
    )


def _status(args: argparse.Namespace) -> None:
    from kmc.run.display import duration
    from kmc.run.store.commit import read_commit

    header, commit = read_commit(args.store)
    age = (datetime.now(UTC) - datetime.fromisoformat(commit.at)).total_seconds()
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
        "sampling": duration(commit.seconds),
        "written": f"{duration(max(age, 0.0))} ago",  # less than 0 where the clock was set back
    }
    for name, value in rows.items():
        say(f"{name:<12}{value}")


def _ess(store: Path, named: bool) -> str:
    """Return the worst parameter's bulk effective sample size as text; "none yet" if unknown."""
    import kmc
    from kmc.convergence import worst_bulk_ess

    idata = kmc.load(store)
    ess = worst_bulk_ess(idata["unconstrained_posterior" if named else "posterior"]["x"].values)
    return "none yet" if math.isnan(ess) else f"{ess:,.0f}"


def _of(limit: int | None) -> str:
    return "" if limit is None else f" of {limit:,}"


def read(path: Path) -> Any:
    """Read a netCDF file or a store.

    Raises
    ------
    FileNotFoundError
        The path does not exist.
    """
    if not path.exists():
        raise FileNotFoundError(f"{str(path)!r}: there is no such file or store")
    if path.is_dir():
        import kmc

        return kmc.load(path)
    _check_netcdf(path)
    return import_arviz().from_netcdf(str(path))


def _check_netcdf(path: Path) -> None:
    """Raise a ValueError if a file refers to others, or claims far more numbers than it holds."""
    import h5py

    if not h5py.is_hdf5(path):
        return
    with h5py.File(path, "r") as file:
        groups, seen = [file], set()
        while groups:
            group = groups.pop()
            if group.id in seen:
                continue
            seen.add(group.id)
            for name in group:
                place = f"{str(path)!r}: {group.name.rstrip('/')}/{name}"
                if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
                    raise ValueError(
                        f"{place} is a link to another file, which kmc does not follow"
                    )
                found = (
                    group[name]
                    if isinstance(group.get(name, getlink=True), h5py.HardLink)
                    else None
                )
                if isinstance(found, h5py.Group):
                    groups.append(found)
                elif isinstance(found, h5py.Dataset):
                    if found.external or found.is_virtual:
                        raise ValueError(
                            f"{place} has its numbers in another file, which kmc does not follow"
                        )
                    if found.nbytes > max(
                        _UNCHECKED_BYTES, _MOST_COMPRESSED * found.id.get_storage_size()
                    ):
                        raise ValueError(
                            f"{place} claims to have {found.nbytes:,} bytes, more than the file "
                            f"can hold"
                        )


@dataclass(frozen=True)
class Output:
    """The netCDF file for a run's draws, which never replaces other draws by mistake.

    Parameters
    ----------
    path : Path or None
        None: the draws are not written.
    overwrite : bool
        Whether a complete run may replace an existing file.
    """

    path: Path | None
    overwrite: bool

    def check(self) -> None:
        """Check before sampling that the file can be written.

        Raises
        ------
        FileExistsError
            It exists already, and must not be replaced.
        OSError
            Its folder cannot be created or written to.
        """
        if self.path is None:
            return
        if self.path.is_dir():
            raise IsADirectoryError(
                f"--output {str(self.path)!r} is a folder: expected the name of a file"
            )
        if self.path.exists() and not self.overwrite:
            raise FileExistsError(
                f"--output {str(self.path)!r} exists: pass --overwrite to replace it when the run "
                "is complete, or use another name"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(self.path.parent, os.W_OK):
            raise PermissionError(f"--output {str(self.path)!r}: its folder cannot be written to")

    def deliver(self, idata: Any, store: Path | None) -> int:
        """Write the draws, then describe them; return the exit code."""
        interrupted = bool(idata.attrs.get("interrupted"))
        if self.path is not None:
            replaces = self.overwrite and not interrupted
            path = (
                self.path
                if replaces or not self.path.exists()
                else _beside(self.path, "interrupted")
            )
            _write(idata, path)
            say(f"draws {path}")
        describe(idata)
        if not interrupted:
            return 0
        if store is not None:
            say(f"{COMMAND}: interrupted; {COMMAND} resume {store} continues the run", sys.stderr)
        return 130

    @contextmanager
    def kept_after_errors(self) -> Iterator[None]:
        """Write the draws attached to an exception to a separate file."""
        try:
            yield
        except Exception as error:
            idata = getattr(error, "idata", None)
            if idata is not None and self.path is not None:
                path = _beside(self.path, "failed")
                _write(idata, path)
                n = idata["posterior"].sizes["draw"]
                say(
                    f"{COMMAND}: the run failed; its {n:,} draws per chain are in {path}",
                    sys.stderr,
                )
            raise


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options --output and --overwrite to a parser."""
    parser.add_argument("--output", type=Path, metavar="FILE.nc", help="netCDF file for the draws")
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="let a complete run replace an existing FILE.nc (refused otherwise)",
    )


def _beside(path: Path, what: str) -> Path:
    """Return the first free path beside draws.nc: draws.what.nc, draws.what-2.nc, and so on."""
    names = (
        path.with_name(f"{path.stem}.{what}{n}{path.suffix}")
        for n in ("", *(f"-{i}" for i in range(2, 10_000)))
    )
    return next(name for name in names if not name.exists())


def _write(idata, path):
    """Write a temporary file and rename it: the old file is intact until the new one is complete.

    Ctrl-C is ignored until then: pressed twice, it would lose the draws of an interrupted run.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with ignored():
        try:
            idata.to_netcdf(str(partial), engine="h5netcdf")
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def describe(
    idata: Any, var_names: Sequence[str] | None = None, most: int | None = MOST_ROWS
) -> None:
    """Print the summary, the cost, the warnings and what was not checked.

    Of many parameters, only the first ``most`` are printed.
    """
    if idata["posterior"].sizes["draw"] >= 4:
        from kmc.diagnostics.summary import summary, text_of

        table = summary(idata, var_names)
        shown = table[:most]
        say(text_of(shown))
        left = len(table) - len(shown)
        say(f"and {left} more: {COMMAND} summary --all, or --var-names NAME ...\n" if left else "")
    sizes, attrs = idata["posterior"].sizes, idata.attrs
    cost = ""
    if "n_evaluations" in attrs:
        cost = f", {attrs['n_evaluations']:,} evaluations of the log-density, warm-up included"
    say(f"{sizes['chain']} chains of {sizes['draw']:,} draws{cost}")
    if "best" in attrs and sizes["draw"]:
        from kmc.diagnostics.summary import best

        say(f"highest log-density evaluated: {best(idata).evaluation}")
    for warning in sentences_of(attrs):
        say(f"warning: {warning}")
    for sentence in sentences_of(attrs, "not_checked"):
        say(f"not checked: {sentence}")
