"""Codes of warnings: stable names, so that a script need not match English.

A result has the sentences in ``attrs["warnings"]`` and the codes in ``attrs["warning_codes"]``, in the same order. A
code keeps its meaning from release to release; sentences may change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

CODES: dict[str, str] = {
    "interrupted": "Ctrl-C ended the run",
    "no-draws": "the run ended within warm-up",
    "few-draws": "fewer draws were made than asked for",
    "failed-calls": "calls of the log-density failed and were rejected",
    "nonfinite-values": "many values were NaN or +inf and were rejected",
    "not-a-logarithm": "all values look like those of a density, not of its logarithm",
    "low-acceptance": "few proposals were accepted",
    "constant-coordinate": "a coordinate never moved, in all chains or in part of one",
    "chains-disagree": "R-hat is too large",
    "runs-disagree": "independent runs differ in a mean or a tail",
    "burn-in": "the first draws of a chain are far below the log-densities of the others",
    "drift": "the draws still change along the run",
    "few-tail-draws": "too few effective draws for the 5 % and 95 % quantiles, or for the standard deviations",
    "few-effective-draws": "too few effective draws for the means",
    "against-prior": "the draws lie where a declared prior is nearly zero",
    "both-ends": "draws lie at both ends of an interval: perhaps an angle",
    "stuck-chain": "a chain stayed in one state for much longer than its acceptance explains",
    "loud-noise": "the noise of the log-density is too large",
    "unused-history": "the given history is of another function and was not used",
    "no-surrogate": "the given estimator was never fitted",
    "failed-fits": "some fits of the given estimator failed",
    "poor-surrogate": "the surrogate misses the log-density by more than a nat",
    "surrogate-disagrees": "the surrogate has mass where the few draws have none",
    "wall": "proposals are lost behind a wall of zero density",
    "curved-ridge": "too few evaluations for so curved a ridge: tails may be cut short",
    "funnel-neck": "proposals hardly reach the neck of a funnel",
    "poor-tails": "few proposals from a tail were accepted: it may be cut short",
    "unvisited-mode": "evaluations show a mode where no chain has been",
}
"""Meaning of each code."""

OF_DRAWS = (
    "chains-disagree", "runs-disagree", "burn-in", "drift", "stuck-chain", "surrogate-disagrees", "unvisited-mode",
)  # fmt: skip
"""Those that say that the draws are not those of the posterior, so that no number made of them is right."""


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
    >>> idata = kmc.sample(lambda x: -0.5 * x @ x, dim=2, draws=20, sampler="random-walk", seed=1, progress=False)
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
        raise ValueError(f"idata has {len(sentences)} warnings and {len(codes)} codes: expected one for each")
    return dict(zip(codes, sentences, strict=True))


def sentences_of(attrs: Mapping[str, Any], name: str = "warnings") -> list[str]:
    """Return the sentences, or the codes, in the attributes of a result, which may be from any file.

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
