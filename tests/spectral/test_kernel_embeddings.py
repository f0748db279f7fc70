import tracemalloc
import warnings

import numpy as np
import pytest

from kmc.errors import KmcWarning
from kmc.kernels import Gaussian
from kmc.spectral import KernelJL, KernelPCA, NystromEmbedding
from kmc.spectral.kernel_embeddings import draw
from tests.oracles import sketches as oracle

EMBEDDINGS = [KernelJL, NystromEmbedding, KernelPCA]
BANDWIDTH = 1.3
RNG = np.random.default_rng(0)
POINTS, NEW = RNG.standard_normal((11, 2)), RNG.standard_normal((4, 2))
X = RNG.standard_normal((5000, 3))

# The formulas of the paper


def test_kernel_jl_is_the_sketch_of_the_paper():
    model = KernelJL(n_components=3, bandwidth=BANDWIDTH, random_state=1).fit(POINTS)
    expected = [oracle.kernel_jl(POINTS, x, model.sketch_, BANDWIDTH) for x in NEW]
    np.testing.assert_allclose(model.transform(NEW), expected, rtol=1e-10)


def test_without_centering_it_is_the_sketch_of_equation_1():
    model = KernelJL(n_components=3, bandwidth=BANDWIDTH, random_state=1, center=False).fit(POINTS)
    expected = [oracle.kernel_jl_uncentered(POINTS, x, model.sketch_, BANDWIDTH) for x in NEW]
    np.testing.assert_allclose(model.transform(NEW), expected, rtol=1e-10)
    with pytest.raises(TypeError, match="center='no'"):
        KernelJL(center="no").fit(POINTS)


def test_nystrom_is_the_rank_d_pseudo_inverse_of_the_paper():
    images = NystromEmbedding(n_components=4, bandwidth=BANDWIDTH).fit(POINTS).transform(NEW)
    assert images.shape == (4, 4)
    np.testing.assert_allclose(
        images @ images.T, oracle.nystrom_gram(POINTS, NEW, 4, BANDWIDTH), rtol=1e-10
    )


def test_kernel_pca_is_that_of_the_paper():
    images = KernelPCA(n_components=3, bandwidth=BANDWIDTH).fit(POINTS).transform(NEW)
    expected = np.array([oracle.kernel_pca(POINTS, x, 3, BANDWIDTH) for x in NEW])
    expected *= np.sign(expected[0] * images[0])
    np.testing.assert_allclose(images, expected, rtol=1e-9)


def test_inner_products_of_sketches_are_those_weighted_by_the_third_power_of_the_covariance():
    """Theorem 1: given the subsample, the mean over Z is exact, and the variance that of d products
    of Gaussians.
    """
    x, y = NEW[:1], NEW[1:2]
    expected = oracle.third_power(POINTS, x[0], y[0], BANDWIDTH)
    squares = [oracle.third_power(POINTS, p, p, BANDWIDTH) for p in (x[0], y[0])]
    d, repetitions = 20, 300
    products = []
    for seed in range(repetitions):
        model = KernelJL(n_components=d, bandwidth=BANDWIDTH, random_state=seed).fit(POINTS)
        products.append(float((model.transform(x) @ model.transform(y).T).item()))
    deviation = np.sqrt((squares[0] * squares[1] + expected**2) / d)
    assert abs(np.mean(products) - expected) < 4 * deviation / np.sqrt(repetitions)
    assert np.std(products) == pytest.approx(deviation, rel=4 / np.sqrt(2 * repetitions))
    assert abs(expected) > 10 * deviation / np.sqrt(repetitions)  # so that zero would not pass


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_an_offset_of_the_data_changes_nothing(embedding):
    one = embedding(n_components=4, random_state=0).fit(X[:200]).transform(X[200:210])
    two = embedding(n_components=4, random_state=0).fit(X[:200] + 1e5).transform(X[200:210] + 1e5)
    np.testing.assert_allclose(two, one, atol=1e-8 * np.abs(one).max())


# The subsample


def test_drawing_does_not_depend_on_how_the_data_are_cut():
    rows = np.arange(1000.0)[:, None]
    whole = draw([rows], 50, np.random.default_rng(3))
    assert len(np.unique(whole)) == 50
    parts = draw(iter([rows[:3], rows[3:3], rows[3:800], rows[800:]]), 50, np.random.default_rng(3))
    np.testing.assert_array_equal(whole, parts)
    np.testing.assert_array_equal(draw([rows], 2000, np.random.default_rng(3)), rows)


def test_every_row_is_drawn_as_often():
    rows, repetitions = np.arange(12.0)[:, None], 3000
    rng = np.random.default_rng(4)
    drawn = [draw(iter([rows[:5], rows[5:]]), 3, rng)[:, 0] for _ in range(repetitions)]
    counts = np.bincount(np.concatenate(drawn).astype(int), minlength=12)
    expected = repetitions * 3 / 12
    assert np.abs(counts - expected).max() < 4.5 * np.sqrt(expected * (1 - 3 / 12))


