"""Results of runs: read, written, and in words."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kmc._names import COMMAND

MOST_ROWS = 10  # of a summary that nobody asked to be longer


def read(path: Path) -> Any:
    """What a netCDF file or a store holds.

    Raises
    ------
    FileNotFoundError
        There is nothing.
    """
    if not path.exists():
        raise FileNotFoundError(f"{str(path)!r}: there is no such file or store")
    if path.is_dir():
        import kmc

        return kmc.load(path)
    import arviz

    return arviz.from_netcdf(str(path))


@dataclass(frozen=True)
class Output:
    """The netCDF file that a run's draws go to, and never by mistake over other draws.

    Parameters
    ----------
    path : Path or None
        None: the draws are not written.
    overwrite : bool
        Whether a complete run may replace what is there.
    """

    path: Path | None
    overwrite: bool

    def check(self) -> None:
        """Before anything is sampled: see that the file can be written.

        Raises
        ------
        FileExistsError
            It is there already, and is not to be replaced.
        OSError
            Its folder cannot be made or written to.
        """
        if self.path is None:
            return
        if self.path.is_dir():
            raise IsADirectoryError(f"--output {str(self.path)!r} is a folder: expected the name of a file")
        if self.path.exists() and not self.overwrite:
            raise FileExistsError(
                f"--output {str(self.path)!r} exists: pass --overwrite to replace it when the run is complete, "
                "or take another name"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(self.path.parent, os.W_OK):
            raise PermissionError(f"--output {str(self.path)!r}: its folder cannot be written to")

    def deliver(self, idata: Any, store: Path | None) -> int:
        """Describe the draws and write them; returns the exit code."""
        describe(idata)
        interrupted = bool(idata.attrs.get("interrupted"))
        if self.path is not None:
            replaces = self.overwrite and not interrupted
            path = self.path if replaces or not self.path.exists() else _beside(self.path, "interrupted")
            _write(idata, path)
            print(f"draws {path}")
        if not interrupted:
            return 0
        if store is not None:
            print(f"{COMMAND}: interrupted; {COMMAND} resume {store} continues the run", file=sys.stderr)
        return 130

    @contextmanager
    def kept_after_errors(self) -> Iterator[None]:
        """Write the draws that come with an exception to a file of their own."""
        try:
            yield
        except Exception as error:
            idata = getattr(error, "idata", None)
            if idata is not None and self.path is not None:
                path = _beside(self.path, "failed")
                _write(idata, path)
                n = idata["posterior"].sizes["draw"]
                print(f"{COMMAND}: the run failed; its {n:,} draws per chain are in {path}", file=sys.stderr)
            raise


def add_output(parser: argparse.ArgumentParser) -> None:
    """The options --output and --overwrite."""
    parser.add_argument("--output", type=Path, metavar="FILE.nc", help="netCDF file for the draws")
    parser.add_argument(
        "--overwrite", action="store_true", help="let a complete run replace an existing FILE.nc (refused otherwise)"
    )


def _beside(path: Path, what: str) -> Path:
    """The first of draws.what.nc, draws.what-2.nc, ... that is not taken."""
    names = (path.with_name(f"{path.stem}.{what}{n}{path.suffix}") for n in ("", *(f"-{i}" for i in range(2, 10_000))))
    return next(name for name in names if not name.exists())


def _write(idata, path):
    """Write beside the file and rename: what is there stays whole until the new one is."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        idata.to_netcdf(str(partial), engine="h5netcdf")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def describe(idata: Any, var_names: Sequence[str] | None = None, most: int | None = MOST_ROWS) -> None:
    """Print the summary of the draws, their price and the warnings; of many parameters, the first ``most``."""
    if idata["posterior"].sizes["draw"] >= 4:
        rows = _chosen_rows(idata, var_names)
        shown = rows[:most]
        print(_summary(idata).iloc[shown].to_string(float_format=digits))
        left = len(rows) - len(shown)
        print(f"and {left} more: {COMMAND} summary --all, or --var-names NAME ...\n" if left else "")
    sizes, attrs = idata["posterior"].sizes, idata.attrs
    print(f"{sizes['chain']} chains of {sizes['draw']:,} draws", end="")
    if "n_evaluations" in attrs:
        print(f", {attrs['n_evaluations']:,} evaluations of the log-density, warm-up included", end="")
    print()
    for warning in json.loads(attrs.get("warnings", "[]")):
        print(f"warning: {warning}")


def _summary(idata):
    from kmc.diagnostics.summary import summary

    return summary(idata)


def _chosen_rows(idata, var_names):
    """Numbers of the rows of the summary, which are in the order of the posterior."""
    from kmc.diagnostics.columns import columns, labeled

    variables = {str(name): labeled(variable) for name, variable in idata["posterior"].data_vars.items()}
    places = {column.name: i for i, column in enumerate(columns(variables))}
    return [places[column.name] for column in columns(variables, var_names)]


def digits(value: float) -> str:
    """A number for a table."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
