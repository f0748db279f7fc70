"""``kmc.report``: a result as one self-contained HTML page."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from kmc._version import __version__
from kmc.diagnostics.draws import Column, Variable, columns, labeled_posterior, posterior_of
from kmc.diagnostics.modes import kept_modes, slow_modes
from kmc.diagnostics.summary import Point, best, summary
from kmc.plots.draws import plot_acceptance, plot_pairs
from kmc.plots.spectral import plot_slow_modes
from kmc.plots.style import ACCENT, INK, LINES, SHADES, group, require_matplotlib
from kmc.run.problems import sentences_of
from kmc.run.run_warnings import WARNINGS


def report(
    idata: Any,
    path: str | os.PathLike[str],
    *,
    var_names: Sequence[str] | None = None,
    title: str = "Report of a run",
) -> Path:
    """Write a result as one HTML page: cost, verdict, warnings, summary and pictures.

    The page needs no network and no other file: pictures are inside it. It has the verdict of the
    run's checks, each warning with its advice, what was run and what it cost, ArviZ's summary, the
    pairs plot, traces and ranks of the parameters that mix worst, the slowest functions of all
    parameters, the acceptance along the run, the surrogate against the true log-density, along the
    chains and along the slowest mode, where the result has both, and how to cite.

    Parameters
    ----------
    idata : InferenceData or DataTree
        A result of :func:`kmc.sample` or :func:`kmc.load`. Draws of other libraries work as well;
        what they do not record is left out.
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
    >>> idata = kmc.sample(
    ...     lambda x: -0.5 * x @ x, dim=2, sampler="random-walk", draws=200, seed=1, progress=False
    ... )
    >>> path = kmc.report(
    ...     idata, pathlib.Path(tempfile.mkdtemp(), "report.html"), title="Two normal variables"
    ... )
    >>> path.name, "few-tail-draws" in path.read_text(encoding="utf-8")
    ('report.html', True)
    """
    if not isinstance(title, str):
        raise TypeError(f"title={title!r}: expected a string, the heading of the page")
    try:
        target = Path(path)
    except TypeError:
        raise TypeError(
            f'path={path!r}: expected the name of a file, such as "report.html"'
        ) from None
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
        # a node of a DataTree
        draws = posterior.to_dataset() if hasattr(posterior, "to_dataset") else posterior
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
    which = (
        ""
        if len(shown) == len(facts.columns)
        else f" Of {len(facts.columns)} parameters, those that mix worst."
    )
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
            left.plot(
                np.arange(line.size)[::every],
                line[::every],
                linewidth=0.5,
                color=LINES[chain % len(LINES)],
            )
        _ranks(right, values)
        left.set_ylabel(facts.columns[i].name, color=INK)
    axes[0, 0].set_title("draws of each chain", fontsize=10, color=INK)
    axes[0, 1].set_title("ranks, one line for each chain", fontsize=10, color=INK)
    names = ", ".join(facts.columns[i].name for i in chosen)
    text = f"Traces and rank histograms of the parameters with the fewest effective draws: {names}."
    return _shown(
        figure, text, text + " Chains that have mixed look alike, and their ranks are flat."
    )


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
    return _shown(
        figure,
        f"{text}; means from {min(means):.2f} to {max(means):.2f}.",
        f"{text}, averaged over blocks.",
    )


def _modes(modes: Any) -> str:
    figure = _figure(9.0, 0.6 + 1.7 * modes.sizes["mode"])
    plot_slow_modes(modes, figure=figure)
    text = (
        "The slowest functions of all parameters along the chains, and the parameters that they "
        "correlate with."
    )
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
    left.plot(
        truth.ravel()[flat], (truth + error).ravel()[flat], ".", markersize=2, color=SHADES[4]
    )
    left.axline((truth.ravel()[flat[0]],) * 2, slope=1, color=ACCENT, linewidth=0.8)
    left.set(xlabel="true log-density", ylabel="surrogate, shifted by a constant")
    right.plot((flat % truth.shape[1]), error.ravel()[flat], ".", markersize=2, color=SHADES[4])
    right.axhline(0.0, color=ACCENT, linewidth=0.8)
    right.set(xlabel="draw", ylabel="surrogate - truth, nats")
    # a few proposals far out would hide all others
    low, high = np.quantile(truth[known], [0.02, 1.0])
    air = 0.05 * (high - low) or 1.0
    left.set(xlim=(low - air, high + air), ylim=(low - air, high + air))
    spread, most = np.quantile(np.abs(error[known]), [0.9, 0.98])
    right.set_ylim(-1.2 * most or -1.0, 1.2 * most or 1.0)
    text = (
        "Surrogate against the true log-density at the proposals: nine of ten are within "
        f"{spread:.2g} nats."
    )
    yield _shown(figure, text, text + " The axes leave out one proposal in fifty.")
    if modes is not None and "accepted" in proposals:
        yield from _along(
            modes,
            proposals["accepted"].transpose("chain", "draw").values.astype(bool) & known,
            error,
        )


def _along(modes: Any, accepted: np.ndarray, error: np.ndarray) -> Iterator[str]:
    """Yield a plot of the surrogate's error at accepted proposals against the slowest mode."""
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
    yield _shown(
        figure, text, text + " A trend at one end is where draws are too rare or too frequent."
    )


