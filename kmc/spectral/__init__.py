"""Spectra of operators from samples: a basis, its forms, and one eigenproblem.

Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kmc.spectral.diffusion_map import DiffusionMap
    from kmc.spectral.timescales import implied_timescales
    from kmc.spectral.transition import TransitionOperator

_HOMES = {
    "DiffusionMap": "kmc.spectral.diffusion_map",
    "TransitionOperator": "kmc.spectral.transition",
    "implied_timescales": "kmc.spectral.timescales",
}

__all__ = [
    "DiffusionMap",
    "TransitionOperator",
    "implied_timescales",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kmc.spectral' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
