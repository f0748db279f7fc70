"""Spectra of operators from samples: a basis, its forms, and one eigenproblem.

Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kmc.spectral.clustering import KernelClusters, kernel_kmeans
    from kmc.spectral.diffusion_map import DiffusionMap
    from kmc.spectral.kernel_jl import KernelJL
    from kmc.spectral.kernel_pca import KernelPCA
    from kmc.spectral.nystrom_embedding import NystromEmbedding
    from kmc.spectral.timescales import implied_timescales
    from kmc.spectral.transition import TransitionOperator

_HOMES = {
    "DiffusionMap": "kmc.spectral.diffusion_map",
    "KernelClusters": "kmc.spectral.clustering",
    "KernelJL": "kmc.spectral.kernel_jl",
    "KernelPCA": "kmc.spectral.kernel_pca",
    "NystromEmbedding": "kmc.spectral.nystrom_embedding",
    "TransitionOperator": "kmc.spectral.transition",
    "implied_timescales": "kmc.spectral.timescales",
    "kernel_kmeans": "kmc.spectral.clustering",
}

__all__ = [
    "DiffusionMap",
    "KernelClusters",
    "KernelJL",
    "KernelPCA",
    "NystromEmbedding",
    "TransitionOperator",
    "implied_timescales",
    "kernel_kmeans",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kmc.spectral' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
