"""The frozen surrogates of a run, as the group ``surrogate`` of its result: arrays of numbers, and no pickles."""

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
    """What was learned, and stays as it is in the main phase.

    Attributes
    ----------
    densities : tuple of Density
        One for each independent run; proposals of its chains are drawn from it.
    chains : int
        Of all of these together; in order, each has as many as the others.
    constrain : callable or None
        From unconstrained vectors (n, d) to the parameters by name; None where only the model knows it.
    """

    densities: tuple[Density, ...]
    chains: int
    constrain: Callable[[np.ndarray], dict[str, np.ndarray]] | None

    def density(self, chain: int) -> Density:
        """The one of a chain."""
        return self.densities[chain * len(self.densities) // self.chains]


def encoded(densities: Sequence[Density | None], chains: int, blocks: Mapping[str, Any] | None) -> Any:
    """The group, an xarray Dataset; None where one of the runs has no frozen surrogate.

    ``blocks`` are those of a :class:`kmc.targets.space.ParameterSpace`, or None.
    """
    import xarray

    if any(density is None for density in densities) or not densities:
        return None
    try:
        parts = plain.flatten({"densities": tuple(densities), "blocks": blocks})
    except plain.NotPlain:  # a transform of the user's
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
            "description": "the frozen surrogate: JSON and the bytes of its arrays, for kmc.readout.frozen_surrogate",
        },
    )


def decoded(group: Any) -> Frozen:
    """What :func:`encoded` took apart.

    Raises
    ------
    ValueError
        It is not what this version of kmc makes.
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
    """How a model's parameters lie in the vector; None where only its space knows."""
    return getattr(model._space, "blocks", None)


@dataclass(frozen=True)
class _Constrain:
    blocks: Mapping[str, Any]

    def __call__(self, points: np.ndarray) -> dict[str, np.ndarray]:
        return {name: block.constrained(points) for name, block in self.blocks.items()}
