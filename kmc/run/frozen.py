"""Encode the frozen surrogates of a run as the group ``surrogate`` of its result: arrays of numbers, no pickles."""

from __future__ import annotations

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
            "structure": ("character", np.frombuffer(parts.structure.encode(), np.uint8)),
            "numbers": ("byte", np.frombuffer(parts.numbers, np.uint8)),
        },
        attrs={
            "chains": chains,
            "independent_runs": len(densities),
            "inference_library_version": __version__,
            "description": "the frozen surrogate, which kmc.resample reads: JSON and the bytes of its arrays",
        },
    )


def decoded(group: Any) -> Frozen:
    """Rebuild what :func:`encoded` made.

    Raises
    ------
    ValueError
        It was not written by a compatible version of kmc.
    """
    structure, numbers = (np.asarray(group[name].values, np.uint8).tobytes() for name in ("structure", "numbers"))
    try:
        content = plain.restore(plain.Plain(structure.decode(), numbers, []))
        densities, blocks = content["densities"], content["blocks"]
    except Exception as error:
        raise ValueError(
            f"the group surrogate was written by kmc {group.attrs.get('inference_library_version')} and cannot be read "
            f"by kmc {__version__}: {error}"
        ) from error
    return Frozen(densities, int(group.attrs["chains"]), None if blocks is None else _Constrain(blocks))


def blocks_of(model: Model) -> Mapping[str, Any] | None:
    """How a model's parameters are arranged in the vector; None if only its space knows."""
    return getattr(model._space, "blocks", None)


@dataclass(frozen=True)
class _Constrain:
    blocks: Mapping[str, Any]

    def __call__(self, points: np.ndarray) -> dict[str, np.ndarray]:
        return {name: block.constrained(points) for name, block in self.blocks.items()}
