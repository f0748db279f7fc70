"""Long parametrizations: a few cases in every check, all of them in the weekly one (``pytest -m
slow``).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest


def slow_except(cases: Mapping[str, Any] | Sequence[Any], chosen: Collection[Any]) -> list[Any]:
    """Parameters for ``pytest.mark.parametrize``: all but the chosen cases have the mark "slow".

    The keys of a mapping are ids, and choose; tuples are values of several arguments. Cases of a
    sequence choose themselves.
    """
    ids = list(cases) if isinstance(cases, Mapping) else [None] * len(cases)
    values = list(cases.values()) if isinstance(cases, Mapping) else list(cases)
    keys = list(cases)
    assert all(one in keys for one in chosen), f"{chosen} are not all among the cases {keys}"
    return [
        pytest.param(
            *(value if type(value) is tuple else (value,)),
            id=id_,
            marks=() if key in chosen else pytest.mark.slow,
        )
        for key, value, id_ in zip(keys, values, ids, strict=True)
    ]
