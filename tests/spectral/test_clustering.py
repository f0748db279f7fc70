import numpy as np
import pytest

import kmc.spectral
from kmc.spectral import KernelJL, KernelPCA, NystromEmbedding, kernel_kmeans
from tests.oracles import sketches as oracle

RNG = np.random.default_rng(0)
RING = RNG.integers(0, 2, 600)
ANGLE = RNG.uniform(0, 2 * np.pi, 600)
X = (1.0 + 4.0 * RING + 0.2 * RNG.standard_normal(600))[:, None] * np.column_stack(
    [np.cos(ANGLE), np.sin(ANGLE)]
)
BLOBS = RNG.standard_normal((300, 3)) + 8.0 * np.eye(3)[np.arange(300) % 3]


def agreement(one, two):
    """Share of pairs treated alike, over some points."""
    return oracle.rand_index(one[:150], two[:150])


@pytest.mark.parametrize(
    "embedding",
    [
        KernelPCA(n_components=2, bandwidth=2.0, random_state=0),
        NystromEmbedding(n_components=20, bandwidth=1.0, random_state=0),
        KernelJL(n_components=20, bandwidth=2.0, random_state=0),
    ],
    ids=repr,
)
def test_a_ring_around_a_cluster(embedding):
    """No straight line parts them: the Rand index of k-means itself is that of chance."""
    plain = kmc.spectral.clustering.kmeans(X, 2, np.random.default_rng(0))
    assert agreement(plain.labels, RING) < 0.7
    found = kernel_kmeans(X, 2, embedding, random_state=0)
    assert agreement(found.labels, RING) > 0.95
    np.testing.assert_array_equal(found.predict(X), found.labels)


@pytest.mark.parametrize("name", ["nystrom", "kernel-pca", "kernel-jl"])
def test_kernel_embeddings_by_name(name):
    found = kernel_kmeans(BLOBS, 3, name, random_state=1)
    assert agreement(found.labels, np.arange(300) % 3) == 1.0
    assert found.centers.shape == (3, 30) and len(found.embedding.landmarks_) == 200
    again = kernel_kmeans(BLOBS, 3, name, random_state=1)
    np.testing.assert_array_equal(again.labels, found.labels)
    assert again.inertia == found.inertia


def test_a_subsample_of_a_hundredth_of_large_data():
    large = np.tile(BLOBS, (100, 1)) + 0.1 * RNG.standard_normal((30_000, 3))
    found = kernel_kmeans(large, 3, n_init=1, random_state=0)
    assert len(found.embedding.landmarks_) == 300 and len(found.labels) == 30_000


def test_a_transformer_is_copied_unless_it_is_fitted():
    embedding = NystromEmbedding(n_components=6, random_state=0)
    found = kernel_kmeans(BLOBS, 3, embedding, random_state=0)
    assert not embedding.__sklearn_is_fitted__() and found.embedding.__sklearn_is_fitted__()
    embedding.fit(BLOBS[:50])
    other = kernel_kmeans(iter([BLOBS[:100], BLOBS[100:]]), 3, embedding, random_state=0)
    assert other.embedding is embedding and len(embedding.landmarks_) == 50
    assert agreement(other.labels, found.labels) == 1.0


def test_lists_of_arrays():
    one = kernel_kmeans(BLOBS, 3, random_state=0)
    two = kernel_kmeans([BLOBS[:7], BLOBS[7:]], 3, random_state=0)
    np.testing.assert_array_equal(one.labels, two.labels)


def test_transformers_of_others_and_the_rand_index():
    pytest.importorskip("sklearn")
    from sklearn.cluster import KMeans
    from sklearn.kernel_approximation import Nystroem
    from sklearn.metrics import adjusted_rand_score, rand_score

    nystroem = Nystroem(gamma=0.05, n_components=40, random_state=0)
    found = kernel_kmeans(
        BLOBS + 3.0 * RNG.standard_normal(BLOBS.shape), 3, nystroem, random_state=0
    )
    assert not hasattr(nystroem, "components_") and hasattr(found.embedding, "components_")
    labels = KMeans(3, n_init=10, random_state=0).fit_predict(nystroem.fit_transform(BLOBS))
    ours = kernel_kmeans(BLOBS, 3, nystroem, random_state=0).labels
    assert adjusted_rand_score(labels, ours) == 1.0
    noisy = np.where(RNG.random(300) < 0.3, 0, found.labels)
    assert oracle.rand_index(noisy, found.labels) == pytest.approx(rand_score(noisy, found.labels))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((X, 0), {}, ValueError, "n_clusters=0: expected a whole number of at least 1"),
        ((X, 2), {"n_init": 0}, ValueError, "n_init=0"),
        (
            (X, 2, "fourier"),
            {},
            ValueError,
            "embedding='fourier': expected 'nystrom', 'kernel-pca', 'kernel-jl'",
        ),
        (
            (X, 2, KernelJL),
            {},
            TypeError,
            "embedding=.*KernelJL.*: expected .* an object with fit and transform",
        ),
        ((iter([X]), 2), {}, ValueError, "X is an iterator"),
        ((iter([X]), 2, KernelPCA()), {}, ValueError, "X is an iterator"),
        (
            (np.repeat(BLOBS[:4], 9, axis=0), 5),
            {},
            ValueError,
            "n_clusters=5: only 4 of the points are distinct",
        ),
        ((np.ones((9, 2)), 2), {}, ValueError, "all 9 points drawn from X are equal"),
    ],
)
def test_bad_input(arguments, options, error, message):
    with pytest.raises(error, match=message):
        kernel_kmeans(*arguments, **options)