def test_data_made_with_the_same_seed_do_not_choose_the_subsample():
    uniform = np.random.default_rng(0).random((4000, 1))
    model = KernelJL(n_components=2, n_basis=100, random_state=0).fit(uniform)
    assert abs(model.landmarks_.mean() - 0.5) < 4 * np.sqrt(1 / 1200)
    normal = np.random.default_rng(0).standard_normal((400, 1))
    sketch = KernelJL(n_components=4, n_basis=400, random_state=0).fit(normal).sketch_
    numbers = np.concatenate([normal[:, 0], sketch.ravel()])
    assert len(np.unique(numbers)) == len(numbers)


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_a_fit_to_a_stream_holds_little_of_it(embedding):
    stream = (np.random.default_rng(k).standard_normal((10_000, 4)) for k in range(40))  # 12.8 MB
    model = embedding(n_components=4, n_basis=50)
    tracemalloc.start()
    try:
        model.fit(stream)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3e6


# Rank


@pytest.mark.parametrize(("embedding", "rank"), [(NystromEmbedding, 8), (KernelPCA, 7)])
def test_duplicates_do_not_add_to_the_rank(embedding, rank):
    repeated = np.repeat(POINTS[:8], 3, axis=0)
    message = (
        r"n_components=20: the .*kernel matrix of 24 points "
        rf"has rank {rank}, so there are {rank} components"
    )
    with pytest.warns(KmcWarning, match=message):
        model = embedding(n_components=20, bandwidth=BANDWIDTH).fit(repeated)
    images = model.transform(repeated)
    assert images.shape == (24, rank) and len(model.get_feature_names_out()) == rank
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = (
            embedding(n_components=rank, bandwidth=BANDWIDTH).fit(POINTS[:8]).transform(POINTS[:8])
        )
    np.testing.assert_allclose(images[::3] @ images[::3].T, alone @ alone.T, atol=1e-9)


def test_collinear_points_have_the_rank_of_their_kernel():
    line = np.linspace(0, 1, 30)[:, None] * [1.0, 2.0, 3.0]
    with pytest.warns(KmcWarning, match="has rank"):
        model = KernelPCA(n_components=25, bandwidth=5.0).fit(line)
    images = model.transform(line)
    np.testing.assert_allclose(images.mean(axis=0), 0.0, atol=1e-8)
    np.testing.assert_allclose(images.T @ images / 30, np.diag(model.eigenvalues_), atol=1e-8)
    assert images.shape[1] < 10


@pytest.mark.parametrize("bandwidth", [1e3, 1e5, 1e6])
def test_wide_kernels_leave_no_axes_of_rounding(bandwidth):
    """A wide Gaussian kernel is 1 - |x - y|²/2b² + O(b⁻⁴): linear components, then squares, then
    rounding.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KmcWarning)
        model = KernelPCA(n_components=30, bandwidth=bandwidth).fit(X[:100])
    assert len(model.eigenvalues_) <= 9
    covariance = np.linalg.eigvalsh(np.cov(X[:100].T, ddof=0))[::-1]
    np.testing.assert_allclose(bandwidth**2 * model.eigenvalues_[:3], covariance, rtol=1e-2)


# Bad input


@pytest.mark.parametrize("embedding", EMBEDDINGS)
@pytest.mark.parametrize(
    ("options", "data", "error", "message"),
    [
        ({}, np.ones((5, 2)), ValueError, r"all 5 points drawn from X are equal, \[1. 1.\]"),
        ({"bandwidth": 1.0}, np.ones((5, 2)), ValueError, "all 5 points drawn from X are equal"),
        ({}, np.ones((1, 2)), ValueError, "minimum of 2 is required"),
        ({}, lambda: iter([np.ones((1, 2))]), ValueError, "minimum of 2 is required"),
        ({}, lambda: iter([]), ValueError, "X has no rows"),
        (
            {},
            lambda: iter([np.zeros((3, 2)), np.zeros((3, 1))]),
            ValueError,
            "blocks of different widths",
        ),
        ({}, [np.zeros((3, 2)), np.array([[np.nan, 1.0]])], ValueError, "NaN or infinity"),
        (
            {"n_components": 0},
            X,
            ValueError,
            "n_components=0: expected a whole number of at least 1",
        ),
        ({"n_basis": 1}, X, ValueError, "n_basis=1: expected a whole number of at least 2"),
        (
            {"bandwidth": "cv"},
            X,
            ValueError,
            "bandwidth='cv': expected 'median' or a positive number",
        ),
        ({"kernel": "rbf"}, X, ValueError, "kernel='rbf': expected 'gaussian'"),
        ({"random_state": "a"}, X, TypeError, "random_state='a': expected None"),
    ],
)
def test_bad_input(embedding, options, data, error, message):
    with pytest.raises(error, match=message):
        embedding(**options).fit(data() if callable(data) else data)


@pytest.mark.parametrize("embedding", [KernelJL, KernelPCA])
def test_a_kernel_that_is_constant_over_the_points(embedding):
    with pytest.raises(ValueError, match="bandwidth: the kernel is constant over the points"):
        embedding(kernel=Gaussian(1.0), bandwidth=1e9).fit(X[:100])


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_what_can_be_read_once_cannot_be_fitted_and_transformed(embedding):
    with pytest.raises(ValueError, match="X is an iterator, which can be read only once"):
        embedding().fit_transform(iter([X]))
    with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 3"):
        embedding(n_components=2).fit(X).transform([X[:, :2]])
