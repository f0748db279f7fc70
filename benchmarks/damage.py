"""Damage every file of stores, one after the other, and count what reading and resuming them then
gives.

    python -m benchmarks.damage [--kinds plain named ...] [--every 1]

Five kinds of stores: plain, with names and blobs, with given evaluations, of several independent
runs, and of a run that was interrupted. Each file is deleted, emptied, truncated, zeroed, and has
one bit flipped. Then the store is loaded and read whole, and, as a copy, resumed. Of each, the
outcome is one of

- right: all that the undamaged store gives, bit for bit;
- told: an error that names the file, or a warning that says what is left out, and the rest is
  right;
- silent: something is missing or differs, and nothing says so;
- crash: an error of another kind;
- hang: more than ten seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import kmc

SECONDS = 10.0
OUTCOMES = "right", "told", "silent", "crash", "hang"
SMALL = kmc.KernelHMC(learning_share=0.3, burn_in=3)
ASKED = {
    "chains": 2,
    "draws": 40,
    "max_evaluations": 300,
    "seed": 7,
    "progress": False,
    "save_warmup": True,
}
HARMS: dict[str, Callable[[Path], Any]] = {
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 3]),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "flipped": lambda path: path.write_bytes(_flipped(path.read_bytes())),
}


class Stopped(Exception):
    """Raised by the function of a run that is interrupted."""


def log_density(x: np.ndarray) -> float:
    return -0.5 * float(x @ x) - 0.1 * float(x[0] ** 4)


def named(p: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    return -0.5 * p["a"] ** 2 - p["b"], {"twice": 2 * p["b"]}


def stopping(n: int) -> Callable[[np.ndarray], float]:
    """Return a log-density that raises at its n-th call."""
    calls = iter(range(n))

    def function(x: np.ndarray) -> float:
        if next(calls, None) is None:
            raise Stopped
        return log_density(x)

    return function


def kinds() -> dict[str, dict[str, Any]]:
    """Return the arguments of each kind of store's run."""
    x = np.random.default_rng(1).standard_normal((60, 2))
    vector = {"target": log_density, "dim": 2}
    return {
        "plain": {**vector, "sampler": "random-walk"},
        "named": {
            "target": kmc.Model(named, parameters={"a": kmc.Real(), "b": kmc.Positive()}),
            "sampler": "adaptive-metropolis",
        },
        "history": {
            **vector,
            "sampler": SMALL,
            "history": (x, np.array([log_density(row) for row in x])),
        },
        "independent": {**vector, "sampler": SMALL, "independent_runs": 2, "max_evaluations": 600},
        "unfinished": {**vector, "sampler": "random-walk"},
    }


def make(kind: str, path: Path) -> Any:
    """Make a store; return the result that it has, or is to have after it was resumed."""
    asked = {**ASKED, **kinds()[kind]}
    if kind != "unfinished":
        return kmc.sample(**asked, store=path)
    with contextlib.suppress(kmc.EvaluationError):
        kmc.sample(**{**asked, "target": stopping(150)}, store=path)
    return kmc.sample(**asked)


def everything(idata: Any) -> Iterator[tuple[str, Any]]:
    """Yield all variables of a result by group and name, each as bytes, or as the error of reading
    it.
    """
    names = (
        idata.groups() if callable(idata.groups) else [name for name in idata.groups if name != "/"]
    )
    for group in set(names) - {"final_state"}:  # a run with a store has it there
        for name, variable in idata[group].data_vars.items():
            try:
                values = variable.values
                yield (
                    f"{group}/{name}",
                    values.tolist() if values.dtype == object else values.tobytes(),
                )
            except kmc.run.store.files.StoreError as error:
                yield f"{group}/{name}", error


def outcome(attempt: Callable[[], Any], expected: dict[str, Any], path: Path) -> str:
    """Return what came of an attempt to get the expected variables."""
    began = time.monotonic()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = dict(everything(attempt()))
        except (kmc.run.store.files.StoreError, FileNotFoundError) as error:
            return "told" if path.name in str(error) else "crash"
        except Exception:
            return "crash"
    if time.monotonic() - began > SECONDS:
        return "hang"
    if found == expected:
        return "right"
    warned = any("is damaged" in str(warning.message) for warning in said)
    differ = [name for name, value in expected.items() if found.get(name) != value]
    named = all(isinstance(found[name], Exception) if name in found else warned for name in differ)
    return "told" if named else "silent"


def campaign(kind: str, folder: Path, every: int = 1) -> tuple[Counter, list[str]]:
    """Damage every n-th file of a kind of store in each way; return the outcomes, and what was
    silent or crashed.
    """
    path = folder / "run.zarr"
    result = make(kind, path)
    resumed = dict(everything(result))
    loaded = dict(everything(kmc.load(path)))
    asked = {**ASKED, **kinds()[kind]}
    counts, bad = Counter(), []
    files = sorted(file for file in path.rglob("*") if file.is_file())[::every]
    for file in files:
        for harm, damage in HARMS.items():
            shutil.rmtree(folder / "copy.zarr", ignore_errors=True)
            copy = Path(shutil.copytree(path, folder / "copy.zarr"))
            damage(copy / file.relative_to(path))
            attempts = {
                "load": (lambda: kmc.load(copy), loaded),  # noqa: B023
                "resume": (lambda: kmc.sample(**asked, store=copy, resume=True), resumed),  # noqa: B023
            }
            for what, (attempt, expected) in attempts.items():
                found = outcome(attempt, expected, copy)
                counts[what, found] += 1
                if found not in ("right", "told"):
                    bad.append(f"{kind}: {what} after {file.relative_to(path)} was {harm}: {found}")
    return counts, bad


def _flipped(content: bytes) -> bytes:
    """Return the bytes with one bit changed near their beginning, where there are data."""
    at = min(9, len(content) - 1)
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] if content else content


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", nargs="+", choices=list(kinds()), default=list(kinds()))
    parser.add_argument("--every", type=int, default=1, help="damage only every n-th file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| store | attempt | " + " | ".join(OUTCOMES) + " |")
    print("| --- | --- |" + " ---: |" * len(OUTCOMES), flush=True)
    bad = []
    for kind in options.kinds:
        with tempfile.TemporaryDirectory() as folder:
            counts, found = campaign(kind, Path(folder), options.every)
        bad += found
        for what in ("load", "resume"):
            row = " | ".join(str(counts[what, name]) for name in OUTCOMES)
            print(f"| {kind} | {what} | {row} |", flush=True)
    print("\n".join(bad))


if __name__ == "__main__":
    main()