def _figure(width: float, height: float, constrained: bool = True) -> Any:
    # without pyplot, so that no window system is asked for and nothing stays open
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained" if constrained else None)


def _shown(figure: Any, alt: str, caption: str) -> str:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    data = base64.b64encode(buffer.getvalue()).decode()
    return (
        f'<figure><img src="data:image/png;base64,{data}" alt="{escape(alt)}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


MOST_ROWS = 50  # of the summary
GOOD_RHAT = 1.01
GOOD_ESS = 100  # effective draws per chain, as Vehtari et al. (2021) advise

_STYLE = """\
:root { color-scheme: light; }
body { font: 1rem/1.5 system-ui, sans-serif; color: #22262b; background: #fff; max-width: 60rem; margin: 0 auto;
  padding: 1rem; }
h1, h2, h3 { line-height: 1.2; }
h2 { border-bottom: 1px solid #b3d3da; padding-bottom: .2rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
caption { text-align: left; padding-bottom: .3rem; }
th, td { padding: .15rem .8rem .15rem 0; text-align: right; border-bottom: 1px solid #dcebee; }
th:first-child { text-align: left; }
.facts td { text-align: left; }
.good, .bad { border-left: .4rem solid #1f6478; padding: .5rem 1rem; background: #eef6f8; font-weight: 600; }
.bad { border-color: #a63a22; background: #fbefec; }
figure { margin: 1.5rem 0; }
img { max-width: 100%; height: auto; }
code { font-size: .95em; }
"""  # noqa: E501


class Page:
    """A page in the making.

    Examples
    --------
    >>> page = Page("A & B")
    >>> page.section("First", "<p>text</p>")
    >>> "<h1>A &amp; B</h1>" in page.html()
    True
    """

    def __init__(self, title: str):
        self._title = escape(title)
        self._parts: list[str] = []

    def section(self, heading: str, *parts: str) -> None:
        """Add a section of HTML parts."""
        self._parts += [f"<section><h2>{escape(heading)}</h2>", *parts, "</section>"]

    def html(self) -> str:
        """Return the page as HTML."""
        return "\n".join(
            [
                '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{self._title}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n<main>",
                f"<h1>{self._title}</h1>",
                *self._parts,
                f"</main>\n<footer><p>Written by kmc "
                f"{escape(__version__)}.</p></footer>\n</body>\n</html>\n",
            ]
        )


def told(facts: Facts) -> list[str]:
    """Return the verdict, the warnings with codes, and what was not checked, as parts of HTML."""
    problems = facts.warnings
    if facts.table is None:
        few = f"The run made {facts.draws} draws in each chain: there is nothing to judge."
        parts = [_verdict(False, few)]
    else:
        parts = [_verdict(*_judged(facts, problems))]
    if problems is None:
        parts.append(
            "<p>The result has no record of its run's checks: kmc did not make it, or the run is "
            "not finished.</p>"
        )
    elif problems:
        parts.append(f"<ul>{''.join(_warning(code, sentence) for code, sentence in problems)}</ul>")
    parts += [
        f"<p>Not checked: {escape(sentence)}</p>"
        for sentence in sentences_of(facts.attrs, "not_checked")
    ]
    parts.append(
        "<p>No set of checks is complete. A second run with another seed and twice the budget is "
        "a better one.</p>"
    )
    return parts


def _judged(facts: Facts, problems: Sequence[Any] | None) -> tuple[bool, str]:
    rhat, ess = facts.rhat, facts.ess
    if np.all(np.isnan(ess)):
        return False, "No parameter moved."
    least = int(np.nanargmin(ess))
    worst = "" if np.all(np.isnan(rhat)) else f", the largest R-hat {np.nanmax(rhat):.3f}"
    measured = (
        f"The least effective sample size is {ess[least]:,.0f} "
        f"({facts.columns[least].name}){worst}."
    )
    mixed = (not worst or np.nanmax(rhat) <= GOOD_RHAT) and ess[least] >= GOOD_ESS * facts.chains
    if problems:
        n = len(problems)
        return (
            False,
            f"{n} check{'s' if n > 1 else ''} of the run failed: read the advice below. {measured}",
        )
    if not mixed:
        asked = (
            f"An R-hat of at most {GOOD_RHAT} and {GOOD_ESS * facts.chains} effective draws are "
            "advised."
        )
        return False, f"{measured} {asked}"
    return True, f"{'No check of the run failed. ' if problems is not None else ''}{measured}"


def _verdict(good: bool, sentence: str) -> str:
    return f'<p class="{"good" if good else "bad"}">{escape(sentence)}</p>'


def _warning(code: str, sentence: str) -> str:
    known = next((each for each in WARNINGS if each.code == code), None)
    meaning = f" ({escape(known.meaning)})" if known else ""
    head = f"<strong><code>{escape(code)}</code></strong>{meaning}: " if code else ""
    return f"<li>{head}{escape(sentence)}{_help(known.help) if known else ''}</li>"


def _help(markdown: str) -> str:
    """Return a paragraph as HTML that is shown on demand, without links to pages of the site."""
    text = re.sub(r" See \{doc\}`\w+`\.", "", escape(markdown, quote=False))
    text = re.sub("`(.+?)`", r"<code>\1</code>", text)
    return f"<details><summary>Help</summary>{text}</details>"


def costs(facts: Facts) -> str:
    """Return what was run and what it cost, as a table of names and values."""
    attrs, rows = facts.attrs, {}
    library, version = attrs.get("inference_library"), attrs.get("inference_library_version", "")
    rows["made by"] = f"{library} {version}" if library else None
    rows["at"] = attrs.get("created_at")
    rows["sampler"] = attrs.get("sampler")
    rows["seed"] = attrs.get("seed")
    rows["parameters"] = f"{len(facts.columns):,}"
    rows["draws"] = f"{facts.chains} chains of {facts.draws:,}"
    runs = attrs.get("independent_runs", 1)
    rows["independent runs"] = runs if runs != 1 else None
    total = attrs.get("n_evaluations")
    if total:
        warmup = attrs.get("n_evaluations_warmup")
        within = "" if warmup is None else f", {warmup:,} of them in warm-up"
        rows["evaluations of the log-density"] = f"{total:,}{within}"
        if facts.table is not None and not np.all(np.isnan(facts.ess)):
            rows["effective draws per 1,000 evaluations"] = (
                f"{1000 * np.nanmin(facts.ess) / total:,.3g} (least)"
            )
    rows["highest log-density evaluated"] = None if facts.best is None else str(facts.best)
    seconds = attrs.get("sampling_time")
    if seconds is not None:
        each = f", {1000 * seconds / total:,.3g} ms per evaluation" if total else ""
        rows["time"] = f"{seconds:,.3g} s{each}, the sampler's own work included"
    if "workers_waited" in attrs:
        rows["workers"] = (
            f"{attrs['workers']}, idle {attrs['workers_waited']:.0%} of the time; an evaluation "
            f"took {attrs['evaluation_seconds']:.3g} s on average, "
            f"{attrs['longest_evaluation_seconds']:.3g} s at most"
        )
    rows["stopped by"] = attrs.get("stopped_by")
    rows["points of NaN or +inf"] = attrs.get("n_nonfinite") or None
    rows["failed calls"] = attrs.get("n_failed") or None
    rows["fits of the surrogate"] = _listed(attrs.get("n_refits"))
    rows["error of the surrogate's predictions"] = _listed(attrs.get("surrogate_loo_sd"), "nats")
    cells = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
        for name, value in rows.items()
        if value is not None
    )
    return f'<div class="wide"><table class="facts">{cells}</table></div>'


