"""Encode a run's frozen surrogates as its result's group ``surrogate``: plain text, no pickles.

All variables have the dimension ``chain``, so that results can be joined along it: each chain has a
piece of the text.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc._version import __version__
from kmc.model.model import Model
from kmc.run.store.plain import NotPlain, Plain, flatten, restore
from kmc.surrogate.density import Density


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
        From unconstrained vectors (n, d) to the parameters by name; None if only the model can do
        it.
    """

    densities: tuple[Density, ...]
    chains: int
    constrain: Callable[[np.ndarray], dict[str, np.ndarray]] | None

    def density(self, chain: int) -> Density:
        """Return the surrogate of a chain."""
        return self.densities[chain * len(self.densities) // self.chains]


def flattened(
    densities: Sequence[Density | None], blocks: Mapping[str, Any] | None
) -> Plain | None:
    """Return the frozen surrogates of a run, and how parameters lie in the vector, as plain data.

    None if one of the runs has no frozen surrogate. ``blocks`` is that of a
    :class:`kmc.model.space.ParameterSpace`, or None; it is left out if it has a transform of the
    user's own, so that only the model can constrain parameters.
    """
    if any(density is None for density in densities) or not densities:
        return None
    try:
        parts = flatten({"densities": tuple(densities), "blocks": blocks})
    except NotPlain:
        parts = flatten({"densities": tuple(densities), "blocks": None})
    return None if parts.foreign else parts


def as_group(parts: Plain, chains: int) -> Any:
    """Return plain data as the group of a result, an xarray Dataset."""
    import xarray

    return xarray.Dataset(
        {
            "structure": ("chain", pieces(parts.structure.encode(), chains)),
            "numbers": ("chain", pieces(base64.b64encode(parts.numbers), chains)),
            "index": ("chain", np.arange(chains)),
            "chains": ("chain", np.full(chains, chains)),
        },
        coords={"chain": np.arange(chains)},
        attrs={
            "inference_library_version": __version__,
            "description": "the frozen surrogate, which kmc.resample reads: a piece for each chain "
            "of JSON and of the bytes of its arrays as base64; the index of the chain in its run, "
            "and the run's number of chains",
        },
    )


def decoded(group: Any) -> list[Frozen]:
    """Rebuild what :func:`as_group` made; of several results joined along their chains, each one.

    Raises
    ------
    ValueError
        It was not written by a compatible version of kmc, does not have all chains of a run, or is
        not a surrogate that can be evaluated safely.
    """
    if not {"index", "chains", "structure", "numbers"} <= set(group):
        raise _unreadable(group, "it is of another layout")
    index, sizes, structures, numbers = (
        group[name].values for name in ("index", "chains", "structure", "numbers")
    )
    found, first = [], 0
    while first < len(index):
        size = int(sizes[first])
        own = slice(first, first + size)
        if not (0 < size <= len(index) and np.array_equal(index[own], np.arange(size))):
            raise ValueError(
                f"its chains have the indices {index.tolist()} in their runs, of {sizes.tolist()} "
                "chains: keep all chains of a run, which share a surrogate, in their order"
            )
        try:
            numbers_of_all = base64.b64decode(joined(numbers[own]))
            parts = Plain(joined(structures[own]).decode(), numbers_of_all, [])
            found.append(unflattened(parts, size))
        except Exception as error:  # forged text raises errors of any kind
            raise _unreadable(group, f"{type(error).__name__}: {error}") from error
        first = own.stop
    return found


def unpacked(content: bytes, chains: int) -> tuple[Any, Frozen]:
    """Return group and surrogates of the bytes in a store; raise what :func:`unflattened` does."""
    parts = Plain.unpacked(content)
    return as_group(parts, chains), unflattened(parts, chains)


def unflattened(parts: Plain, chains: int) -> Frozen:
    """Rebuild the surrogates of :func:`flattened`.

    Raises
    ------
    Exception
        Of any kind, if the parts are not from :func:`flattened` of this version; among them what
        compiled loops, which do not check indices, could not be given.
    """
    content = restore(parts)
    densities, blocks = content["densities"], content["blocks"]
    if not (
        densities
        and chains % len(densities) == 0
        and all(type(density) is Density for density in densities)
    ):
        raise ValueError(f"{len(densities)} surrogates of {chains} chains")
    dim = densities[0].dim
    for density in densities:
        density.check(dim)
        density.log_density(np.zeros((1, dim)))
    if blocks is None:
        return Frozen(densities, chains, None)
    constrain = _Constrain(blocks)
    for block in blocks.values():
        size = math.prod(block.batch + block.transform.unconstrained_shape)
        if not 0 <= block.columns.start <= block.columns.start + size == block.columns.stop <= dim:
            raise ValueError(f"a parameter in the columns {block.columns} of {dim}")
    constrain(np.zeros((1, dim)))
    return Frozen(densities, chains, constrain)


def pieces(text: bytes, count: int) -> np.ndarray:
    """Split ASCII text into pieces of nearly equal size, as an array that xarray can write."""
    ends = [i * len(text) // count for i in range(count + 1)]
    return np.array([text[a:b] for a, b in itertools.pairwise(ends)])


def joined(pieces: np.ndarray) -> bytes:
    """Return the text of :func:`pieces`; of forged ones, anything."""
    return b"".join(pieces.astype(bytes).tolist())


def blocks_of(model: Model) -> Mapping[str, Any] | None:
    """Return how a model's parameters are arranged in the vector; None if only its space knows."""
    return None if model.parameter_space is None else model.parameter_space.blocks


def _unreadable(group: Any, why: str) -> ValueError:
    return ValueError(
        f"the group surrogate was written by kmc {group.attrs.get('inference_library_version')} "
        f"and cannot be read by kmc {__version__}: {why}"
    )


@dataclass(frozen=True)
class _Constrain:
    blocks: Mapping[str, Any]

    def __call__(self, points: np.ndarray) -> dict[str, np.ndarray]:
        return {name: block.constrained(points) for name, block in self.blocks.items()}
