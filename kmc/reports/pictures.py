"""The pictures of a report, inside the page, each with a text that says what it shows."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from html import escape
from io import BytesIO
from typing import Any

import numpy as np
from scipy.stats import rankdata

from kmc.plots.pairs import plot_pairs
from kmc.plots.style import ACCENT, INK, SHADES
from kmc.reports.facts import Facts, group

MOST_PAIRS = 8  # columns of the pairs plot
MOST_TRACES = 5
_POINTS = 2000  # of a line or a cloud; more would only make the page larger
_BLOCKS = 60  # means along the run
_BINS = 20
_LINES = ("#1f6478", "#c8553d", "#4a8fa1", "#8a6d1d", "#33373d", "#7a4b8c")
_DPI = 110


def pictures(idata: Any, facts: Facts) -> Iterator[str]:
    """The pictures that the result has data for."""
    moving = [i for i in range(len(facts.columns)) if np.isfinite(facts.ess[i])]
    if moving:
        yield _pairs(idata, facts, moving)
        yield _traces(facts)
    stats = group(idata, "sample_stats")
    if stats is not None and "acceptance_rate" in stats:
        yield _acceptance(stats, group(idata, "warmup_sample_stats"))
    proposals = group(idata, "proposals")
    if proposals is not None and {"lp", "surrogate"} <= set(proposals.data_vars):
        yield from _surrogate(proposals)


def _pairs(idata: Any, facts: Facts, moving: list[int]) -> str:
    shown = sorted([i for i in facts.slowest(len(facts.columns)) if i in moving][:MOST_PAIRS])
    names = [facts.columns[i].name for i in shown]
    side = min(2.0 + 1.1 * len(names), 9.5)
    figure = _figure(side, side, constrained=False)
    plot_pairs(idata, names, max_rows=None, figure=figure)
    which = "" if len(shown) == len(facts.columns) else f" Of {len(facts.columns)} parameters, those that mix worst."
    text = f"Marginal distribution of each parameter, and of each pair: {', '.join(names)}."
    return _shown(figure, text, text + which)


def _traces(facts: Facts) -> str:
    chosen = facts.slowest(MOST_TRACES)
    figure = _figure(9.0, 1.6 * len(chosen) + 0.6)
    axes = figure.subplots(len(chosen), 2, squeeze=False)
    for (left, right), i in zip(axes, chosen):
        values = facts.values(facts.columns[i])
        every = max(1, values.shape[1] // _POINTS)
        for chain, line in enumerate(values):
            left.plot(np.arange(line.size)[::every], line[::every], linewidth=0.5, color=_LINES[chain % len(_LINES)])
        _ranks(right, values)
        left.set_ylabel(facts.columns[i].name, color=INK)
    axes[0, 0].set_title("draws of each chain", fontsize=10, color=INK)
    axes[0, 1].set_title("ranks, one line for each chain", fontsize=10, color=INK)
    names = ", ".join(facts.columns[i].name for i in chosen)
    text = f"Traces and rank histograms of the parameters with the fewest effective draws: {names}."
    return _shown(figure, text, text + " Chains that have mixed look alike, and their ranks are flat.")


def _ranks(ax: Any, values: np.ndarray) -> None:
    ranks = rankdata(values, axis=None).reshape(values.shape)
    edges = np.linspace(0.5, values.size + 0.5, _BINS + 1)
    for chain, line in enumerate(ranks):
        counts = np.histogram(line, edges)[0] * _BINS / line.size
        ax.stairs(counts, edges, color=_LINES[chain % len(_LINES)], linewidth=0.9)
    ax.axhline(1.0, color=SHADES[2], linewidth=0.7)
    ax.set(ylim=(0, None), xticks=[])


def _acceptance(stats: Any, warmup: Any) -> str:
    figure = _figure(9.0, 2.6)
    ax = figure.subplots()
    means = []
    for part, sign in ((warmup, -1), (stats, 1)):
        if part is None or "acceptance_rate" not in part or not part.sizes["draw"]:
            continue
        rates = part["acceptance_rate"].transpose("chain", "draw").values
        blocks = np.array_split(np.arange(rates.shape[1]), min(_BLOCKS, rates.shape[1]))
        where = [block.mean() if sign > 0 else block.mean() - rates.shape[1] for block in blocks]
        for chain, line in enumerate(rates):
            ax.plot(where, [line[block].mean() for block in blocks], linewidth=0.9, color=_LINES[chain % len(_LINES)])
        means = rates.mean(axis=1)
        if sign < 0:
            ax.axvline(0.0, color=INK, linewidth=0.7)
    ax.set(ylim=(0, 1), xlabel="draw (negative: warm-up)" if warmup is not None else "draw", ylabel="acceptance")
    text = "Acceptance rate along the run, one line for each chain"
    return _shown(figure, f"{text}; means from {min(means):.2f} to {max(means):.2f}.", f"{text}, averaged over blocks.")


def _surrogate(proposals: Any) -> Iterator[str]:
    truth = proposals["lp"].transpose("chain", "draw").values
    surrogate = proposals["surrogate"].transpose("chain", "draw").values
    known = np.isfinite(truth) & np.isfinite(surrogate)
    if not known.any():
        return
    error = np.where(known, surrogate, 0.0) - np.where(known, truth, 0.0)
    error -= np.median(error[known])  # a constant has no effect
    figure = _figure(9.0, 3.2)
    left, right = figure.subplots(1, 2)
    flat = np.flatnonzero(known)[:: max(1, known.sum() // _POINTS)]
    left.plot(truth.ravel()[flat], (truth + error).ravel()[flat], ".", markersize=2, color=SHADES[4])
    left.axline((truth.ravel()[flat[0]],) * 2, slope=1, color=ACCENT, linewidth=0.8)
    left.set(xlabel="true log-density", ylabel="surrogate, shifted by a constant")
    right.plot((flat % truth.shape[1]), error.ravel()[flat], ".", markersize=2, color=SHADES[4])
    right.axhline(0.0, color=ACCENT, linewidth=0.8)
    right.set(xlabel="draw", ylabel="surrogate - truth, nats")
    low, high = np.quantile(truth[known], [0.02, 1.0])  # a few proposals far out would hide all others
    air = 0.05 * (high - low) or 1.0
    left.set(xlim=(low - air, high + air), ylim=(low - air, high + air))
    spread, most = np.quantile(np.abs(error[known]), [0.9, 0.98])
    right.set_ylim(-1.2 * most or -1.0, 1.2 * most or 1.0)
    text = f"Surrogate against the true log-density at the proposals: nine of ten are within {spread:.2g} nats."
    yield _shown(figure, text, text + " The axes leave out one proposal in fifty.")


def _figure(width: float, height: float, constrained: bool = True) -> Any:
    from matplotlib.figure import Figure  # without pyplot, so that no window system is asked for and nothing stays open

    return Figure(figsize=(width, height), layout="constrained" if constrained else None)


def _shown(figure: Any, alt: str, caption: str) -> str:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    data = base64.b64encode(buffer.getvalue()).decode()
    return (
        f'<figure><img src="data:image/png;base64,{data}" alt="{escape(alt)}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )
