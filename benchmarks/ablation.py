"""What each entry of the default sampler is worth: ``python benchmarks/ablation.py --help``.

Each entry is taken out in turn: coordinates, parts of the surrogate, sources of evaluations, and
moves. A cell is (entry, target, budget, seed), "none" the sampler as it is. Its row is appended to
results/ablation.csv at once, and existing rows are not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import metrics
import numpy as np
from csv_rows import append_row, number, read_rows, run_cells
from honesty_targets import TARGETS
from pages import head

import kmc
import kmc.kernel_hmc.learning as learning
import kmc.kernel_hmc.state as state
import kmc.kernel_hmc.surrogate_chains as surrogate_chains
import kmc.run.independent_run as independent_run
import kmc.surrogate.coordinates.search as search
import kmc.surrogate.process as process
from kmc.kernel_hmc.batch import Beyond, Climb, ClimbFromStarts, Exchanges, Source
from kmc.surrogate.regression import SETTINGS

RESULTS = Path(__file__).parent / "results" / "ablation.csv"
COLUMNS = (
    "entry",
    "target",
    "budget",
    "seed",
    "evaluations",
    "learned_from",
    "ess_per_1000",
    "wrong",
    "said",
    "failure",
)
SOURCES = "IN_BATCHES", "AT_THE_END", "ELSEWHERE"
LOST = 0.8  # of the effective draws
_LEAST = 1.0  # effective draws per 1,000, for the logarithm of one that has none


def _patched(module: Any, name: str, value: Any) -> Callable[[], Any]:
    return lambda: patch.object(module, name, value)


@contextlib.contextmanager
def _without_kernel(index: int) -> Iterator[None]:
    """Leave out a covariance function: the largest amplitude is the smallest one."""
    upper = list(SETTINGS.upper)
    upper[index] = SETTINGS.lower[index]
    with patch.object(process, "SETTINGS", replace(SETTINGS, upper=tuple(upper))):
        fit = process.fit
        with patch.object(
            process,
            "fit",
            lambda *args, **options: fit(*args, **{"settings": process.SETTINGS} | options),
        ):
            yield


@contextlib.contextmanager
def _one_power() -> Iterator[None]:
    """All chains sample the surrogate itself."""
    own = replace(learning.SETTINGS, excess=(0.0, 1e-9, 2e-9))
    with patch.dict(learning.Learning.__init__.__kwdefaults__, {"settings": own}):
        yield


@contextlib.contextmanager
def _random_batches() -> Iterator[None]:
    """Batches are draws of the surrogate, none is chosen."""
    with patch.object(learning, "TYPICAL", 1.0):
        yield


def _without_source(kind: type[Source]) -> Callable[[], Any]:
    left = {
        name: tuple(one for one in getattr(learning, name) if not issubclass(one, kind))
        for name in SOURCES
    }
    return lambda: patch.multiple(learning, **left)


def _option(**options: Any) -> Callable[[], Any]:
    return lambda: patch.object(kmc.KernelHMC, "__init__", _with(kmc.KernelHMC.__init__, options))


def _with(function, options):
    return lambda self, **given: function(self, **options | given)


ENTRIES: dict[str, Callable[[], Any]] = {
    "none": contextlib.nullcontext,
    "coordinates: funnels": _patched(search, "funnels", lambda *args: []),
    "coordinates: bends": _patched(search, "bends", lambda *args: []),
    "coordinates: heavy tails": _patched(search, "heavy_tails", lambda *args, **options: []),
    "coordinates: scales": _patched(
        process, "best_change", lambda observed, coordinates: coordinates
    ),
    "coordinates: walls": _patched(process, "learn_wall", lambda *args, **options: None),
    "parts: bent polynomial": lambda: _without_kernel(1),
    "parts: Matern kernel": lambda: _without_kernel(2),
    "parts: what is known": _patched(independent_run, "added", lambda model: None),
    "sources: chosen points": _random_batches,
    "sources: powers": _one_power,
    "sources: climb": _without_source(Climb),
    "sources: climbs from starts": _without_source(ClimbFromStarts),
    "sources: exchanged coordinates": _without_source(Exchanges),
    "sources: steps beyond the draws": _without_source(Beyond),
    "sources: draws from above": _patched(state, "from_above", lambda process, z, n, rng: z[:n]),
    "moves: jumps between modes": _patched(learning, "find_modes", lambda found, points: None),
    "moves: Gaussians around draws": _patched(
        surrogate_chains, "MOVES", surrogate_chains.MOVES._replace(independence_probability=0.0)
    ),
    "moves: flattened surrogate": _option(tempered_probability=0.0),
    "moves: differential evolution": _option(archive_probability=1e-9),
}


def run_cell(entry: str, name: str, budget: int, seed: int) -> dict[str, Any]:
    """One row."""
    warnings.simplefilter("ignore")
    own = TARGETS[name]
    shape, (truth, _) = own.shape, own.exact
    starts = (
        None if own.starts is None else shape.initial(own.starts, np.random.default_rng([seed, 7]))
    )
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "") | dict(
        zip(COLUMNS, (entry, name, budget, seed), strict=False)
    )
    try:
        with ENTRIES[entry]():
            idata = kmc.sample(
                own.model(seed),
                initial=starts,
                draws=None,
                max_evaluations=budget,
                seed=seed,
                sampler=kmc.KernelHMC(),
                progress=False,
            )
    except Exception as error:  # whatever is raised without an entry says that it is needed
        return row | {
            "failure": f"{type(error).__name__}: {error}"[:200],
            "ess_per_1000": 0.0,
            "wrong": 1,
        }
    x, attrs = idata["posterior"]["x"].values, idata.attrs
    x = np.stack([np.cos(x), np.sin(x)], axis=-1) if name == "angle" else x
    row |= {"evaluations": attrs["n_evaluations"], "learned_from": attrs["n_evaluations_warmup"]}
    row["said"] = " ".join(json.loads(attrs["warning_codes"]))
    if x.shape[1] < 10:
        return row | {"failure": f"{x.shape[1]} draws", "ess_per_1000": 0.0, "wrong": 1}
    found = metrics.quality(x, truth)
    effective = float(np.nan_to_num(found["ess"])) * 1000 / attrs["n_evaluations"]
    return row | {"ess_per_1000": effective, "wrong": int(metrics.wrong(found))}


def table(rows: list[dict[str, Any]]) -> str:
    """Return what is lost without each entry."""
    key = ("target", "budget", "seed")
    known = {(row["entry"], *(row[name] for name in key)): row for row in rows}
    parts = [
        "Effective draws without an entry, relative to those with all, by the geometric mean; "
        "targets that keep less "
        f"than {LOST:.0%}, by that over seeds; and wrong runs, with those among them that have no "
        f"warning.\n",
        "| without | runs | effective draws | targets that lose | wrong (silent) | with all |",
        "| --- | ---: | ---: | --- | ---: | ---: |",
    ]
    for entry in ENTRIES:
        cells = [cell[1:] for cell in known if cell[0] == entry and ("none", *cell[1:]) in known]
        if entry == "none" or not cells:
            continue
        pairs = [(known[entry, *cell], known["none", *cell]) for cell in cells]
        logs = {
            cell: _log(mine) - _log(own) for cell, (mine, own) in zip(cells, pairs, strict=True)
        }
        by_target = {
            cell[0]: [logs[other] for other in cells if other[0] == cell[0]] for cell in cells
        }
        lost = {
            name: np.exp(np.mean(values))
            for name, values in by_target.items()
            if np.mean(values) < np.log(LOST)
        }
        shown = ", ".join(
            f"{name} {share:.2f}" for name, share in sorted(lost.items(), key=lambda item: item[1])
        )
        mine, own = (_wrong([pair[i] for pair in pairs]) for i in range(2))
        parts.append(
            f"| {entry} | {len(cells)} | {np.exp(np.mean(list(logs.values()))):.2f} | {shown} | "
            f"{mine} | {own} |"
        )
    return "\n".join(parts)


def _log(row):
    return float(np.log(max(row["ess_per_1000"], _LEAST)))


def _wrong(rows):
    wrong = [row for row in rows if row["wrong"]]
    return f"{len(wrong)} ({sum(not row['said'] and not row['failure'] for row in wrong)})"


def main() -> None:
    """Run the cells that are missing, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--entries", nargs="+", default=list(ENTRIES), choices=ENTRIES, metavar="ENTRY"
    )
    parser.add_argument(
        "--targets", nargs="+", default=list(TARGETS), choices=TARGETS, metavar="TARGET"
    )
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--seeds", nargs=2, type=int, default=[1, 3], metavar=("FIRST", "END"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()

    def rows():
        return [
            {name: number(text) for name, text in row.items()} for row in read_rows(options.results)
        ]

    done = {tuple(row[name] for name in COLUMNS[:4]) for row in rows()}
    cells = [
        (entry, name, options.budget, seed)
        for seed in range(*options.seeds)
        for entry in options.entries
        for name in options.targets
        if (entry, name, options.budget, seed) not in done
    ]

    def finish(row):
        append_row(options.results, COLUMNS, row)
        return f"{row['failure'] or round(row['ess_per_1000'])} {row['said']}"

    failures = run_cells(run_cell, cells, options.jobs, finish)
    title = head(
        "What is each entry of the sampler worth?",
        "python benchmarks/ablation.py",
        ("ablation.csv",),
    )
    text = table(rows())
    options.results.with_suffix(".md").write_text(f"{title}{text}\n")
    print(text, *failures, sep="\n")


if __name__ == "__main__":
    main()
