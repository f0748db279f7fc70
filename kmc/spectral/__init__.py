"""Spectra of operators from samples: a basis, its forms, and one eigenproblem.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from kmc.lazy import lazy

if TYPE_CHECKING:
    from kmc.spectral.clustering import KernelClusters, kernel_kmeans
    from kmc.spectral.diffusion_map import DiffusionMap
    from kmc.spectral.galerkin_method import Decomposition, galerkin
    from kmc.spectral.graph_laplacian import GraphLaplacian
    from kmc.spectral.kernel_jl import KernelJL
    from kmc.spectral.kernel_pca import KernelPCA
    from kmc.spectral.neural import NeuralEigenfunctions
    from kmc.spectral.nystrom_embedding import NystromEmbedding
    from kmc.spectral.operators import AugmentationPairs, Bilinear, DifferentialOperator, DirichletForm, TangentProp
    from kmc.spectral.timescales import implied_timescales
    from kmc.spectral.transition import TransitionOperator

_HOMES = {
    "AugmentationPairs": "kmc.spectral.operators",
    "Bilinear": "kmc.spectral.operators",
    "Decomposition": "kmc.spectral.galerkin_method",
    "DifferentialOperator": "kmc.spectral.operators",
    "DiffusionMap": "kmc.spectral.diffusion_map",
    "DirichletForm": "kmc.spectral.operators",
    "GraphLaplacian": "kmc.spectral.graph_laplacian",
    "KernelClusters": "kmc.spectral.clustering",
    "KernelJL": "kmc.spectral.kernel_jl",
    "KernelPCA": "kmc.spectral.kernel_pca",
    "NeuralEigenfunctions": "kmc.spectral.neural",
    "NystromEmbedding": "kmc.spectral.nystrom_embedding",
    "TangentProp": "kmc.spectral.operators",
    "TransitionOperator": "kmc.spectral.transition",
    "galerkin": "kmc.spectral.galerkin_method",
    "implied_timescales": "kmc.spectral.timescales",
    "kernel_kmeans": "kmc.spectral.clustering",
}

__all__ = [
    "AugmentationPairs",
    "Bilinear",
    "Decomposition",
    "DifferentialOperator",
    "DiffusionMap",
    "DirichletForm",
    "GraphLaplacian",
    "KernelClusters",
    "KernelJL",
    "KernelPCA",
    "NeuralEigenfunctions",
    "NystromEmbedding",
    "TangentProp",
    "TransitionOperator",
    "galerkin",
    "implied_timescales",
    "kernel_kmeans",
]


__getattr__, __dir__ = lazy(__name__, _HOMES)
