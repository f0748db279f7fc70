"""The plain formulas compared with finite differences, and the estimators with the plain formulas."""

import numpy as np
import score_formulas as formulas

from kmc.scores import FullKEF, LiteKEF, NystromKEF

RNG = np.random.default_rng(0)
X, Y, POINTS = RNG.normal(size=(25, 3)), RNG.normal(size=(6, 3)), RNG.normal(size=(7, 3))
BANDWIDTH, REGULARIZATION = 1.3, 0.02
SIGMA = 2 * BANDWIDTH**2
OPTIONS = {"base": "uniform", "bandwidth": BANDWIDTH, "regularization": REGULARIZATION}


def kernel(x, y):
    return formulas.kernel_and_differences(x, y, SIGMA)[0]


def test_mixed_derivatives_are_those_of_the_kernel():
    h = 1e-4
    blocks = formulas.mixed_derivatives(X, Y, SIGMA).reshape(len(X), 3, len(Y), 3)
    for i, ei in enumerate(h * np.eye(3)):
        for j, ej in enumerate(h * np.eye(3)):
            corners = kernel(X + ei, Y + ej) - kernel(X - ei, Y + ej) - kernel(X + ei, Y - ej) + kernel(X - ei, Y - ej)
            assert np.allclose(blocks[:, i, :, j], corners / (4 * h**2), atol=1e-6)


def test_linear_term_is_that_of_the_kernel():
    """Σ_j ∂_i ∂²_{j+d} k(Y_a, X_b): differences in the landmark of Laplacians in the sample."""
    h = 1e-3

    def laplacian(y):
        shifted = sum(kernel(y, X + e) + kernel(y, X - e) - 2 * kernel(y, X) for e in h * np.eye(3))
        return shifted.mean(axis=1) / h**2

    found = formulas.linear_term(X, Y, SIGMA).reshape(Y.shape)
    for i, e in enumerate(h * np.eye(3)):
        assert np.allclose(found[:, i], (laplacian(Y + e) - laplacian(Y - e)) / (2 * h), atol=1e-4)


def test_blocks_of_samples_add_up():
    whole, parts = formulas.assemble(X, Y, SIGMA), formulas.assemble(X, Y, SIGMA, block=10)
    assert all(np.allclose(a, b, rtol=1e-12) for a, b in zip(whole, parts))


def test_nystrom_agrees():
    beta = formulas.fit_nystrom(X, Y, SIGMA, REGULARIZATION, jitter=1e-5)
    estimator = NystromKEF(landmarks=Y, jitter=1e-5, **OPTIONS).fit(X)
    for point, gradient in zip(POINTS, estimator.gradient(POINTS)):
        assert np.allclose(gradient, formulas.nystrom_gradient(point, Y, SIGMA, beta), rtol=1e-8, atol=1e-10)
        assert np.allclose(gradient, formulas.looped_gradient(point, Y, SIGMA, beta), rtol=1e-8, atol=1e-10)
        assert np.allclose(gradient, formulas.contracted_gradient(point, Y, SIGMA, beta), rtol=1e-8, atol=1e-10)


def test_full_agrees():
    beta = formulas.fit_full(X, SIGMA, REGULARIZATION)
    gradient = formulas.full_gradient(POINTS, X, SIGMA, REGULARIZATION, beta)
    assert np.allclose(FullKEF(solver="dense", **OPTIONS).fit(X).gradient(POINTS), gradient, rtol=1e-8, atol=1e-9)


def test_lite_agrees():
    alpha = formulas.fit_lite(X, SIGMA, REGULARIZATION)
    estimator = LiteKEF(landmarks=X, penalty="norm+coefficients", jitter=0.0, **OPTIONS).fit(X)
    assert np.allclose(estimator.gradient(POINTS), formulas.lite_gradient(POINTS, X, SIGMA, alpha), rtol=1e-8)
