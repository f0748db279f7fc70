"""The embeddings in scikit-learn."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kmc.kernels import InverseMultiquadric
from kmc.spectral import KernelJL, KernelPCA, NystromEmbedding
from tests.sklearn_conventions import conventions

X = np.random.default_rng(0).standard_normal((80, 2))
EMBEDDINGS = [
    KernelJL(n_components=3),
    KernelPCA(n_components=1),
    KernelPCA(n_components=2, kernel=InverseMultiquadric(1.414, 1.0), n_basis=30),
    NystromEmbedding(n_components=1, bandwidth=0.5),
]


@pytest.mark.parametrize(("estimator", "check"), conventions(EMBEDDINGS))
def test_conventions(estimator, check):
    check(estimator)


def test_data_frames_bring_their_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"])
    model = KernelPCA(n_components=2).fit(frame)
    np.testing.assert_array_equal(model.transform(frame), KernelPCA(n_components=2).fit(X).transform(X))
    assert len(model.get_feature_names_out(["a", "b"])) == 2
    with pytest.raises(ValueError, match="not equal to feature_names_in_"):
        model.get_feature_names_out(["b", "a"])
    with pytest.raises(ValueError, match="same order"):
        model.transform(frame[["b", "a"]])


def test_in_a_pipeline():
    blobs = np.concatenate([X, X + np.array([20.0, 0.0])])
    pipeline = make_pipeline(StandardScaler(), NystromEmbedding(4, random_state=0), KMeans(2, n_init=3, random_state=0))
    labels = pipeline.fit_predict(blobs)
    assert np.all(labels[:80] == labels[0]) and np.all(labels[80:] == labels[80]) and labels[0] != labels[80]