def _listed(value: Any, unit: str = "") -> str | None:
    """Format a number, or a JSON list with one per independent run; None if one is not a number."""
    if isinstance(value, str):
        value = json.loads(value)
    numbers = value if isinstance(value, list) else [value]
    if any(not isinstance(number, (int, float, np.number)) for number in numbers):
        return None
    return f"{', '.join(f'{number:.3g}' for number in numbers)} {unit}".rstrip()


def table_of(facts: Facts) -> str:
    """Return ArviZ's summary as a table."""
    table = facts.table.iloc[:MOST_ROWS]
    left = len(facts.table) - len(table)
    caption = (
        "Mean, standard deviation, interval, errors, effective sample sizes and R-hat of each "
        "parameter."
    )
    more = f" The first {MOST_ROWS} of {len(facts.table)} rows." if left else ""
    head = "".join(
        f'<th scope="col">{escape(str(name))}</th>' for name in ("parameter", *table.columns)
    )
    names = [column.name for column in facts.columns]
    body = "".join(_row(name, row) for name, row in zip(names, table.itertuples(index=False)))
    return (
        f'<div class="wide"><table><caption>{caption}{more}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _row(name: str, values: Iterable[Any]) -> str:
    cells = "".join(f"<td>{escape(_digits(value))}</td>" for value in values)
    return f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'


def _digits(value: Any) -> str:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    if np.isnan(number):
        return "–"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def cited() -> str:
    """Return the list of works that a publication should cite."""
    works = (
        f"kmc, version {__version__} (distributed as kernelmc).",
        "Strathmann, Sejdinovic, Livingstone, Szabó and Gretton (2015), “Gradient-free "
        "Hamiltonian Monte Carlo with efficient kernel exponential families”, Advances in Neural "
        "Information Processing Systems 28, arXiv:1506.02564: for the method.",
        "Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), “Rank-normalization, folding, "
        "and localization: an improved R-hat for assessing convergence of MCMC”, Bayesian "
        "Analysis 16: for R-hat and ESS.",
    )
    return f"<ul>{''.join(f'<li>{escape(work)}</li>' for work in works)}</ul>"


# What a report says about a run, read from its result.

FEWEST_DRAWS = 4  # per chain, for ArviZ's summary


@dataclass(frozen=True)
class Facts:
    """Draws by column, ArviZ's table of them, and the run's attributes."""

    attrs: Mapping[str, Any]
    chains: int
    draws: int  # per chain
    columns: list[Column]
    variables: Mapping[str, Variable]
    table: Any  # pandas.DataFrame with a row for each column; None for fewer than four draws
    best: Point | None  # the evaluated point of the highest log-density, if it is known

    @property
    def ess(self) -> np.ndarray:
        """Bulk effective sample size of each column; NaN for a constant one."""
        moved = [bool(np.ptp(self.values(column))) for column in self.columns]
        return np.where(moved, self.table["ess_bulk"].to_numpy(dtype=float), np.nan)

    @property
    def rhat(self) -> np.ndarray:
        """R-hat of each column; NaN for a constant one, or for one chain."""
        return self.table["r_hat"].to_numpy(dtype=float)

    @property
    def warnings(self) -> list[tuple[str, str]] | None:
        """Codes and sentences of the run's warnings; None if the result has no record of checks."""
        if "warnings" not in self.attrs:
            return None
        sentences, codes = sentences_of(self.attrs), sentences_of(self.attrs, "warning_codes")
        return list(
            zip(
                codes if len(codes) == len(sentences) else [""] * len(sentences),
                sentences,
                strict=True,
            )
        )

    def values(self, column: Column) -> np.ndarray:
        """Return draws of one column, (chains, draws)."""
        return self.variables[column.variable].values[(..., *column.place)]

    def slowest(self, most: int) -> list[int]:
        """Return the places of the columns with the fewest effective draws, the worst first."""
        return np.argsort(np.where(np.isnan(self.ess), -1.0, self.ess), kind="stable")[
            :most
        ].tolist()


def facts_of(idata: Any, var_names: Sequence[str] | None = None) -> Facts:
    """Read a result.

    Raises
    ------
    TypeError, ValueError
        It has no posterior, or a name is neither a variable of the posterior nor an element of one.
    """
    variables = labeled_posterior(idata)
    chosen = columns(variables, var_names)
    chains, draws = variables[chosen[0].variable].values.shape[:2]
    attrs = getattr(idata, "attrs", {}) or posterior_of(idata).attrs
    table = None
    if draws >= FEWEST_DRAWS:
        table = summary(idata, var_names)
    highest = best(idata).evaluation if "best" in attrs and draws else None
    if highest is not None:
        shown = {column.variable for column in chosen}
        highest = highest._replace(
            parameters={k: v for k, v in highest.parameters.items() if k in shown}
        )
    return Facts(attrs, chains, draws, chosen, variables, table, highest)
