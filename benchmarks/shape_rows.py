"""A row of results/shapes.csv: its numbers, from draws and the truth, and the verdict.

A run is *wrong* if it is grossly off, whatever its own errors are: a mean by more than .3 true sd,
a 5-95 % width by more than 25 %, the weight of a mode by more than .1, or a mode with at least 2 %
of the mass that has under a fifth of its weight. It is also wrong if it is off by half as much (.15
sd, 12 %, .05) and that is over six standard errors for its own effective sample size. If there is
no mean, the median is compared in units of the 5-95 % width over 3.29.

A wrong run with a warning is "wrong, warned". Without one it is "silently wrong" if each mode of at
least 2 % of the mass was *seen*, that is, evaluated above the 2 % quantile of its own draws'
log-densities, so that the run had the information that it needed; otherwise "a mode never seen",
which no run can tell.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
from csv_rows import number, read_rows
from shape_targets import Shape
from targets import TAILS

KEY = ("label", "target", "starts", "method", "budget", "seed")
NUMBERS = (
    "bias",
    "width_min",
    "width_max",
    "share_error",
    "least_share",
    "excess",
    "ess",
    "tail_ess",
    "mode_ess",
)
FACTS = (
    "family",
    "dim",
    "modes",
    "seen",
    "evaluations",
    "draws",
    "acceptance",
    "rhat",
    "seconds",
    "own_seconds",
)
COLUMNS = (*KEY, *FACTS, *NUMBERS, "shares", "failure", "warnings", "said")
VERDICTS = ("right", "right, warned", "wrong, warned", "silently wrong", "a mode never seen")
BIAS, WIDTH, SHARE, LOST, MASS, SIGMAS = 0.3, 0.25, 0.1, 0.2, 0.02, 6.0


def quality(draws: np.ndarray, task: Shape) -> dict[str, Any]:
    """The numbers of a row, from draws (chains, n, d).

    ``excess``: among the statistics that are off by at least half of a gross error, the largest
    error in standard errors.
    """
    truth = task.truth
    flat = draws.reshape(-1, draws.shape[-1])
    center = np.median(flat, axis=0) if truth.heavy else flat.mean(0)
    bias = np.abs(center - truth.center) / truth.scale
    below_center = (draws <= truth.center).astype(float) if truth.heavy else draws
    spread = 0.5 * np.sqrt(2 * math.pi) if truth.heavy else 1.0  # of a median, approximately
    bias_error = spread / np.sqrt(each_ess(below_center, method="mean"))
    low, high = np.quantile(flat, TAILS, axis=0)
    true_width = truth.quantiles[1] - truth.quantiles[0]
    width = (high - low) / true_width
    # By the mass below the true quantiles: a quantile in a gap between modes has no standard error.
    below = [draws <= q for q in truth.quantiles]
    sigmas = np.max(
        [_sigmas(inside.astype(float), p) for inside, p in zip(below, TAILS, strict=True)], axis=0
    )
    width_error = np.abs(width - 1) / np.maximum(sigmas, 1e-9)
    found = [(bias, bias_error, BIAS), (np.abs(width - 1), width_error, WIDTH)]
    ess = each_ess(draws, method="bulk").min()
    numbers: dict[str, Any] = {
        "bias": bias.max(),
        "width_min": width.min(),
        "width_max": width.max(),
        "ess": ess,
        "tail_ess": each_ess(draws, method="tail", prob=(0.05, 0.95)).min(),
        "rhat": max(float(az.rhat(column)) for column in np.moveaxis(draws, 2, 0)),
    }
    if task.label is not None:
        labels = task.label(flat).reshape(draws.shape[:2])
        inside = np.stack([labels == k for k in range(len(truth.shares))], axis=2).astype(float)
        shares = inside.mean((0, 1))
        mode_ess = each_ess(inside, method="mean")
        found.append(
            (
                np.abs(shares - truth.shares),
                np.sqrt(truth.shares * (1 - truth.shares) / mode_ess),
                SHARE,
            )
        )
        much = truth.shares >= MASS
        numbers |= {
            "share_error": np.abs(shares - truth.shares).max(),
            "least_share": (shares / truth.shares)[much].min(),
            "mode_ess": mode_ess.min() if np.all(shares > 0) else 1.0,
            "shares": " ".join(f"{share:.3f}" for share in shares),
        }
    material = [
        float((off / error)[off > 0.5 * gross].max(initial=0)) for off, error, gross in found
    ]
    return numbers | {"excess": max(material)}


def _sigmas(inside, mass):
    """Return how many standard errors the mean of each column of 0 and 1, (chains, n, d), is off
    its true value.
    """
    error = np.sqrt(mass * (1 - mass) / each_ess(inside, method="mean"))
    return np.abs(inside.mean((0, 1)) - mass) / error


def wrong(row: dict) -> bool:
    """Whether the run's draws mislead, see the module's docstring; a run without draws or numbers
    is wrong.
    """
    if row["failure"] or row["bias"] == "" or math.isnan(row["bias"]):
        return True
    gross = row["bias"] > BIAS or row["width_min"] < 1 - WIDTH or row["width_max"] > 1 + WIDTH
    if row["share_error"] != "":
        gross |= row["share_error"] > SHARE or row["least_share"] < LOST
    return bool(gross or row["excess"] > SIGMAS)


def verdict(row: dict) -> str:
    """One of VERDICTS."""
    if not wrong(row):
        return "right, warned" if row["warnings"] else "right"
    if row["warnings"]:
        return "wrong, warned"
    # "": a peer
    return "silently wrong" if row["seen"] in ("", row["modes"]) else "a mode never seen"


def per_1000(row: dict, name: str) -> float:
    """A number of effective draws per 1,000 evaluations."""
    return math.nan if row[name] == "" else 1000 * row[name] / row["evaluations"]


def each_ess(draws, **options) -> np.ndarray:
    """ESS (d,) per column; a constant column gives no information, and counts with all draws."""
    size = draws.shape[0] * draws.shape[1]
    values = [float(az.ess(draws[:, :, i], **options)) for i in range(draws.shape[-1])]
    return np.where(np.isfinite(values), values, size)


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of the CSV, the last one of each cell."""
    rows = [
        {name: _value(name, row.get(name) or "") for name in COLUMNS} for row in read_rows(path)
    ]
    return list({tuple(row[name] for name in KEY): row for row in rows}.values())


def _value(name: str, text: str):
    texts = ("label", "target", "starts", "method", "family", "shares", "failure", "said")
    return text if name in texts else number(text)
