"""Results of runs: read, written, and in words."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kmc._names import COMMAND


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


def deliver(idata: Any, output: Path | None, store: Path | None) -> int:
    """Describe the draws and write them, if there is a file to write to; returns the exit code."""
    describe(idata)
    if output is not None:
        _write(idata, output)
    if not idata.attrs.get("interrupted"):
        return 0
    if store is not None:
        print(f"{COMMAND}: interrupted; {COMMAND} resume {store} goes on with it", file=sys.stderr)
    return 130


@contextmanager
def kept_after_errors(output: Path | None) -> Iterator[None]:
    """Write the draws that come with an exception."""
    try:
        yield
    except Exception as error:
        idata = getattr(error, "idata", None)
        if idata is not None and output is not None:
            _write(idata, output)
        raise


def _write(idata, output):
    output.parent.mkdir(parents=True, exist_ok=True)
    idata.to_netcdf(str(output), engine="h5netcdf")
    print(f"draws {output}")


def describe(idata: Any) -> None:
    """Print the summary of the draws, their price and the warnings."""
    import arviz

    if idata["posterior"].sizes["draw"] >= 4:
        print(arviz.summary(idata, round_to="none").to_string(float_format=digits), end="\n\n")
    sizes, attrs = idata["posterior"].sizes, idata.attrs
    print(f"{sizes['chain']} chains of {sizes['draw']:,} draws", end="")
    if "n_evaluations" in attrs:
        print(f", {attrs['n_evaluations']:,} evaluations of the log-density, warm-up included", end="")
    print()
    for warning in json.loads(attrs.get("warnings", "[]")):
        print(f"warning: {warning}")


def digits(value: float) -> str:
    """A number for a table."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
