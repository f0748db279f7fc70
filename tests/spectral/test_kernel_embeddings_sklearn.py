"""The embeddings in scikit-learn."""

import pytest

from kmc.kernels import InverseMultiquadric
from kmc.spectral import KernelJL, KernelPCA, NystromEmbedding
from tests.sklearn_conventions import conventions

EMBEDDINGS = [
    KernelJL(n_components=3),
    KernelPCA(n_components=1),
    KernelPCA(n_components=2, kernel=InverseMultiquadric(1.414, 1.0), n_basis=30),
    NystromEmbedding(n_components=1, bandwidth=0.5),
]


@pytest.mark.parametrize(("estimator", "check"), conventions(EMBEDDINGS))
def test_conventions(estimator, check):
    check(estimator)
