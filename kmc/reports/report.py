"""``kmc.report``: a result as one self-contained HTML page."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from kmc.diagnostics.modes import kept_modes, slow_modes
from kmc.plots.pairs import plot_pairs
from kmc.plots.spectral import plot_slow_modes
from kmc.plots.style import ACCENT, INK, LINES, SHADES, group, require_matplotlib
from kmc.plots.traces import plot_acceptance
from kmc.reports.page import Facts, Page, cited, costs, facts_of, table_of, told


def report(
    idata: Any,
    path: str | os.PathLike[str],
    *,
    var_names: Sequence[str] | None = None,
    title: str = "Report of a run",
) -> Path:
    """Write a result as one HTML page: cost, verdict, warnings, summary and pictures.

    The page needs no network and no other file: pictures are inside it. It has the verdict of the run's checks, each
    warning with its advice, what was run and what it cost, ArviZ's summary, the pairs plot, traces and ranks of the
    parameters that mix worst, the slowest functions of all parameters, the acceptance along the run, the surrogate
    against the true log-density, along the chains and along the slowest mode, where the result has both, and how to
    cite.

    Parameters
    ----------
    idata : InferenceData or DataTree
        A result of :func:`kmc.sample` or :func:`kmc.load`. Draws of other libraries work as well; what they do not
        record is left out.
    path : path
        File to write, such as "report.html". An existing file is replaced.
    var_names : sequence of str, optional
        Variables of the posterior, or elements of them, ``"slope[A]"``; all of them by default.
    title : str
        Heading of the page.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    TypeError, ValueError
        `idata` has no posterior; a name is not in it; another argument is invalid.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import kmc
    >>> idata = kmc.sample(lambda x: -0.5 * x @ x, dim=2, sampler="random-walk", draws=200, seed=1, progress=False)
    >>> path = kmc.report(idata, pathlib.Path(tempfile.mkdtemp(), "report.html"), title="Two normal variables")
    >>> path.name, "few-tail-draws" in path.read_text(encoding="utf-8")
    ('report.html', True)
    """
    if not isinstance(title, str):
        raise TypeError(f"title={title!r}: expected a string, the heading of the page")
    try:
        target = Path(path)
    except TypeError:
        raise TypeError(f'path={path!r}: expected the name of a file, such as "report.html"') from None
    require_matplotlib()
    facts = facts_of(idata, var_names)
    page = Page(title)
    page.section("Verdict", *told(facts))
    page.section("What was run, and what it cost", costs(facts))
    if facts.table is not None:
        page.section("Summary", table_of(facts))
        page.section("Pictures", *pictures(idata, facts))
    page.section("How to cite", cited())
    target.write_text(page.html(), encoding="utf-8")
    return target


# The pictures of a report, inside the page, each with a text that says what it shows.

MOST_PAIRS = 8  # columns of the pairs plot
MOST_TRACES = 5
FEWEST_FOR_MODES = 100  # draws per chain
_POINTS = 2000  # of a line or a cloud; more would only make the page larger
_BINS = 20
_DPI = 110


def pictures(idata: Any, facts: Facts) -> Iterator[str]:
    """Yield the pictures that the result has data for, as HTML."""
    moving = [i for i in range(len(facts.columns)) if np.isfinite(facts.ess[i])]
    if moving:
        yield _pairs(idata, facts, moving)
        yield _traces(facts)
    modes = None
    if len(moving) > 1 and facts.draws >= FEWEST_FOR_MODES:
        posterior = idata["posterior"]
        draws = posterior.to_dataset() if hasattr(posterior, "to_dataset") else posterior  # a node of a DataTree
        names = [facts.columns[i].name for i in moving]
        kept = kept_modes(idata, names)
        modes = slow_modes(draws, 2, var_names=names) if kept is None else kept.isel(mode=slice(2))
        yield _modes(modes)
    stats = group(idata, "sample_stats")
    if stats is not None and "acceptance_rate" in stats and stats.sizes["draw"]:
        yield _acceptance(idata, stats)
    proposals = group(idata, "proposals")
    if proposals is not None and {"lp", "surrogate"} <= set(proposals.data_vars):
        yield from _surrogate(proposals, modes)


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
            left.plot(np.arange(line.size)[::every], line[::every], linewidth=0.5, color=LINES[chain % len(LINES)])
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
        ax.stairs(counts, edges, color=LINES[chain % len(LINES)], linewidth=0.9)
    ax.axhline(1.0, color=SHADES[2], linewidth=0.7)
    ax.set(ylim=(0, None), xticks=[])


def _acceptance(idata: Any, stats: Any) -> str:
    figure = _figure(9.0, 2.6)
    plot_acceptance(idata, ax=figure.subplots())
    means = stats["acceptance_rate"].mean("draw").values
    text = "Acceptance rate along the run, one line for each chain"
    return _shown(figure, f"{text}; means from {min(means):.2f} to {max(means):.2f}.", f"{text}, averaged over blocks.")


def _modes(modes: Any) -> str:
    figure = _figure(9.0, 0.6 + 1.7 * modes.sizes["mode"])
    plot_slow_modes(modes, figure=figure)
    text = "The slowest functions of all parameters along the chains, and the parameters that they correlate with."
    return _shown(figure, text, f"{text} {modes.attrs['verdict']}")


def _surrogate(proposals: Any, modes: Any) -> Iterator[str]:
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
    if modes is not None and "accepted" in proposals:
        yield from _along(modes, proposals["accepted"].transpose("chain", "draw").values.astype(bool) & known, error)


def _along(modes: Any, accepted: np.ndarray, error: np.ndarray) -> Iterator[str]:
    """Yield a picture of the surrogate's error at the accepted proposals, against the slowest mode there."""
    mode = modes["value"].isel(mode=0).transpose("chain", "draw").values
    if accepted.shape != mode.shape or not accepted.any():
        return
    figure = _figure(9.0, 2.6)
    ax = figure.subplots()
    every = max(1, accepted.sum() // _POINTS)
    ax.plot(mode[accepted][::every], error[accepted][::every], ".", markersize=2, color=SHADES[4])
    ax.axhline(0.0, color=ACCENT, linewidth=0.8)
    ax.set(xlabel="slowest mode", ylabel="surrogate - truth, nats")
    text = "Surrogate less truth at the accepted proposals, along the slowest mode."
    yield _shown(figure, text, text + " A trend at one end is where draws are too rare or too frequent.")


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
