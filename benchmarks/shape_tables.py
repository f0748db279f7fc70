"""Tables of ``shapes.py``: of a label, and for the pages."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from pages import head
from shape_rows import VERDICTS, per_1000, verdict
from shape_targets import FAMILIES, NAMES, STARTS

HERE = Path(__file__).parent
DEFINITIONS = """\
- **Starts**: "cover" are two exact draws of each mode, "box" four uniform points in the box of all modes, "one" four
  draws of one mode, "spread" the mean plus two standard deviations of noise.
- **Verdicts**: a run is *wrong* if a mean is off by 0.3 standard deviations, a 5–95 % width by a quarter, or the weight
  of a mode by 0.1; also if it is off by half of that and by six of its own standard errors (`shape_rows.py` has the
  whole definition). *Silently wrong* has no warning although each mode was evaluated; *a mode never seen* is what no
  run can report.
- **ESS per 1000**: of right runs, the smallest over coordinates, per 1,000 evaluations: median and least. "mode ESS" is
  that of the modes' weights. **own ms**: processor time outside the log-density, per evaluation.
- **Rows** of [shapes.csv](shapes.csv): of each target, start policy and budget, those of the version of kmc that was
  measured last, on seeds on which nothing was tried. The label is the commit of that version."""  # noqa: E501
CONTINUES = {"0172b5d": "828d427", "f616c8a": "e9d0280", "0664e27": "e9d0280"}
"""Labels that continue an earlier one with other seeds: the same sampler, but for hierarchies or a
repair.
"""


def table(rows: list[dict], by: tuple[str, ...]) -> str:
    """Markdown: a line for each combination of values of these columns; effective draws are those
    of right runs.
    """
    head = [*by, "runs", *VERDICTS, "ESS per 1000 (least)", "tail ESS", "mode ESS", "own ms"]
    lines = [
        f"| {' | '.join(head)} |",
        "| " + " | ".join(["---"] * len(by) + ["---:"] * (len(head) - len(by))) + " |",
    ]
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    for key, group in groups.items():
        verdicts = [verdict(row) for row in group]
        right = [
            row for row, found in zip(group, verdicts, strict=True) if found.startswith("right")
        ]
        ess, tail, mode = (
            np.array([per_1000(row, name) for row in right])
            for name in ("ess", "tail_ess", "mode_ess")
        )
        own = [1000 * row["own_seconds"] / row["evaluations"] for row in group]
        cells = [f"{value:,}" if isinstance(value, int) else value for value in key]
        cells += [str(len(group)), *(str(verdicts.count(name) or "") for name in VERDICTS)]
        cells += [
            f"{_median(ess)} ({ess.min():.3g})" if right else "",
            _median(tail),
            _median(mode),
        ]
        lines.append(f"| {' | '.join([*cells, f'{np.median(own):.2g}'])} |")
    return "\n".join(lines)


def _median(values):
    return "" if np.isnan(values).all() else f"{np.nanmedian(values):.3g}"


def report(rows: list[dict]) -> str:
    """Markdown: families and then targets, of each label, method and budget."""
    parts, kinds = [], ("label", "method", "budget")
    for kind in dict.fromkeys(tuple(row[name] for name in kinds) for row in rows):
        mine = [row for row in in_order(rows) if tuple(row[name] for name in kinds) == kind]
        parts.append("### {}, {}, {:,} evaluations".format(*kind))
        parts += [table(mine, ("family", "starts")), table(mine, ("target", "starts"))]
    return "\n\n".join(parts)


def write_page(rows: list[dict]) -> None:
    """Write results/shapes.md, with a table of families and one of targets."""
    rows = in_order([row for row in latest(rows) if row["method"] == "kmc"])
    verdicts = [verdict(row) for row in rows]
    counts = "; ".join(f"{verdicts.count(name)} {name}" for name in VERDICTS)
    parts = [
        head("Hard shapes: right, or warned of?", "python benchmarks/shapes.py --page")
        + DEFINITIONS,
        f"All {len(rows)} runs: {counts}.",
        table(rows, ("family", "starts", "budget")),
        table(rows, ("target", "starts", "budget", "label")),
    ]
    (HERE / "results" / "shapes.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def latest(rows: list[dict]) -> list[dict]:
    """Of each target, start policy, method and budget the rows of the version that was measured
    last, one per seed.
    """
    age = {label: i for i, label in enumerate(dict.fromkeys(_version(row) for row in rows))}

    def kind(row: dict) -> tuple[Any, ...]:
        return row["target"], row["starts"], row["method"], row["budget"]

    kept = []
    for _, group in groupby(sorted(rows, key=kind), kind):
        ages = [(age[_version(row)], row) for row in group]
        newest = max(value for value, _ in ages)
        kept += {row["seed"]: row for value, row in ages if value == newest}.values()
    return kept


def _version(row: dict) -> str:
    return CONTINUES.get(row["label"], row["label"])


def in_order(rows: list[dict]) -> list[dict]:
    """Sorted by family, start policy, budget and target."""
    targets = {name: i for i, name in enumerate(NAMES)}
    families = {name: i for i, name in enumerate(FAMILIES)}
    policies = {name: i for i, name in enumerate(STARTS)}

    def place(row: dict) -> tuple[Any, ...]:
        return (
            families[row["family"]],
            policies[row["starts"]],
            row["budget"],
            targets[row["target"]],
        )

    return sorted(rows, key=place)
