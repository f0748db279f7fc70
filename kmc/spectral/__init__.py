"""Spectra of operators from samples: a basis, its forms, and one eigenproblem.

Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kmc.spectral.diffusion_map import DiffusionMap
    from kmc.spectral.galerkin_method import Decomposition, galerkin
    from kmc.spectral.graph_laplacian import GraphLaplacian
    from kmc.spectral.neural import NeuralEigenfunctions
    from kmc.spectral.operators import AugmentationPairs, Bilinear, DifferentialOperator, DirichletForm, TangentProp

_HOMES = {
    "AugmentationPairs": "kmc.spectral.operators",
    "Bilinear": "kmc.spectral.operators",
    "Decomposition": "kmc.spectral.galerkin_method",
    "DifferentialOperator": "kmc.spectral.operators",
    "DiffusionMap": "kmc.spectral.diffusion_map",
    "DirichletForm": "kmc.spectral.operators",
    "GraphLaplacian": "kmc.spectral.graph_laplacian",
    "NeuralEigenfunctions": "kmc.spectral.neural",
    "TangentProp": "kmc.spectral.operators",
    "galerkin": "kmc.spectral.galerkin_method",
}

__all__ = [
    "AugmentationPairs",
    "Bilinear",
    "Decomposition",
    "DifferentialOperator",
    "DiffusionMap",
    "DirichletForm",
    "GraphLaplacian",
    "NeuralEigenfunctions",
    "TangentProp",
    "galerkin",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kmc.spectral' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
