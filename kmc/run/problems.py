"""Warnings of a run: the record of one, those that a run has, and how a result keeps them.

A result has the sentences in ``attrs["warnings"]`` and the codes in ``attrs["warning_codes"]``, in
the same order, so that a script need not match English. The table of all warnings is
:mod:`kmc.run.run_warnings`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kmc.run.run_statistics import FinishedRun

Said = tuple[str, str] | None
"""What was found, and what to do; None if all is well.

Both are without a full stop, and the first begins with a capital letter.
"""


@dataclass(frozen=True)
class RunWarning:
    """A warning.

    Attributes
    ----------
    code : str
        Its name, which it keeps from release to release.
    meaning : str
        What the code means, in a line.
    check : callable
        Returns for a :class:`FinishedRun` what was found and what to do, or None.
    help : str
        A paragraph for ``docs/warnings.md``, in Markdown.
    of_draws : bool
        Whether it says that the draws are not those of the posterior, so that no number made of
        them is right.
    without_draws : bool
        Whether it is checked of a run that has no draws, too.
    explains : tuple of str
        Codes of what is likely a consequence, if it was found as well; they are later in the table.
    silences : tuple of str
        Codes of what would say the same once more, or less precisely.
    """

    code: str
    meaning: str
    check: Callable[[FinishedRun], Said]
    help: str
    of_draws: bool = False
    without_draws: bool = False
    explains: tuple[str, ...] = ()
    silences: tuple[str, ...] = ()


class Problem(NamedTuple):
    """A warning that a run has, and its likely consequences."""

    code: str
    sentence: str  # with advice
    consequences: dict[str, str]  # what was found, by code

    @property
    def message(self) -> str:
        """The sentence, one more about the consequences, and the code in brackets."""
        listed = "; ".join(
            f"{found[0].lower()}{found[1:]} [{code}]" for code, found in self.consequences.items()
        )
        return (
            f"{self.sentence}{f' Likely consequences: {listed}.' if listed else ''} [{self.code}]"
        )


def problems_of(run: FinishedRun, table: Sequence[RunWarning]) -> list[Problem]:
    """Return the problems of a run by a table of warnings, causes with their consequences."""
    possible = [warning for warning in table if run.made or warning.without_draws]
    said = [(warning, said) for warning in possible if (said := warning.check(run))]
    silent = {code for warning, _ in said for code in warning.silences}

    problems: list[Problem] = []
    causes: dict[str, Problem] = {}  # by code of the consequence
    for warning, (found, advice) in said:
        if warning.code in silent:
            continue
        if warning.code in causes:
            causes[warning.code].consequences[warning.code] = found
            continue
        problems.append(Problem(warning.code, f"{found}: {advice}.", {}))
        causes = dict.fromkeys(warning.explains, problems[-1]) | causes
    return problems


def by_code(problems: Sequence[Problem]) -> dict[str, str]:
    """Return a sentence for each code, of the consequences too, as a result has them."""
    said = {}
    for problem in problems:
        said[problem.code] = problem.sentence
        for code, found in problem.consequences.items():
            said[code] = f"{found}: a likely consequence of {problem.code}."
    return said


def warnings(idata: Any) -> dict[str, str]:
    """Return the warnings of a run, sentences by their codes; empty if there are none.

    Parameters
    ----------
    idata : InferenceData or DataTree
        The result of :func:`kmc.sample` or :func:`kmc.load`, also from a file.

    Raises
    ------
    TypeError, ValueError
        It has no group "posterior", or its attributes are not those of a result of kmc.

    Examples
    --------
    >>> import kmc
    >>> idata = kmc.sample(
    ...     lambda x: -0.5 * x @ x, dim=2, draws=20, sampler="random-walk", seed=1, progress=False
    ... )
    >>> sorted(kmc.warnings(idata))
    ['chains-disagree', 'few-tail-draws']
    """
    try:
        attrs = idata["posterior"].attrs
    except (TypeError, KeyError, AttributeError) as error:
        raise TypeError(
            f"idata={type(idata).__name__} has no group 'posterior': pass a result of kmc.sample"
        ) from error
    sentences, codes = sentences_of(attrs), sentences_of(attrs, "warning_codes")
    if len(sentences) != len(codes):
        raise ValueError(
            f"idata has {len(sentences)} warnings and {len(codes)} codes: expected one for each"
        )
    return dict(zip(codes, sentences, strict=True))


def sentences_of(attrs: Mapping[str, Any], name: str = "warnings") -> list[str]:
    """Return the sentences, or the codes, in the attributes of a result from any file.

    Raises
    ------
    ValueError
        They are not a JSON list of strings.

    Examples
    --------
    >>> sentences_of({"warnings": '["The chains disagree."]'}), sentences_of({})
    (['The chains disagree.'], [])
    """
    try:
        found = json.loads(attrs.get(name, "[]"))
    except (ValueError, TypeError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(sentence, str) for sentence in found):
        raise ValueError(f"the attribute {name!r} of the result is not a JSON list of sentences")
    return found
