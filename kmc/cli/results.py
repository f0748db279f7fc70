"""Results of runs: read, written, and in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


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


def write(idata: Any, path: Path) -> None:
    """A netCDF file; its folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    idata.to_netcdf(str(path), engine="h5netcdf")


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
