"""``kmc.report``: a result as one self-contained HTML page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kmc.plots.style import require_matplotlib
from kmc.reports.facts import facts_of
from kmc.reports.page import Page, cited, costs, explained, table_of, told
from kmc.reports.pictures import pictures


def report(
    idata: Any,
    path: str | os.PathLike[str],
    *,
    var_names: Sequence[str] | None = None,
    title: str = "Report of a run",
) -> Path:
    """Write a result as one HTML page: cost, verdict, warnings, summary and pictures.

    The page needs no network and no other file: pictures are inside it. It has the verdict of the run's checks,
    each warning with its advice and a link to what it means (at the end of the page), what was run and what it
    cost, ArviZ's summary, the pairs plot, traces and ranks of the parameters that mix worst, the slowest functions
    of all parameters, the acceptance along the run, the surrogate against the true log-density, along the chains
    and along the slowest mode, where the result has both, and how to cite.

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
    if explanations := explained(facts):
        page.section("What the warnings mean", *explanations)
    page.section("How to cite", cited())
    target.write_text(page.html(), encoding="utf-8")
    return target
