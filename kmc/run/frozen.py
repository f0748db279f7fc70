"""Encode the frozen surrogates of a run as the group ``surrogate`` of its result: plain text, no pickles.

All variables have the dimension ``chain``, so that results can be joined along it: each chain has a piece of the text.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc._version import __version__
from kmc.run.store import plain
from kmc.surrogates import Density
from kmc.targets.model import Model


@dataclass(frozen=True)
class Frozen:
    """The frozen surrogates of a run.

    Attributes
    ----------
    densities : tuple of Density
        One for each independent run; the proposals of its chains are drawn from it.
    chains : int
        Number of chains in total; each surrogate, in order, has the same number of them.
    constrain : callable or None
        From unconstrained vectors (n, d) to the parameters by name; None if only the model can do it.
    """

    densities: tuple[Density, ...]
    chains: int
    constrain: Callable[[np.ndarray], dict[str, np.ndarray]] | None

    def density(self, chain: int) -> Density:
        """The surrogate of a chain."""
        return self.densities[chain * len(self.densities) // self.chains]


def encoded(densities: Sequence[Density | None], chains: int, blocks: Mapping[str, Any] | None) -> Any:
    """The group, an xarray Dataset; None if one of the runs has no frozen surrogate.

    ``blocks`` is that of a :class:`kmc.targets.space.ParameterSpace`, or None.
    """
    import xarray

    if any(density is None for density in densities) or not densities:
        return None
    try:
        parts = plain.flatten({"densities": tuple(densities), "blocks": blocks})
    except plain.NotPlain:  # a transform defined by the user
        parts = plain.flatten({"densities": tuple(densities), "blocks": None})
    if parts.foreign:
        return None
    return xarray.Dataset(
        {
            "structure": ("chain", _pieces(parts.structure, chains)),
            "numbers": ("chain", _pieces(base64.b64encode(parts.numbers).decode(), chains)),
            "index": ("chain", np.arange(chains)),
            "chains": ("chain", np.full(chains, chains)),
        },
        coords={"chain": np.arange(chains)},
        attrs={
            "inference_library_version": __version__,
            "description": "the frozen surrogate, which kmc.resample reads: a piece for each chain of JSON and of the "
            "bytes of its arrays as base64; the index of the chain in its run, and the run's number of chains",
        },
    )


def decoded(group: Any) -> list[Frozen]:
    """Rebuild what :func:`encoded` made; of several results that were joined along their chains, each one.

    Raises
    ------
    ValueError
        It was not written by a compatible version of kmc, or does not have all chains of a run.
    """
    if not {"index", "chains"} <= set(group):
        raise _unreadable(group, "it is of another layout")
    index, sizes = (group[name].values.astype(int) for name in ("index", "chains"))
    structures, numbers = (group[name].values for name in ("structure", "numbers"))
    found, first = [], 0
    while first < len(index):
        own = slice(first, first + sizes[first])
        if not np.array_equal(index[own], np.arange(sizes[first])):
            raise ValueError(
                f"its chains have the indices {index.tolist()} in their runs, of {sizes.tolist()} chains: keep all "
                "chains of a run, which share a surrogate, in their order"
            )
        found.append(_decoded("".join(structures[own]), "".join(numbers[own]), int(sizes[first]), group))
        first = own.stop
    return found


def _pieces(text: str, count: int) -> np.ndarray:
    """The text in pieces of nearly equal size, of a type that every xarray can write."""
    ends = [i * len(text) // count for i in range(count + 1)]
    return np.array([text[a:b] for a, b in itertools.pairwise(ends)])


def _decoded(structure: str, numbers: str, chains: int, group: Any) -> Frozen:
    try:
        content = plain.restore(plain.Plain(structure, base64.b64decode(numbers), []))
        densities, blocks = content["densities"], content["blocks"]
    except Exception as error:
        raise _unreadable(group, str(error)) from error
    return Frozen(densities, chains, None if blocks is None else _Constrain(blocks))


def blocks_of(model: Model) -> Mapping[str, Any] | None:
    """How a model's parameters are arranged in the vector; None if only its space knows."""
    return getattr(model._space, "blocks", None)


def _unreadable(group: Any, why: str) -> ValueError:
    return ValueError(
        f"the group surrogate was written by kmc {group.attrs.get('inference_library_version')} and cannot be read by "
        f"kmc {__version__}: {why}"
    )


@dataclass(frozen=True)
class _Constrain:
    blocks: Mapping[str, Any]

    def __call__(self, points: np.ndarray) -> dict[str, np.ndarray]:
        return {name: block.constrained(points) for name, block in self.blocks.items()}
